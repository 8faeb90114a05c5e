"""What is read of a row's run: the explicit table of measures, a function for each.

A function returns the value in the unit that `systolic.run.validation.units` multiplies from: a
time in ns, or in cycles where the row says so; rates in bytes/ns and GFLOPS; shares of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from math import prod
from typing import Any, get_args

from systolic.errors import ConfigError, listed, perhaps, shortened
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import DmaCopy, Program
from systolic.run.result import Result
from systolic.run.system import SystemResult
from systolic.run.validation.programs import (
    NAME,
    chip_of,
    is_legal,
    result_of_file,
    result_of_lines,
    system_of_file,
)
from systolic.run.validation.table import ValidationRow
from systolic.run.validation.units import CYCLES, UNITS_OF, factor_of, unit_of_cycles

LARGEST = 1 << 24
"""No search goes beyond this number: an access has no more elements in a partition."""


def measured(row: ValidationRow) -> float:
    """Return a row's value in its unit; SystolicError if the row cannot be run."""
    factor = factor_of(row.measure, row.unit)
    assert factor is not None
    return MEASURES[row.measure](row) * factor


# -- times and rates ------------------------------------------------------------------------------


def _length(row: ValidationRow) -> float:
    """Return the time from cycle 0 to the end of the run."""
    if (system := system_of_file(row)) is not None:
        return _told_of_system(row, system)
    result = _result(row)
    return _told(row, result.trace.ticks, result.chip)


def _told_of_system(row: ValidationRow, result: SystemResult) -> float:
    """Return the time of a system in ticks, which are cycles if it has one clock, or in ns."""
    ticks, mhz = result.outcome.ticks, result.system.network.ticks_mhz
    if row.unit == CYCLES:
        return ticks
    if unit_of_cycles(row.unit) is not None:
        raise ConfigError(f"{row.where}: unit: a system has no unit {row.unit.split()[0]}")
    if mhz is None:
        raise ConfigError(f"{row.where}: unit: {row.run} has no clock; needs one, or cycles")
    return ticks * 1000 / mhz


def _each(row: ValidationRow) -> float:
    """Return the time that one more repetition takes."""
    once, twice = _chains(row)
    return _told(row, twice.trace.ticks - once.trace.ticks, once.chip) / row.repeat


def _array_rate(row: ValidationRow) -> float:
    """Return floating-point operations per ns; with ``%``, of one multiply-add per PE and cycle."""
    made, ticks, chip = _more(row, Program.products)
    per_ns = 2 * made * chip.ticks_mhz / (1000 * ticks)
    array = chip.pe_array
    most = 2 * array.rows * array.cols * chip.clock_mhz("pe_array") / 1000
    return per_ns / most if row.unit == "%" else per_ns


def _dma_rate(row: ValidationRow) -> float:
    """Return copied bytes per ns; with ``%``, of what all DMA engines together move at most."""
    moved, ticks, chip = _more(row, _copied_bytes)
    per_ns = moved * chip.ticks_mhz / (1000 * ticks)
    most = chip.dma.engine_count * chip.dma.bytes_per_cycle * chip.clock_mhz("dma") / 1000
    return per_ns / most if row.unit == "%" else per_ns


def _more(row: ValidationRow, count: Callable[[Program], int]) -> tuple[int, int, Chip]:
    """Return a count, the ticks that it took, and the chip: of one more chain or a whole run."""
    if row.run:
        result = _result(row)
        return count(result.program), max(result.trace.ticks, 1), result.chip
    once, twice = _chains(row)
    ticks = max(twice.trace.ticks - once.trace.ticks, 1)
    return count(twice.program) - count(once.program), ticks, once.chip


def _copied_bytes(program: Program) -> int:
    copies = [each.target for each in program.instructions if isinstance(each, DmaCopy)]
    return sum(t.partitions * t.elements * data_type(t.dtype).size_bytes for t in copies)


def _result(row: ValidationRow) -> Result:
    _require_one_of(row, "run", "program")
    return result_of_file(row) if row.run else result_of_lines(row, chip_of(row), row.repeat)


