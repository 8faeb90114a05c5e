"""Which engines of a chip may execute an instruction, and how fast: for legality, lint, compiler.

The two engines that simulate the machine find the rate of an instruction on their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from systolic.hw.spec import Chip, Engine, Gathers, Rate
from systolic.isa.access import Access, Buffer
from systolic.isa.effects import (
    accesses,
    calculation,
    capability,
    reads_beside,
    reads_per_element,
    scales_of,
    steps,
    target_of,
    window,
)
from systolic.isa.instruction import DmaCopy, Instruction, LocalGather, Memset, OnEngine
from systolic.isa.opcodes import BY_CLASS


class Pace(NamedTuple):
    """An instruction takes groups of `elements` elements, each in `cycles` cycles.

    cycles: 1 or more; cycles of several groups are rounded up together. fixed_cycles: before the
    first. interval_cycles: the least number from its start to the next instruction's.
    """

    elements: int
    cycles: Fraction
    fixed_cycles: int
    interval_cycles: int

    def cycles_for(self, elements: int) -> int:
        """Return the cycles that some elements of a lane take."""
        each, of = self.cycles.as_integer_ratio()
        return -(-(-(-elements // self.elements) * each) // of)


def able_engines(instruction: OnEngine, chip: Chip) -> list[str]:
    """Return the engines of the chip that do what the instruction is, in the chip's order."""
    word = capability(instruction)
    return [
        name
        for name, engine in chip.lane_engines.items()
        if word in engine.does and calculates(instruction, engine)
    ]


def calculates(instruction: OnEngine, engine: Engine) -> bool:
    """Return whether the engine knows the function of an instruction that it does."""
    known = engine.functions_with(capability(instruction))
    return known is None or calculation(instruction) in known


def functions_of(engine: Engine, word: str) -> str:
    """Return what an engine calculates with an instruction, for messages."""
    return ", ".join(engine.functions_with(word) or ("any function",))


def out_of_reach(instruction: OnEngine, engine: Engine) -> Iterator[tuple[str, str, Access]]:
    """Yield (field, "reads" or "writes", access) of what lies where the engine does not reach."""
    operands = BY_CLASS[type(instruction)].operands
    for verb, names, buffers in (
        ("reads", operands.reads + operands.per_lane + operands.beside, engine.reads),
        ("writes", operands.writes + operands.results + operands.scales, engine.writes),
    ):
        for name in names:
            value = getattr(instruction, name)
            if isinstance(value, Access) and value.buffer.value not in buffers:
                yield name, verb, value


def too_many_results(instruction: OnEngine, engine: Engine) -> bool:
    """Return whether more operands lie in the result buffer than the engine can read together."""
    most = engine.result_operands
    sums = [a for a in reads_per_element(instruction) if a.buffer is Buffer.RESULT]
    return most is not None and len(sums) > most


def access_faults(instruction: Instruction, chip: Chip) -> Iterator[tuple[str, str]]:
    """Yield the field of each access that the chip cannot make, and what is wrong with it.

    DMA copies reach everything. Scales lie in some of the partitions of their data, which the
    rules of first partitions are not about.
    """
    rules = chip.access
    if rules.are_none or isinstance(instruction, DmaCopy):
        return
    scales = scales_of(instruction)
    for name, access in accesses(instruction):
        if access is scales:
            fault = rules.pattern_fault(access.pattern)
        else:
            fault = rules.fault(access.partition, access.partitions, access.pattern)
        if fault:
            yield name, fault


def table_loaded(instruction: OnEngine, engine: Engine, held: int | None) -> int | None:
    """Return the number of the table that an engine loads for an instruction; None if it has it.

    held: the number of the table that it has. An instruction looks up the first of its words that
    stands in a table.
    """
    for word in steps(instruction):
        found = [number for number, table in enumerate(engine.tables) if word in table]
        if found:
            return None if held in found else found[0]
    return None


def pace_of(instruction: OnEngine, engine: Engine, chip: Chip) -> Pace:
    """Return how fast an engine of the chip executes an instruction.

    The first rate that fits it counts, and what passes the ports of the state buffer in a cycle: a
    group of more elements is cut into such as pass, which are no faster together. An element that
    no port passes is refused elsewhere, and counts as one that does.
    """
    row = _fitting(engine, instruction)
    most, cycles, fixed = engine.elements_per_cycle, 1, engine.fixed_cycles
    interval = engine.min_interval_cycles
    if row is not None:
        most, cycles = row.elements, row.cycles
        fixed = fixed if row.fixed_cycles is None else row.fixed_cycles
        fixed += (row.cycles_per_result or 0) * target_of(instruction).elements
        interval = interval if row.min_interval_cycles is None else row.min_interval_cycles
    if isinstance(instruction, LocalGather) and engine.gathers is not None:
        most, cycles = _gathered(instruction, engine.gathers)
        elements = max(1, min([-(-most // cycles), *_passing(instruction, chip)]))
    else:
        elements = max(1, min([most, *_passing(instruction, chip)]))
    return _pace(elements, cycles * elements, most, fixed, interval)


def _gathered(gather: LocalGather, cost: Gathers) -> tuple[int, int]:
    """Return (elements, cycles): the elements of a gather that take these cycles."""
    size, whole = gather.source.element_bytes, cost.element_cycles * gather.each
    return (cost.index_cycles + whole) * size, whole * min(cost.word_bytes, gather.each * size)


@lru_cache(maxsize=4096)
def _pace(elements: int, cycles: int, most: int, fixed: int, interval: int) -> Pace:
    """Return a pace of `cycles / most` cycles, one at least: few in a program."""
    return Pace(elements, max(Fraction(1), Fraction(cycles, most)), fixed, max(1, interval))


def _passing(instruction: OnEngine, chip: Chip) -> list[int]:
    """Return how many elements pass each port of the state buffer that the instruction needs."""
    width, target = chip.port_width_bytes, target_of(instruction)
    found = [
        width // access.element_bytes
        for access in (*reads_per_element(instruction), *reads_beside(instruction))
        if access.buffer is Buffer.STATE
    ]
    if target.buffer is Buffer.STATE:
        found.append(width // target.element_bytes * window(instruction))
    return found


def _fitting(engine: Engine, instruction: OnEngine) -> Rate | None:
    """Return the first rate of an engine that an instruction fits."""
    if not engine.rates:
        return None
    word, calculated = capability(instruction), calculation(instruction)
    operands, target = reads_per_element(instruction), target_of(instruction)
    buffers = sorted([access.buffer.value for access in operands])
    types = {access.dtype for access in (*operands, target)}
    for row in engine.rates:
        if (
            (not row.does or word in row.does)
            and (not row.functions or calculated in row.functions)
            and (row.value is None or _fills_with(instruction, row.value))
            and (row.operands is None or buffers == sorted(row.operands))
            and (row.target is None or target.buffer.value == row.target)
            and (not row.types or types.issubset(row.types))
            and (
                row.stride_bytes is None
                or max(map(stride_bytes, (*operands, target))) <= row.stride_bytes
            )
        ):
            return row
    return None


def _fills_with(instruction: OnEngine, value: float) -> bool:
    return isinstance(instruction, Memset) and instruction.value == value


def stride_bytes(access: Access) -> int:
    """Return the bytes from an element to the next in the innermost pair of more than one."""
    steps = [abs(step) for step, count in access.pattern if count > 1]
    return steps[-1] * access.element_bytes if steps else 0
