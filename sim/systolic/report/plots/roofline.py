"""The view `roofline`: how near each operation comes to what array and DRAM allow it.

Across is how many multiply-adds an operation does for each byte that it moves from or to DRAM, up
is how many it does in a cycle, of those in which the array is at it. The flat part of the roof is
the whole array, which none exceeds; the slope is DRAM at its full rate. A point may lie above the
slope, if its bytes move while the array is at another operation. Everything is in the summary and
the chip.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from systolic.errors import SystolicError
from systolic.hw.formulas.dram import dram_rate
from systolic.hw.spec import Chip
from systolic.report.paper import style
from systolic.report.plots.layers import LONGEST_NAME
from systolic.report.plots.look import Look
from systolic.report.plots.sheet import (
    FOOT,
    HEAD,
    MARGIN,
    NOTES,
    WIDTH,
    Sheet,
    chip_text,
)
from systolic.report.plots.subject import PlotSummary
from systolic.report.summary.wording import number, percent, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT, SCALE = 5.4, 0.75
"""The height of the axes, and the room at their left for the scale, in inches."""
ACROSS = WIDTH - 2 * MARGIN - SCALE - NOTES - 0.2
BESIDE = 0.14
"""From a point to its number, and from one place for it to the next, in inches."""
MOST_LISTED, LINE = 72, 0.16
"""Names in the list at the right, and the height of one in inches."""
RUN = "whole run"


class RoofPoint(NamedTuple):
    """An operation, or the run: its work, its bytes in DRAM, the array's cycles at it."""

    name: str
    multiply_adds: int
    dram_bytes: int
    cycles: int

    @property
    def intensity(self) -> float:
        """Return multiply-adds for each byte; infinite if it moves none."""
        return self.multiply_adds / self.dram_bytes if self.dram_bytes else math.inf

    @property
    def rate(self) -> float:
        """Return multiply-adds in a cycle."""
        return self.multiply_adds / self.cycles


@dataclass(frozen=True, slots=True)
class Roof:
    """What a chip can do in a cycle of its array.

    pes: of the array. flats: multiply-adds, and the types that reach it, the most
    first. dram_bytes: that DRAM and all DMA queues move.
    """

    pes: int

    flats: tuple[tuple[float, str], ...]
    dram_bytes: float

    def at(self, intensity: float) -> float:
        """Return the most multiply-adds in a cycle at an intensity."""
        return min(self.flats[0][0], self.dram_bytes * intensity)


def roof_of(chip: Chip) -> Roof:
    """Return the roof of a chip."""
    types = defaultdict[int, list[str]](list)
    for name in chip.pe_array.cycles_per_vector:
        types[chip.pe_array.vector_cycles(name)].append(name)
    pes = chip.pe_array.rows * chip.pe_array.cols
    flats = tuple((pes / cycles, ", ".join(names)) for cycles, names in sorted(types.items()))
    clocks = chip.period("pe_array") / chip.period("dma")
    return Roof(pes, flats, dram_rate(chip, chip.dma.queues) * clocks)


def roof_points(summary: Mapping[str, Any]) -> list[RoofPoint]:
    """Return a point for each operation that multiplies, and one for the run.

    SystolicError if no operation does.
    """
    timed = [(each, each.get("array", each)) for each in summary.get("operations", ())]
    points = [
        RoofPoint(each["name"], each["multiply_adds"], each["dram_bytes"], taken["cycles"])
        for each, taken in timed  # a summary of version 0.1 has only the time under way
        if each["multiply_adds"] and taken["cycles"]
    ]
    if not points:
        raise SystolicError(
            f"{summary['run']}: has no operation that multiplies; needed the run of a graph with "
            "products"
        )
    work = sum(point.multiply_adds for point in points)
    return [*points, RoofPoint(RUN, work, summary["dram_bytes"], summary["cycles"])]


def draw_roofline(subject: PlotSummary, look: Look) -> Sheet:
    """Return the sheet."""
    points = roof_points(subject.summary)
    if subject.chip is None:
        raise SystolicError(f"{subject.summary['run']}: its summary has no tables of the chip")
    roof, listed = roof_of(subject.chip), listed_points(points)
    height = max(HEIGHT, (len(listed) + 2) * LINE)
    sheet = Sheet(look, HEAD + height + FOOT, _said(subject, subject.chip, len(points) - 1))
    axes = sheet.axes(HEAD - 0.2, HEIGHT, MARGIN + SCALE, ACROSS)
    low, high = _scales(axes, points, roof)
    _roof(axes, sheet, roof, (low, high))
    places = [_point(axes, sheet, point, high) for point in points]
    _numbers(axes, sheet, places)
    _list(sheet, points, listed, roof)
    return sheet


def listed_points(points: Sequence[RoofPoint]) -> list[int]:
    """Return the places of the points whose names are listed: all, or the longest, and the run."""
    *places, run = range(len(points))
    longest = sorted(places, key=lambda place: -points[place].cycles)[:MOST_LISTED]
    return [*sorted(longest), run]


def _said(subject: PlotSummary, chip: Chip, points: int) -> str:
    summary = subject.summary
    without = len(summary["operations"]) - points
    said = f"{chip_text(chip)}; {plural(summary['cycles'], 'cycle')}"
    if without:
        said += f"; {plural(without, 'operation')} without multiplications"
    return said + ". Above the slope: bytes moved while the array was at other operations"


