"""What views draw on axes: lanes of bars, stacked shares, marks that are never too thin to see."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from systolic.report.paper import style
from systolic.report.plots.sheet import COLUMNS
from systolic.report.plots.stretches import Coverage, Edges, Stretches, even_edges, runs_of
from systolic.spans import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Coordinates = npt.NDArray[Any]
WORD_MARGIN = 0.06
ABOVE = 1.5
"""Above other boxes, which are at 1, and below lines."""
COLUMN = 1.02
"""A box as wide as a column of the picture, and a little more, fills one wherever it lies."""
MOST_WORDS = 400
"""More words than this in a lane could not be read, and would take long to set."""


def boxes(
    axes: Axes,
    x: tuple[Coordinates, Coordinates],
    y: tuple[Any, Any],
    colours: Any,
    *,
    zorder: float = 1,
) -> None:
    """Draw boxes from x[0] to x[1] and y[0] to y[1]; colours: one, or one for each."""
    from matplotlib.collections import PolyCollection

    left, right = (np.asarray(each, np.float64) for each in x)
    if not left.size:
        return
    low, high = (np.broadcast_to(np.asarray(each, np.float64), left.shape) for each in y)
    corners: Any = np.stack([left, low, left, high, right, high, right, low], -1).reshape(-1, 4, 2)
    axes.add_collection(
        PolyCollection(
            corners, facecolors=colours, linewidths=0, antialiaseds=False, zorder=zorder
        ),
        autolim=False,
    )


def area(axes: Axes, edges: Edges, low: Coordinates, high: Coordinates, colour: str) -> None:
    """Draw columns from low to high, between neighbouring edges; empty ones are left out.

    Neighbours are one shape, so that no seams show in a vector file.
    """
    from matplotlib.collections import PolyCollection

    shapes, least = [], 1e-9 * np.abs(high - low).max(initial=0.0)  # less is a rounding error
    for first, stop in runs_of(np.abs(high - low) > least):
        x = np.repeat(edges[first : stop + 1], 2)[1:-1]
        y = np.concatenate([np.repeat(high[first:stop], 2), np.repeat(low[first:stop], 2)[::-1]])
        shapes.append(np.stack([np.concatenate([x, x[::-1]]), y], -1))
    axes.add_collection(
        PolyCollection(shapes, facecolors=colour, linewidths=0, antialiaseds=False), autolim=False
    )


def ground(axes: Axes, cycles: Interval, low: float, high: float, colour: str) -> None:
    """Draw the ground of a lane over all cycles."""
    boxes(axes, (np.array([cycles.first]), np.array([cycles.stop])), (low, high), colour)


def stacked(
    axes: Axes, found: Coverage, period: int, y: tuple[float, float], colours: Mapping[str, str]
) -> None:
    """Draw shares of columns on top of each other, in a lane from y[0] to y[1].

    Where columns go from one begin or end to the next, a stretch can be thinner than a column of
    the picture: it is drawn that wide, above its neighbours and above still thinner ones.
    """
    below = np.zeros(len(found.edges) - 1)
    least = (found.edges[-1] - found.edges[0]) / period / COLUMNS * COLUMN
    height = y[1] - y[0]
    slivers: list[tuple[Any, ...]] = []
    for kind, colour in colours.items():
        above = np.round(below + found.shares[kind], 9)  # so that equal heights are one line
        if not found.is_exact:
            lows, highs = (y[0] + side * height for side in (below, above))
            area(axes, found.edges / period, lows, highs, colour)
            below = above
            continue
        left, right, low, high = _steps(found.edges / period, below, above)
        low, high = y[0] + low * height, y[0] + high * height
        thin = right - left < least
        boxes(axes, (left[~thin], right[~thin]), (low[~thin], high[~thin]), colour)
        sides = (right - left, left, low, high)
        slivers += [(*each, colour) for each in zip(*(side[thin] for side in sides), strict=True)]
        below = above
    slivers.sort()
    begins, floors, tops = (np.array([each[at] for each in slivers]) for at in (1, 2, 3))
    boxes(
        axes, (begins, begins + least), (floors, tops), [each[4] for each in slivers], zorder=ABOVE
    )


def _steps(edges: Edges, low: Coordinates, high: Coordinates) -> tuple[Coordinates, ...]:
    """Return left, right, low and high of boxes; neighbours that are alike are one box."""
    change = (np.diff(low) != 0) | (np.diff(high) != 0)
    first = np.concatenate([[0], np.flatnonzero(change) + 1])
    stop = np.concatenate([first[1:], [len(low)]])
    seen = high[first] > low[first]
    first, stop = first[seen], stop[seen]
    return edges[first], edges[stop], low[first], high[first]


def marks(
    axes: Axes,
    found: Stretches,
    period: int,
    window: Interval,
    y: tuple[float, float],
    *,
    colour: str,
) -> int:
    """Mark every column that stretches touch; return how many marks there are.

    A mark is at least two columns of the picture wide, so a single cycle of any run is seen.
    """
    edges = even_edges(window, COLUMNS)
    runs = list(runs_of(found.touched(edges)))
    least = 2 * window.count / COLUMNS
    left = np.array([edges[first] for first, _ in runs])
    right = np.array([edges[stop] for _, stop in runs])
    if runs:
        right = np.maximum(right, left + least)
    boxes(axes, (left / period, right / period), y, colour)
    return len(runs)


def words(
    axes: Axes,
    places: Sequence[tuple[float, float, str]],
    y: float,
    inches_per_cycle: float,
    colour: str,
) -> None:
    """Write each text in the middle of (first, stop, text), where it has room for itself."""
    from systolic.report.paper.lettering import text_inches

    size = style.TINY + 0.5
    fitting = [
        (first, stop, text)
        for first, stop, text in places
        if text_inches(text, size) + WORD_MARGIN <= (stop - first) * inches_per_cycle
    ]
    if len(fitting) > MOST_WORDS:
        return
    beyond = -math.inf
    for first, stop, text in sorted(fitting):
        if first < beyond:
            continue
        beyond = stop
        axes.text(
            (first + stop) / 2,
            y,
            text,
            ha="center",
            va="center_baseline",
            fontsize=size,
            color=colour,
            clip_on=True,
            parse_math=False,
        )
