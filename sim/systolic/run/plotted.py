"""A finished run as views are given it: records, names, and what its instructions do to memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from systolic.bounds.multiply_adds import product_multiply_adds
from systolic.config.chip_file import chip_of_tables
from systolic.errors import SystolicError, printable
from systolic.isa import MatMul
from systolic.isa.streaming import streaming
from systolic.report.paper.saved import PICTURE_FORMATS
from systolic.report.paper.theme import THEME_NAMES
from systolic.report.plots.look import Look
from systolic.report.plots.subject import Multiply, PlotRun, PlotSummary, Touch
from systolic.report.plots.table import PLOTS, Plot
from systolic.run.again import entry
from systolic.run.chip_use import chip_use
from systolic.run.core_view import core_run
from systolic.run.folder import require_writable
from systolic.run.lifetimes import accesses_of, lifetimes
from systolic.run.observe import observed
from systolic.run.result import Result
from systolic.run.settings import require_known
from systolic.run.snapshot import core_of
from systolic.spans import Interval
from systolic.trace.words import KINDS

_Row = TypeVar("_Row")


def plotted(result: Result, core: str = "") -> PlotRun:
    """Return what views are given of a run; it may have been for times only.

    core: the one of several that they show; "": the whole chip.
    """
    if core:
        return core_run(result, core)
    return PlotRun(
        summary=result.summary,
        chip=result.chip,
        observed=observed(result),
        touches=lambda: list(_touches(result)),
        multiplies=lambda: list(_multiplies(result)),
        lives=lambda: lifetimes(result.program, result.chip, result.trace),
        chip_use=None if result.several is None else lambda: chip_use(result),
    )


def plotted_summary(summary: Mapping[str, Any], origin: str) -> PlotSummary:
    """Return what views are given of a summary; messages on its chip call the file `origin`."""
    chip = entry(summary, "config", "chip")
    tables = chip if isinstance(chip, dict) else None
    return PlotSummary(summary, None if tables is None else chip_of_tables(tables, origin))


def plot(
    result: Result,
    view: str,
    file: str | Path,
    *,
    cycles: Interval | None = None,
    theme: str = "light",
    core: str = "",
) -> Path:
    """Draw a view of a run, as `systolic plot VIEW` does, and return the file.

    view: a row of `systolic.report.plots.table.PLOTS`, such as "timeline". file: ends in .png, .svg
    or .pdf. cycles: of the array, that the picture shows (default: all). core: of several the one
    that a view of a core shows (default: "core0").

    Raises:
        SystolicError: there is no such view, format or theme, the view shows no run or needs
            records that this run has not kept, or the file cannot be written.

    """
    path = Path(file)
    found, form = _known("view", view, PLOTS), path.suffix.lower().removeprefix(".")
    look = Look(
        printable(result.summary["run"]),
        _known("format", form, {each: each for each in PICTURE_FORMATS}),
        _known("theme", theme, {each: each for each in THEME_NAMES}),
        cycles,
    )
    if found.given in ("shape", "network"):
        raise SystolicError(f"view {view}: shows a {found.given}, not a run")
    if found.records.grid and not result.trace.grid.matmuls:
        raise SystolicError(f"view {view}: needs a run with grid=True and kinds={KINDS}")
    require_writable(path)
    found.write(plotted(result, shown_core(result, found, core, "core")), look, path)
    return path


def shown_core(result: Result, plot: Plot, core: str, option: str) -> str:
    """Return the core that a view shows: the one asked for, else the first; "": all, or the only.

    option: the name of the option in messages.
    """
    if result.several is None or core or plot.of_a_core:
        return core_of(result, core, option)
    return ""


def _known(what: str, found: str, known: Mapping[str, _Row]) -> _Row:
    require_known(what, found, known)
    return known[found]


def _touches(result: Result) -> Iterator[Touch]:
    for index, instruction in enumerate(result.program.instructions):
        for access, is_write in accesses_of(instruction):
            yield Touch(
                index, str(access.buffer), is_write, access.lanes, access.span, access.size_bytes
            )


def _multiplies(result: Result) -> Iterator[Multiply]:
    made = list(_made_multiplies(result))
    if not result.compiled:
        yield from made
        return
    layers = result.compiled.synchronised.layers
    useful = product_multiply_adds(result.compiled.graph)
    work = Counter[str]()
    for each in made:
        work[layers[each.instruction]] += 0 if each.is_turn else each.pes * each.vectors
    for each in made:
        layer = layers[each.instruction]
        share = 0 if each.is_turn else each.pes * each.vectors / work[layer]
        yield each._replace(needed=useful.get(layer, 0) * share)


def _made_multiplies(result: Result) -> Iterator[Multiply]:
    array = result.chip.pe_array
    turning = result.compiled.turns if result.compiled else frozenset()
    for index, each in enumerate(result.program.instructions):
        if isinstance(each, MatMul):
            pes = each.moving.partitions * each.result.partitions
            cycles = streaming(each, array).vector_cycles
            yield Multiply(index, pes, each.vectors, cycles, is_turn=index in turning)
