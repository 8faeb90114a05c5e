"""The views `system` and `links`: a chip of several cores, and what goes between them, over time.

`system` has a lane for each core, which says what it did or waited for, and below them the shares
of links and controllers that were in use. `links` has links and controllers alone, with their
bytes. A copy counts as moving evenly from its first byte to its last. Areas are true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from systolic.errors import SystolicError
from systolic.report.paper import style
from systolic.report.plots.look import Look
from systolic.report.plots.marks import area, ground
from systolic.report.plots.sheet import (
    FOOT,
    HEAD,
    Sheet,
    Swatch,
    chip_text,
    cycle_scale,
    said_of,
    window_ticks,
)
from systolic.report.plots.stretches import Edges, Stretches, even_edges
from systolic.report.plots.subject import ChipUse, PlotRun, WayUse
from systolic.report.summary.cores import STATES
from systolic.report.summary.wording import number, percent
from systolic.spans import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 260
CORE, WAY, GAP = 0.5, 0.42, 0.14
WORDS = ("busy", "waiting for link", "waiting for DRAM", "waiting for another core")
ColumnShares = npt.NDArray[np.float64]


def draw_system(run: PlotRun, look: Look) -> Sheet:
    """Return the sheet of all cores, links and controllers."""
    use = _used(run, "system")
    return _sheet(run, look, use, cores=True)


def draw_links(run: PlotRun, look: Look) -> Sheet:
    """Return the sheet of links and controllers."""
    use = _used(run, "links")
    return _sheet(run, look, use, cores=False)


def core_shares(use: ChipUse, core: str, edges: Edges) -> dict[str, ColumnShares]:
    """Return, by state, which share of each column a core was in it; an earlier state counts."""
    widths, before = np.diff(edges), Stretches.of(())
    found, covered = dict[str, ColumnShares](), np.zeros(len(edges) - 1)
    for state in STATES:
        pairs = [*zip(before.firsts.tolist(), before.stops.tolist(), strict=True)]
        before = Stretches.of([*pairs, *use.cores[core][state]]).merged
        reached = before.per_column(edges) / widths
        found[state], covered = reached - covered, reached
    return found


def way_shares(use: ChipUse, name: str, edges: Edges) -> ColumnShares:
    """Return which share of what a link or controller can move it moved, in each column."""
    mine = sorted(each for each in use.uses if each.name == name)
    firsts, stops = (np.array([each[side] for each in mine], np.int64) for side in (1, 2))
    rates = np.array([_rate(each) for each in mine])
    moved = Stretches(firsts, stops).weighed(edges, rates)
    return np.asarray(moved / np.diff(edges) / use.capacity[name])


def _rate(use: WayUse) -> float:
    return use.size_bytes / max(1, use.stop - use.first)


def _used(run: PlotRun, view: str) -> ChipUse:
    if run.chip_use is None:
        raise SystolicError(
            f"view {view}: shows chips of several cores ([[cores]]), and {run.chip.name} has one"
        )
    return run.chip_use()


def _sheet(run: PlotRun, look: Look, use: ChipUse, *, cores: bool) -> Sheet:
    cycles = look.shown(run.trace.cycles())
    edges = even_edges(window_ticks(run, cycles), min(COLUMNS, cycles.count))
    colours = _colours(look)
    shown = list(use.cores) if cores else []
    ways = [name for name in use.capacity if any(each.name == name for each in use.uses)]
    height = len(shown) * (CORE + GAP) + len(ways) * (WAY + GAP)
    legend: list[Swatch] = [*zip(colours, WORDS, strict=True)] if cores else []
    legend += [(look.theme.activities["draining"], "share of a link or controller in use")]
    of_first_core, of_all = chip_text(run.chip), f"{run.chip.name}: {len(use.cores)} cores"
    said = said_of(run, cycles).replace(of_first_core, of_all, 1)
    sheet = Sheet(look, HEAD + max(height, WAY) + FOOT, said, legend)
    top, axes = HEAD, None
    for core in shown:
        axes = _lane(sheet, run, top, CORE, cycles)
        shares = core_shares(use, core, edges)
        _stack(axes, edges / run.period, shares, colours)
        sheet.beside(top + CORE / 2, core, _busy_text(shares, edges), style.SMALL)
        top += CORE + GAP
    for name in ways:
        axes = _lane(sheet, run, top, WAY, cycles)
        found = way_shares(use, name, edges)
        colour = look.theme.activities["draining"]
        area(axes, edges / run.period, np.zeros(len(found)), np.minimum(found, 1), colour)
        sheet.beside(top + WAY / 2, name, _way_text(use, name, found, edges), style.SMALL)
        top += WAY + GAP
    if axes is not None:
        cycle_scale(axes, run, cycles)
    return sheet


def _colours(look: Look) -> list[str]:
    theme = look.theme
    return [
        theme.activities["streaming"],
        theme.activities["loading"],
        theme.activities["filling"],
        theme.activities["waiting"],
    ]


def _lane(sheet: Sheet, run: PlotRun, top: float, height: float, cycles: Interval) -> Axes:
    axes = sheet.axes(top, height)
    axes.set_xlim(*cycles)
    axes.set_ylim(0, 1)
    ground(axes, cycles, 0, 1, sheet.theme.faint)
    return axes


def _stack(axes: Axes, edges: Edges, shares: dict[str, ColumnShares], colours: list[str]) -> None:
    below = np.zeros(len(edges) - 1)
    for state, colour in zip(shares, colours, strict=True):
        above = below + shares[state]
        area(axes, edges, below, above, colour)
        below = above


def _busy_text(shares: dict[str, ColumnShares], edges: Edges) -> str:
    widths = np.diff(edges)
    busy = float((shares["busy"] * widths).sum())
    return f"{percent(busy, float(widths.sum()))}  busy"


def _way_text(use: ChipUse, name: str, shares: ColumnShares, edges: Edges) -> str:
    widths = np.diff(edges)
    mean = float((shares * widths).sum())
    size = sum(each.size_bytes for each in use.uses if each.name == name)
    return f"{percent(mean, float(widths.sum()))}  of it, {number(size)} bytes"