def _chains(row: ValidationRow) -> tuple[Result, Result]:
    """Return the lines repeated, and repeated twice as often."""
    _require_one_of(row, "program")
    chip = chip_of(row)
    return result_of_lines(row, chip, row.repeat), result_of_lines(row, chip, 2 * row.repeat)


def _told(row: ValidationRow, ticks: int, chip: Chip) -> float:
    """Return ticks in cycles of the unit that the row names, or in ns."""
    unit = unit_of_cycles(row.unit)
    if unit is None:
        return ticks * 1000 / chip.ticks_mhz
    known = ("pe_array", *chip.lane_engines, "dma")
    if unit not in known:
        raise ConfigError(
            f'{row.where}: unit: the chip has no unit "{shortened(unit)}" '
            f"(it has: {', '.join(known)}){perhaps(unit, known)}"
        )
    return ticks / chip.period(unit)


# -- numbers of a summary, or of a chip -----------------------------------------------------------


def _summary(row: ValidationRow) -> float:
    """Return a number of summary.json, or the product of several."""
    return _product(row, _result(row).summary, "the summary")


def _chip(row: ValidationRow) -> float:
    """Return a number of the chip's tables, or the product of several."""
    return _product(row, chip_of(row).model_dump(), "the chip")


def _product(row: ValidationRow, tables: Mapping[str, Any], what: str) -> float:
    if not row.of:
        raise ConfigError(f"{row.where}: of: {row.measure} needs a dotted key, or several with *")
    return prod(_number_at(row, tables, key.strip(), what) for key in row.of.split("*"))


def _number_at(row: ValidationRow, tables: Mapping[str, Any], key: str, what: str) -> float:
    where = f"{row.where}: of: {what}"

    def below(table: Any, word: str) -> Any:
        if not isinstance(table, Mapping) or word not in table:
            known = [str(each) for each in table] if isinstance(table, Mapping) else []
            raise ConfigError(
                f'{where} has no "{shortened(key)}" (at "{shortened(word)}"; known there: '
                f"{listed(known)}){perhaps(word, known)}"
            )
        return table[word]

    value = reduce(below, key.split("."), tables)
    if not isinstance(value, get_args(int | float)):
        raise ConfigError(f'{where} has no number at "{shortened(key)}"')
    return float(value)


# -- what is legal --------------------------------------------------------------------------------


def _largest(row: ValidationRow) -> float:
    """Return the largest number that the lines are legal with in place of ``{n}``; 0: none is."""
    _require_one_of(row, "program")
    if NAME not in row.program:
        raise ConfigError(f"{row.where}: program: largest needs {NAME} in place of a number")
    chip = chip_of(row)
    first, beyond = 0, 1
    while beyond <= LARGEST and is_legal(row, chip, beyond):
        first, beyond = beyond, 2 * beyond
    while beyond - first > 1:
        middle = (first + beyond) // 2
        first, beyond = (middle, beyond) if is_legal(row, chip, middle) else (first, middle)
    return first


def _legal(row: ValidationRow) -> float:
    """Return 1 if the chip can execute the lines, else 0."""
    _require_one_of(row, "program")
    return float(is_legal(row, chip_of(row)))


def _require_one_of(row: ValidationRow, *columns: str) -> None:
    """Raise ConfigError unless just one of these columns, of `run` and `program`, has a value."""
    given = [name for name, text in (("run", row.run), ("program", row.program)) if text]
    if len(given) != 1 or given[0] not in columns:
        found = " and ".join(given) or "neither"
        raise ConfigError(f"{row.where}: {row.measure} needs {' or '.join(columns)}, found {found}")


MEASURES: Mapping[str, Callable[[ValidationRow], float]] = {
    "length": _length,
    "each": _each,
    "array_rate": _array_rate,
    "dma_rate": _dma_rate,
    "summary": _summary,
    "chip": _chip,
    "largest": _largest,
    "legal": _legal,
}
assert MEASURES.keys() == UNITS_OF.keys(), "a measure without units, or units without a measure"
