"""The view `utilisation`: which share of the PEs, and of every unit's cycles, was busy, over time.

A PE is busy while a vector of a multiply that uses it passes; all vectors of a multiply count as
evenly spread between its first injection and its last. A unit is busy in cycles labelled
"streaming". Areas are true: the area of the first panel is the utilisation of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from systolic.report.paper import style
from systolic.report.paper.theme import Theme
from systolic.report.plots.look import Look
from systolic.report.plots.marks import area, ground
from systolic.report.plots.sheet import (
    FOOT,
    HEAD,
    MARGIN,
    MIDDLE,
    NAMES,
    Sheet,
    cycle_scale,
    said_of,
    window_ticks,
)
from systolic.report.plots.stretches import Edges, Stretches, even_edges
from systolic.report.plots.subject import PlotRun
from systolic.report.summary.wording import percent
from systolic.spans import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 260
"""Columns of the picture, fewer than pixels: an area that jumps at every pixel cannot be read."""
TALL, LOW, GAP = 1.2, 0.42, 0.16
BUSY = "streaming"
PES = "PEs"

BusyShares = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Utilisation:
    """Shares of columns, 0 to 1: of all PEs, and of the cycles of each unit that was ever busy."""

    edges: Edges
    pes: BusyShares
    units: dict[str, BusyShares]

    def mean(self, shares: BusyShares) -> float:
        """Return the share of the whole window."""
        widths = np.diff(self.edges)
        return float((shares * widths).sum() / widths.sum())


def utilisation(run: PlotRun, cycles: Interval) -> Utilisation:
    """Return the shares in a window of cycles of the array."""
    edges = even_edges(window_ticks(run, cycles), min(COLUMNS, cycles.count))
    widths = np.diff(edges)
    units = {unit: _streaming(run, unit).per_column(edges) / widths for unit in run.trace.labels}
    return Utilisation(
        edges,
        _pes(run, edges) / widths,
        {unit: shares for unit, shares in units.items() if shares.any()},
    )


def _streaming(run: PlotRun, unit: str) -> Stretches:
    period = run.trace.periods[unit]
    return Stretches.of(
        (each.first * period, each.stop * period)
        for each in run.trace.labels[unit]
        if each.label == BUSY
    )


def _pes(run: PlotRun, edges: Edges) -> BusyShares:
    """Return, for each column, its ticks times the share of the PEs that were busy in them."""
    times = {each.instruction: each for each in run.trace.times}
    array = run.chip.pe_array
    rows = []
    for each in run.multiplies():
        first = times[each.instruction].first
        stop = times[each.instruction].last + each.vector_cycles * run.period
        share = each.pes / (array.rows * array.cols)
        busy = each.vectors * each.vector_cycles * run.period / (stop - first)
        rows.append((first, stop, share * busy))
    rows.sort()
    firsts, stops = (np.array([row[side] for row in rows], np.int64) for side in (0, 1))
    return Stretches(firsts, stops).weighed(edges, np.array([row[2] for row in rows]))


def draw_utilisation(run: PlotRun, look: Look) -> Sheet:
    """Return the sheet."""
    cycles = look.shown(run.trace.cycles())
    found = utilisation(run, cycles)
    heights = [TALL, *(LOW for _ in found.units)]
    below = sum(heights) + GAP * len(found.units)
    per_column = f"{cycles.count / len(found.pes):,.1f}".removesuffix(".0")
    said = f"{said_of(run, cycles)}; a column is {per_column} of them"
    sheet = Sheet(look, HEAD - 0.35 + below + FOOT, said)
    top = HEAD - 0.35
    for place, (name, shares) in enumerate({PES: found.pes, **found.units}.items()):
        axes = sheet.axes(top, heights[place])
        colour = look.theme.activities["loading" if name == PES else "streaming"]
        _panel(axes, run, found, shares, theme=look.theme, colour=colour)
        _words(sheet, name, found.mean(shares), top + heights[place] / 2)
        top += heights[place] + GAP
    cycle_scale(axes, run, cycles)
    return sheet


def _panel(
    axes: Axes, run: PlotRun, found: Utilisation, shares: BusyShares, *, theme: Theme, colour: str
) -> None:
    edges = found.edges / run.period
    cycles = Interval(int(edges[0]), int(edges[-1]))
    axes.set_xlim(*cycles)
    axes.set_ylim(0, 1)
    axes.yaxis.set_visible(True)
    axes.set_yticks([0, 0.5, 1], ["0 %", "", "100 %"], fontsize=style.TINY)
    ground(axes, cycles, 0, 1, theme.faint)
    area(axes, edges, np.zeros(len(shares)), shares, colour)


def _words(sheet: Sheet, name: str, mean: float, middle: float) -> None:
    left = MARGIN + NAMES
    sheet.text(left - 0.52, middle, name, ha="right", va="center_baseline")
    what = "of all PEs, multiplying" if name == PES else BUSY
    sheet.text(
        left + MIDDLE + 0.12,
        middle,
        f"{percent(mean, 1)}  {what}",
        fontsize=style.TINY + 0.5,
        va="center_baseline",
        color=sheet.theme.muted,
    )