def _scales(axes: Axes, points: Sequence[RoofPoint], roof: Roof) -> tuple[float, float]:
    """Give the axes logarithmic scales; return the least and the greatest intensity."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    ridge = roof.flats[0][0] / roof.dram_bytes
    finite = [point.intensity for point in points if point.dram_bytes] or [ridge]
    low = 10 ** math.floor(math.log10(min(*finite, ridge) / 2))
    high = 10 ** math.ceil(math.log10(max(*finite, ridge) * 2))
    slowest = min(min(point.rate for point in points), roof.at(low))
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(low, high),
        ylim=(10 ** math.floor(math.log10(slowest)), roof.flats[0][0] * 3),
        xlabel="multiply-adds for each byte from or to DRAM",
        ylabel="multiply-adds in a cycle, while the array is at it",
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_visible(True)
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
        axis.set_minor_locator(NullLocator())
    return low, high


def _roof(axes: Axes, sheet: Sheet, roof: Roof, ends: tuple[float, float]) -> None:
    from systolic.report.paper.lettering import text_inches

    theme, (low, high) = sheet.theme, ends
    axes.grid(visible=True, which="major", color=theme.hair, linewidth=0.5)
    axes.set_axisbelow(True)
    for place, (flat, types) in enumerate(roof.flats):
        ridge = flat / roof.dram_bytes
        ink = theme.ink if place == 0 else theme.muted
        axes.plot([ridge, high], [flat, flat], color=ink, linewidth=1.6)
        axes.text(
            high,
            flat * 1.12,
            f"{number(round(flat))} a cycle: {types} ",
            ha="right",
            color=ink,
            fontsize=style.SMALL,
            parse_math=False,
        )
    ridge = roof.flats[0][0] / roof.dram_bytes
    axes.plot(
        [low, ridge], [low * roof.dram_bytes, roof.flats[0][0]], color=theme.ink, linewidth=1.6
    )
    middle = low**0.35 * ridge**0.65
    said, at = f"DRAM: {roof.dram_bytes:,.4g} bytes a cycle", (middle, middle * roof.dram_bytes)
    room = (axes.transData.transform(at)[0] - axes.bbox.x0) / style.DPI
    is_above = room > text_inches(said, style.SMALL) + 0.2
    axes.annotate(
        said,
        at,
        xytext=(-8, 4) if is_above else (8, -12),
        textcoords="offset points",
        ha="right" if is_above else "left",
        fontsize=style.SMALL,
        color=theme.ink,
    )


def _point(axes: Axes, sheet: Sheet, point: RoofPoint, high: float) -> tuple[float, float]:
    """Draw a point, and return where it is."""
    theme, beyond, is_run = sheet.theme, not point.dram_bytes, point.name == RUN
    x = high / 1.25 if beyond else point.intensity
    axes.plot(
        [x],
        [point.rate],
        marker=">" if beyond else "D" if is_run else "o",
        markersize=9 if is_run else 7,
        color=theme.paper if is_run else theme.series_colour(0),
        markeredgecolor=theme.ink,
        markeredgewidth=0.8,
        zorder=4,
    )
    return x, point.rate


def _numbers(axes: Axes, sheet: Sheet, points: Sequence[tuple[float, float]]) -> None:
    """Write the number of each point but the last, which is the run, beside it where there is room.

    A number goes to the right, as far as it must to lie on nothing; at the right edge to the left.
    """
    places = [tuple(axes.transData.transform(point) / style.DPI) for point in points]
    taken, edge = list(places), axes.transAxes.transform((1, 1))[0] / style.DPI
    for place, (x, y) in enumerate(places[:-1], 1):
        side = 1 if x + 2 * BESIDE < edge else -1
        steps = (x + side * BESIDE * step for step in count(1))
        free = next(at for at in steps if not any(_lie_on((at, y), other) for other in taken))
        taken.append((free, y))
        axes.annotate(
            str(place),
            points[place - 1],
            xytext=((free - x) * 72, 0),
            zorder=5,
            bbox={"facecolor": sheet.theme.paper, "linewidth": 0, "pad": 0.6},
            textcoords="offset points",
            ha="center",
            va="center_baseline",
            fontsize=style.TINY,
            color=sheet.theme.ink,
        )


def _lie_on(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return abs(one[0] - other[0]) < BESIDE * 0.9 and abs(one[1] - other[1]) < BESIDE * 0.6


def _list(sheet: Sheet, points: Sequence[RoofPoint], listed: Sequence[int], roof: Roof) -> None:
    """Write number, name and utilisation of each point that is listed, at the right."""
    left, top = WIDTH - MARGIN - NOTES, HEAD - 0.2
    sheet.text(left, top, "utilisation", fontsize=style.SMALL, color=sheet.theme.muted)
    left_out = len(points) - len(listed)
    if left_out:
        y = top + 0.06 + (len(listed) + 1) * LINE
        sheet.text(left + 0.85, y, f"and {left_out} shorter", fontsize=style.SMALL)
    for line, place in enumerate(listed, 1):
        point = points[place]
        share = percent(point.rate / roof.pes, 1)
        mark = "\N{WHITE DIAMOND}" if place == len(points) - 1 else str(place + 1)
        name = point.name
        if len(name) > LONGEST_NAME:
            name = name[: LONGEST_NAME - 3] + "..."
        y = top + 0.06 + line * LINE
        sheet.text(left + 0.15, y, mark, fontsize=style.SMALL, ha="center")
        sheet.text(left + 0.75, y, share, fontsize=style.SMALL, ha="right")
        sheet.text(left + 0.85, y, name, fontsize=style.SMALL)
