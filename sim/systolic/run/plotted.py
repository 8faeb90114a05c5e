"""A finished run as views are given it: records, names, and what its instructions do to memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from systolic.config.chip_file import chip_of_tables
from systolic.isa import Instruction, MatMul
from systolic.isa.access import Access
from systolic.isa.effects import reads, writes
from systolic.report.plots.subject import Multiply, PlotRun, PlotSummary, Touch
from systolic.run.again import entry
from systolic.run.lifetimes import lifetimes
from systolic.run.observe import observed
from systolic.run.result import Result


def plotted(result: Result) -> PlotRun:
    """Return what views are given of a run; it may have been for times only."""
    return PlotRun(
        summary=result.summary,
        chip=result.chip,
        observed=observed(result),
        touches=lambda: list(_touches(result)),
        multiplies=lambda: list(_multiplies(result)),
        lives=lambda: lifetimes(result.program, result.chip, result.trace),
    )


def plotted_summary(summary: Mapping[str, Any], origin: str) -> PlotSummary:
    """Return what views are given of a summary; messages on its chip call the file `origin`."""
    chip = entry(summary, "config", "chip")
    tables = chip if isinstance(chip, dict) else None
    return PlotSummary(summary, None if tables is None else chip_of_tables(tables, origin))


def _touches(result: Result) -> Iterator[Touch]:
    for index, instruction in enumerate(result.program.instructions):
        for access, is_write in _accesses(instruction):
            yield Touch(
                index, str(access.buffer), is_write, access.lanes, access.span, access.size_bytes
            )


def _accesses(instruction: Instruction) -> Iterator[tuple[Access, bool]]:
    for access in reads(instruction):
        yield access, False
    for access in writes(instruction):
        yield access, True


def _multiplies(result: Result) -> Iterator[Multiply]:
    cycles_of = result.chip.pe_array.cycles_per_vector
    for index, each in enumerate(result.program.instructions):
        if isinstance(each, MatMul):
            pes = each.moving.partitions * each.result.partitions
            yield Multiply(index, pes, each.moving.elements, cycles_of[each.moving.dtype])
