"""The view `utilisation`: the share of the array that the work needs, and busy units, over time.

A PE is busy while a vector of a multiply that uses it passes; all vectors of a multiply count as
evenly spread between its first injection and its last. The first panel tells three things apart:
the multiply-adds that the work needs, whose area is the utilisation of the run; transposes; and the
rest, such as cells without a weight of the work, and further cycles of a vector. Of a program by
hand nobody says what it needs, so there all is busy. A unit is busy in cycles labelled "streaming".
"""

from __future__ import annotations

from collections.abc import Mapping
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
    NOTES_START,
    Sheet,
    cycle_scale,
    said_of,
    window_ticks,
)
from systolic.report.plots.stretches import Edges, Stretches, even_edges
from systolic.report.plots.subject import Multiply, PlotRun
from systolic.report.summary.wording import percent
from systolic.spans import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 260
"""Columns of the picture, fewer than pixels: an area that jumps at every pixel cannot be read."""
TALL, LOW, GAP = 1.2, 0.42, 0.16
BUSY = "streaming"
PES = "PEs"
PE_KINDS = {
    "needed": "needed: the utilisation",
    "transposes": "transposes",
    "rest": "busy besides",
    "busy": "of all PEs, multiplying",
}
"""What busy PEs do, and the words for it beside the panel."""

BusyShares = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Utilisation:
    """Shares of columns, 0 to 1: of all PEs, and of the cycles of each unit that was ever busy.

    pes: by what they do, one of PE_KINDS.
    """

    edges: Edges
    pes: dict[str, BusyShares]
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
        {kind: shares / widths for kind, shares in _pes(run, edges).items()},
        {unit: shares for unit, shares in units.items() if shares.any()},
    )


def _streaming(run: PlotRun, unit: str) -> Stretches:
    period = run.trace.periods[unit]
    return Stretches.of(
        (each.first * period, each.stop * period)
        for each in run.trace.labels[unit]
        if each.label == BUSY
    )


def _pes(run: PlotRun, edges: Edges) -> dict[str, BusyShares]:
    """Return, for each column, its ticks times the share of the PEs that were busy, by kind."""
    times = {each.instruction: each for each in run.trace.times}
    array = run.chip.pe_array
    rows = []
    for each in run.multiplies():
        first = times[each.instruction].first
        stop = times[each.instruction].last + each.vector_cycles * run.period
        cycles = array.rows * array.cols * (stop - first) / run.period
        rows.append((first, stop, [part / cycles for part in _parts(each)]))
    rows.sort()
    firsts, stops = (np.array([row[side] for row in rows], np.int64) for side in (0, 1))
    when = Stretches(firsts, stops)
    found = {
        kind: when.weighed(edges, np.array([row[2][place] for row in rows]))
        for place, kind in enumerate(PE_KINDS)
    }
    return {kind: shares for kind, shares in found.items() if shares.any()}


def _parts(each: Multiply) -> tuple[float, float, float, float]:
    """Return the PEs times cycles that a multiply takes, by PE_KINDS."""
    busy = each.pes * each.vectors * each.vector_cycles
    if each.needed is None:
        return 0, 0, 0, busy
    if each.is_turn:
        return 0, busy, 0, 0
    return each.needed, 0, max(busy - each.needed, 0), 0


def draw_utilisation(run: PlotRun, look: Look) -> Sheet:
    """Return the sheet."""
    cycles = look.shown(run.trace.cycles())
    found = utilisation(run, cycles)
    heights = [TALL, *(LOW for _ in found.units)]
    below = sum(heights) + GAP * len(found.units)
    columns = len(found.edges) - 1
    per_column = f"{cycles.count / columns:,.1f}".removesuffix(".0")
    said = f"{said_of(run, cycles)}; a column is {per_column} of them"
    sheet = Sheet(look, HEAD - 0.35 + below + FOOT, said)
    top = HEAD - 0.35
    colours = _pe_colours(look.theme)
    panels = {PES: found.pes, **{unit: {BUSY: each} for unit, each in found.units.items()}}
    for place, (name, shares) in enumerate(panels.items()):
        axes = sheet.axes(top, heights[place])
        _panel(axes, run, found, shares, theme=look.theme, colours=colours)
        _words(sheet, name, found, shares, top=top, height=heights[place])
        top += heights[place] + GAP
    cycle_scale(axes, run, cycles)
    return sheet


def _pe_colours(theme: Theme) -> dict[str, str]:
    activities = theme.activities
    return {
        "needed": activities["loading"],
        "transposes": theme.series_colour(3),
        "rest": activities["waiting"],
        "busy": activities["loading"],
        BUSY: activities["streaming"],
    }


def _panel(
    axes: Axes,
    run: PlotRun,
    found: Utilisation,
    shares: Mapping[str, BusyShares],
    *,
    theme: Theme,
    colours: Mapping[str, str],
) -> None:
    edges = found.edges / run.period
    cycles = Interval(int(edges[0]), int(edges[-1]))
    axes.set_xlim(*cycles)
    axes.set_ylim(0, 1)
    axes.yaxis.set_visible(True)
    axes.set_yticks([0, 0.5, 1], ["0 %", "", "100 %"], fontsize=style.TINY)
    ground(axes, cycles, 0, 1, theme.faint)
    below = np.zeros(len(edges) - 1)
    for kind, each in shares.items():
        area(axes, edges, below, below + each, colours[kind])
        below = below + each


def _words(
    sheet: Sheet,
    name: str,
    found: Utilisation,
    shares: Mapping[str, BusyShares],
    *,
    top: float,
    height: float,
) -> None:
    left, middle = MARGIN + NAMES, top + height / 2
    sheet.text(left - 0.52, middle, name, ha="right", va="center_baseline")
    colours = _pe_colours(sheet.theme)
    for place, (kind, each) in enumerate(shares.items()):
        y = middle + (place - (len(shares) - 1) / 2) * 0.2
        words = f"{percent(found.mean(each), 1)}  {PE_KINDS.get(kind, kind)}"
        if name == PES:
            sheet.swatches([(colours[kind], "")], NOTES_START, y)
        sheet.text(
            left + MIDDLE + (0.32 if name == PES else 0.12),
            y,
            words,
            fontsize=style.TINY + 0.5,
            va="center_baseline",
            color=sheet.theme.muted,
        )
