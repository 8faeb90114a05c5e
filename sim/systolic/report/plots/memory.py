"""The view `memory`: what lies where in the state buffer, and for how long it is of use.

A box is what one instruction wrote: its bytes up, from its writing to its last read across. Above
it is how many bytes are alive at a time. Boxes of different partitions lie on top of each other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from systolic.report.paper import style
from systolic.report.paper.theme import Theme
from systolic.report.plots.colours import colours_apart, spans_of
from systolic.report.plots.look import Look
from systolic.report.plots.marks import ground
from systolic.report.plots.sheet import (
    COLUMNS,
    FOOT,
    HEAD,
    MIDDLE,
    NOTES_START,
    Sheet,
    cycle_scale,
    said_of,
    window_ticks,
)
from systolic.report.plots.stretches import Edges, Stretches, even_edges, runs_of
from systolic.report.plots.subject import Life, PlotRun
from systolic.report.summary.wording import number, percent
from systolic.spans import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILL, MAP, GAP = 0.9, 4.2, 0.25
"""Heights in inches: of the bytes alive over time, and of the map."""
MOST_BOXES = 6000
"""If there are more lives, lives of equal bytes and operation are joined, column by column."""
OUTLINE, LEAST_OUTLINED = 0.3, 0.03
"""How wide an outline is, in points, and from which height in inches on a box has one."""
MOST_NAMES, MOST_SWATCHES = 150, 7
THERE = "at cycle 0"
MOST_STRETCHES, LEAST_HEIGHT, BETWEEN = 24, 0.03, 0.012
"""Of bytes in use: how many are told apart, the least height of one, and the room between two."""


def alive(lives: Sequence[Life], edges: Edges) -> np.ndarray:
    """Return how many bytes are alive in each column, on the average."""
    ordered = sorted(lives, key=lambda life: life.first)
    found = Stretches(
        np.array([life.first for life in ordered], np.int64),
        np.array([life.stop for life in ordered], np.int64),
    )
    weights = np.array([life.size_bytes for life in ordered], np.int64)
    return np.asarray(found.weighed(edges, weights) / np.diff(edges))


class MemoryBox(NamedTuple):
    """A box of the map: what wrote it, bytes of a partition, and ticks."""

    name: str
    bytes: Interval
    first: float
    stop: float


def memory_boxes(lives: Sequence[Life], names: Sequence[str], window: Interval) -> list[MemoryBox]:
    """Return the boxes of lives in a window, each with a name.

    Where there are too many, lives of equal bytes and name are joined in columns of the picture, so
    that none is lost.
    """
    edges, least = even_edges(window, COLUMNS), window.count / COLUMNS
    groups = defaultdict[tuple[str, Interval], list[tuple[int, int]]](list)
    for life, name in zip(lives, names, strict=True):
        groups[name, life.bytes].append((life.first, life.stop))
    found = []
    for (name, where), pairs in groups.items():
        stretches = Stretches.of(pairs).within(window)
        if len(lives) > MOST_BOXES:
            ends = [
                (edges[first], edges[stop]) for first, stop in runs_of(stretches.touched(edges))
            ]
        else:
            ends = list(zip(stretches.firsts, stretches.stops, strict=True))
        found += [MemoryBox(name, where, first, max(stop, first + least)) for first, stop in ends]
    return sorted(found, key=lambda box: box.first)


@dataclass(frozen=True, eq=False)
class ByteScale:
    """Bytes of a partition as places down the map: stretches in use, without what lies between.

    used: the stretches. tops, bottoms: where each begins and ends on the map, 0 to 1.
    """

    used: tuple[Interval, ...]
    tops: tuple[float, ...]
    bottoms: tuple[float, ...]

    @classmethod
    def of(cls, boxes: Sequence[Interval]) -> ByteScale:
        """Return the scale of the bytes of all boxes, with at most MOST_STRETCHES stretches."""
        merged = Stretches.of((each.first, each.stop) for each in boxes).merged
        used = [Interval(int(f), int(s)) for f, s in zip(merged.firsts, merged.stops, strict=True)]
        while len(used) > MOST_STRETCHES:
            gaps = [(b.first - a.stop, place) for place, (a, b) in enumerate(pairwise(used))]
            _, place = min(gaps)
            used[place : place + 2] = [Interval(used[place].first, used[place + 1].stop)]
        total = sum(each.count for each in used)
        heights = [max(each.count / total, LEAST_HEIGHT) for each in used]
        whole = sum(heights) + BETWEEN * (len(used) - 1)
        tops = [(sum(heights[:n]) + BETWEEN * n) / whole for n in range(len(used))]
        bottoms = [top + each / whole for top, each in zip(tops, heights, strict=True)]
        return cls(tuple(used), tuple(tops), tuple(bottoms))

    def place(self, byte: int) -> float:
        """Return where a byte, or the end of one, is on the map."""
        ends = [end for each in self.used for end in each]
        places = [p for pair in zip(self.tops, self.bottoms, strict=True) for p in pair]
        return float(np.interp(byte, ends, places))


def draw_memory(run: PlotRun, look: Look) -> Sheet:
    """Return the sheet."""
    cycles = look.shown(run.trace.cycles())
    window = window_ticks(run, cycles)
    lives = [each for each in run.lives() if each.first < window.stop and each.stop > window.first]
    names = [_name(run, life) for life in lives]
    colour_of = memory_colours(run, look.theme)
    legend = [(colour_of[name], name) for name in largest(lives, names)]
    left_out = len(legend) - MOST_SWATCHES
    if left_out > 0:
        legend = [*legend[:MOST_SWATCHES], (look.theme.paper, f"and {left_out} smaller")]
    said = said_of(run, cycles)
    if len(colour_of) > len(look.theme.series):
        said += f"; {len(colour_of)} writers share {len(look.theme.series)} colours"
    sheet = Sheet(look, HEAD + FILL + GAP + MAP + FOOT, said, legend)
    _fill(sheet, run, lives, cycles)
    _map(sheet, run, memory_boxes(lives, names, window), cycles, colour_of=colour_of)
    return sheet


def _name(run: PlotRun, life: Life) -> str:
    """Return what wrote: the operation, or of a program the unit."""
    if life.writer < 0:
        return THERE
    if run.observed.operations is not None:
        return run.observed.operations[life.writer]
    return run.observed.names[life.writer]


def memory_colours(run: PlotRun, theme: Theme) -> dict[str, str]:
    """Return a colour for each writer; where there are enough, not one for two alive together."""
    spans = spans_of((_name(run, life), life.first, life.stop) for life in run.lives())
    there = {THERE: theme.plain} if spans.pop(THERE, None) else {}
    return there | colours_apart(spans, theme)


def largest(lives: Sequence[Life], names: Sequence[str]) -> list[str]:
    """Return the names, those first that hold the most bytes for the longest time."""
    held = Counter[str]()
    for life, name in zip(lives, names, strict=True):
        held[name] += life.size_bytes * (life.stop - life.first)
    return [name for name, _ in held.most_common()]


def _fill(sheet: Sheet, run: PlotRun, lives: Sequence[Life], cycles: Interval) -> None:
    """Draw how many bytes are alive."""
    axes = sheet.axes(HEAD, FILL)
    edges = even_edges(window_ticks(run, cycles), COLUMNS)
    found = alive(lives, edges) if lives else np.zeros(len(edges) - 1)
    most = max(1.0, float(found.max()))
    axes.set_xlim(*cycles)
    axes.set_ylim(0, most * 1.05)
    _byte_scale(axes, "bytes alive")
    colour = sheet.theme.activities["loading"]  # one shape, so that no seams show in a vector file
    axes.stairs(found, edges / run.period, fill=True, color=colour, linewidth=0, antialiased=False)
    chip = run.chip.state_buffer
    capacity = chip.partitions * chip.bytes_per_partition
    peak = number(round(found.max()))
    text = f"at most {peak}\nof {number(capacity)} bytes ({percent(most, capacity)})"
    sheet.text(
        NOTES_START,
        HEAD + FILL / 2,
        text,
        va="center",
        fontsize=style.SMALL,
        color=sheet.theme.muted,
        linespacing=1.5,
    )


def _map(
    sheet: Sheet,
    run: PlotRun,
    found: Sequence[MemoryBox],
    cycles: Interval,
    *,
    colour_of: Mapping[str, str],
) -> None:
    axes = sheet.axes(HEAD + FILL + GAP, MAP)
    cycle_scale(axes, run, cycles)
    axes.set_ylim(1, 0)
    if not found:
        return
    scale = ByteScale.of([box.bytes for box in found])
    for top, bottom in zip(scale.tops, scale.bottoms, strict=True):
        ground(axes, cycles, top, bottom, sheet.theme.faint)
    axes.yaxis.set_visible(True)
    axes.set_yticks(
        scale.tops, [number(each.first) for each in scale.used], va="top", fontsize=style.TINY
    )
    axes.set_ylabel("byte of a partition (unused ones left out)")
    across = [
        box._replace(first=box.first / run.period, stop=box.stop / run.period) for box in found
    ]
    _boxes(axes, scale, across, [colour_of[box.name] for box in found], sheet)
    _names(axes, scale, across, sheet, MIDDLE / cycles.count)


def _byte_scale(axes: Axes, label: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.yaxis.set_visible(True)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value))))
    axes.set_ylabel(label)


def _boxes(
    axes: Axes,
    scale: ByteScale,
    found: Sequence[MemoryBox],
    colours: Sequence[str],
    sheet: Sheet,
) -> None:
    """Draw boxes with an outline in the colour of the paper, later ones on top.

    A box that is hardly higher than its outline has none, so that its colour is seen.
    """
    from matplotlib.collections import PolyCollection

    corners: Any = [
        [(box.first, low), (box.first, high), (box.stop, high), (box.stop, low)]
        for box in found
        for low, high in [(scale.place(box.bytes.first), scale.place(box.bytes.stop))]
    ]
    outlines = [
        OUTLINE if (each[1][1] - each[0][1]) * MAP > LEAST_OUTLINED else 0 for each in corners
    ]
    axes.add_collection(
        PolyCollection(
            corners, facecolors=colours, edgecolors=sheet.theme.paper, linewidths=outlines
        ),
        autolim=False,
    )


def _names(
    axes: Axes, scale: ByteScale, found: Sequence[MemoryBox], sheet: Sheet, inches: float
) -> None:
    """Write names on the largest boxes that have room for them; inches: of a cycle."""
    from systolic.report.paper.lettering import text_inches

    size, taken = style.TINY, list[MemoryBox]()
    for box in sorted(found, key=lambda box: -(box.stop - box.first) * box.bytes.count):
        wide = (box.stop - box.first) * inches
        top, bottom = scale.place(box.bytes.first), scale.place(box.bytes.stop)
        has_room = (bottom - top) * MAP > 0.12 and text_inches(box.name, size) < wide - 0.06
        if len(taken) == MOST_NAMES or not has_room or any(_meet(box, other) for other in taken):
            continue
        taken.append(box)
        axes.text(
            (box.first + box.stop) / 2,
            (top + bottom) / 2,
            box.name,
            ha="center",
            va="center_baseline",
            fontsize=size,
            color=sheet.theme.on_series,
            clip_on=True,
            parse_math=False,
        )


def _meet(one: MemoryBox, other: MemoryBox) -> bool:
    in_time = one.first < other.stop and other.first < one.stop
    return in_time and one.bytes.meets(other.bytes)
