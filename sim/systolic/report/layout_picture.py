"""A picture of a tiled layout, like the documents' figures 1 and 2.

There is a cell for each element and for each place of padding that the first tile adds. The colour
of a cell is its tile, its number the offset in memory; padding is white, and second-level tiles are
outlined. A large shape is shown through a window, which the picture names. Not here: any layout
arithmetic; ``systolic.layout`` gives every number.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from numpy.typing import NDArray

from systolic.layout import LayoutError, Shape
from systolic.report.paper.theme import LIGHT, Theme
from systolic.writing import replacing

MOST_SHOWN = 32
"""The most rows, and columns, that are shown whole: more could not be read on a page."""

WINDOW = 16
"""Rows, or columns, of a window onto a shape with more than ``MOST_SHOWN`` of them."""

_COLOURS = (
    "#a8c8ec", "#f7c99b", "#b5dfae", "#e8b4c8", "#cfc1ea", "#f3e08f", "#9fdad2", "#e3bfa6",
)  # fmt: skip
_INK = "#1f2933"
_PALE = "#b8c0c9"
_OUTLINE = "#c62f2f"


@dataclass(frozen=True, slots=True)
class Extent:
    """The rows, or columns, ``first`` to ``stop`` - 1 of ``size`` that a picture shows."""

    first: int
    stop: int
    size: int

    @property
    def is_whole(self) -> bool:
        """Whether all rows, or all columns, are shown."""
        return self.stop - self.first == self.size

    def __str__(self) -> str:
        return f"{self.first} to {self.stop - 1} of {self.size}"


@dataclass(frozen=True, slots=True)
class Window:
    """The cells of a shape that a picture shows, counting the padding that the first tile adds."""

    rows: Extent
    columns: Extent

    @property
    def is_whole(self) -> bool:
        """Whether every cell is shown."""
        return self.rows.is_whole and self.columns.is_whole

    def __str__(self) -> str:
        return f"rows {self.rows}, columns {self.columns}"


def picture_window(shape: Shape, index: Sequence[int] | None = None) -> Window:
    """Return the window of ``shape`` that a picture shows: all of it, or a part around ``index``.

    Rows are all dimensions but the last, stacked. Without an index a part shows the first tiles.
    It begins and ends where tiles do, if at least two tiles fit into it. LayoutError for a shape
    without elements, and for an index that is not in the shape.
    """
    whole = _covering(shape)
    *leading, columns = whole.dims or (1,)
    rows = math.prod(leading)
    if rows * columns == 0:
        raise LayoutError(f"{shape} has no elements: there is nothing to draw")
    row, column = (0, 0) if index is None else _cell(shape, whole, index)
    tile_rows, tile_columns = _tile_sizes(shape)
    return Window(_extent(rows, tile_rows, row), _extent(columns, tile_columns, column))


def _cell(shape: Shape, whole: Shape, index: Sequence[int]) -> tuple[int, int]:
    """Return the row and the column of an element's cell."""
    shape.linear_index(index)  # raises LayoutError if the shape has no such index
    *leading, column = tuple(index) or (0,)
    row = 0
    for part, size in zip(leading, whole.dims, strict=False):
        row = row * size + part
    return row, column


def _tile_sizes(shape: Shape) -> tuple[int, int]:
    """Return the (rows, columns) of a first-level tile, 1 for a dimension that it does not tile."""
    steps = shape.steps()
    if not steps or steps[0].folds:
        return 1, 1
    order, sizes = shape.layout.major_to_minor, steps[0].sizes
    of = dict(zip(order[::-1], sizes[::-1], strict=False))
    return of.get(shape.rank - 2, 1), of.get(shape.rank - 1, 1)


def _extent(size: int, tile: int, wanted: int) -> Extent:
    """Return a window onto ``size`` cells that shows ``wanted`` near its middle, in whole tiles."""
    if size <= MOST_SHOWN:
        return Extent(0, size, size)
    step = tile if tile <= WINDOW // 2 and size % tile == 0 else 1
    count = WINDOW // step * step
    first = min(max(0, wanted - count // 2), size - count)
    first = first // step * step
    return Extent(first, min(size, first + count), size)


def layout_picture(
    shape: Shape,
    title: str | None = None,
    index: Sequence[int] | None = None,
    theme: Theme = LIGHT,
) -> Figure:
    """Return the figure of a shape of at most two dimensions (more: leading ones are stacked).

    Colours mark tiles of the first level; without tiles, rows of memory order. The element at
    ``index`` is marked. ``picture_window`` gives the cells that are shown, and raises LayoutError.
    """
    grid = _CellGrid(shape, picture_window(shape, index))
    cell = 0.46 if grid.digits <= 3 else 0.56 if grid.digits <= 5 else 0.11 * grid.digits
    wide = max(3.4, grid.columns * cell + 1.0)
    margin = 1.25 if grid.window.is_whole else 1.5  # one more line of text names the window
    figure = Figure(
        figsize=(wide, grid.rows * 0.46 + margin),
        dpi=150,
        layout="constrained",
        facecolor=theme.paper,
    )
    axes = figure.add_subplot()
    axes.set_facecolor(theme.paper)
    _draw_cells(axes, grid, theme)
    _draw_outlines(axes, grid)
    if index is not None:
        _mark(axes, grid, _cell(shape, grid.whole, index), theme)
    _dress(axes, grid, title or str(shape), (wide, cell), theme)
    return figure


def save_layout_picture(
    shape: Shape, path: Path, title: str | None = None, index: Sequence[int] | None = None
) -> None:
    """Write the picture to ``path``, whole or not at all; the path's ending is the format.

    Raises LayoutError if the path has no ending, or one that is no format of pictures.
    SystolicError if nothing can be written there.
    """
    if not path.suffix:
        raise LayoutError(
            f"a picture needs a file name with an ending that says its format, "
            f'e.g. tiles.png, found "{path.name}"'
        )
    figure = layout_picture(shape, title, index)
    try:
        with replacing(path) as partial:
            figure.savefig(partial, format=path.suffix[1:])
    except ValueError as refused:
        raise LayoutError(f"the picture cannot be written to {path}: {refused}") from None


class _CellGrid:
    """The cells of a window: the last logical dimension across, the others down.

    Arrays are [rows, columns] of the window. ``inner`` has one more cell on each side on which the
    shape goes on, so that the outline of a tile that the window cuts stays open there.
    """

    def __init__(self, shape: Shape, window: Window) -> None:
        self.shape, self.window = shape, window
        self.whole = _covering(shape)
        self.first = window.rows.first, window.columns.first
        self.rows, self.columns = (e.stop - e.first for e in (window.rows, window.columns))
        self.offsets = self._offsets(self.whole, window)
        self.is_element = self._elements()
        self.digits = len(str(int(self.offsets.max())))
        self.colours = _colours(self._first_tiles())
        self.outer = Window(_wider(window.rows), _wider(window.columns))
        self.inner = (
            self._offsets(self.whole, self.outer) // self._tile_elements(1)
            if self._has_inner
            else None
        )

    def _index(self, window: Window) -> list[NDArray[np.int64]]:
        """Return the index of each cell: an array for each dimension, broadcasting together."""
        *leading, _ = self.whole.dims
        rows = np.arange(window.rows.first, window.rows.stop)[:, np.newaxis]
        columns = np.arange(window.columns.first, window.columns.stop)[np.newaxis, :]
        return [*(np.unravel_index(rows, leading) if leading else ()), columns]

    def _offsets(self, shape: Shape, window: Window) -> NDArray[np.int64]:
        if not shape.dims:
            return np.zeros((1, 1), np.int64)
        offsets: NDArray[np.int64] = shape.linear_index(self._index(window))
        return offsets.reshape(-1, window.columns.stop - window.columns.first)

    @property
    def _has_inner(self) -> bool:
        return len(self.shape.layout.tiles) > 1 and self._tile_elements(1) > 1

    def _first_tiles(self) -> NDArray[np.int64]:
        """The number of each cell's first-level tile, from the layout without its later tiles."""
        tiles = self.whole.layout.tiles
        only_first = self.whole.with_tiles(*tiles[:1]) if len(tiles) > 1 else self.whole
        return self._offsets(only_first, self.window) // self._tile_elements(0)

    def _tile_elements(self, level: int) -> int:
        """Elements of one tile of a level; without tiles, of the fastest dimension."""
        steps = self.whole.steps()
        if not steps:
            order = self.whole.layout.minor_to_major
            return max(1, self.whole.dims[order[0]]) if order else 1
        return math.prod(steps[level].sizes)

    def _elements(self) -> NDArray[np.bool_]:
        inside = np.ones((self.rows, self.columns), np.bool_)
        if self.shape.dims:
            for part, limit in zip(self._index(self.window), self.shape.dims, strict=True):
                inside &= part < limit
        return inside


def _wider(extent: Extent) -> Extent:
    """Return the extent with one more cell on each side on which the shape goes on."""
    return Extent(max(0, extent.first - 1), min(extent.size, extent.stop + 1), extent.size)


def _colours(tiles: NDArray[np.int64]) -> list[list[str]]:
    """Return the colour of each cell: tiles take turns, but neighbours never have the same."""
    names, ranks = np.unique(tiles, return_inverse=True)
    ranks = ranks.reshape(tiles.shape)
    beside: list[set[int]] = [set() for _ in names]
    for one, other in ((ranks[:, :-1], ranks[:, 1:]), (ranks[:-1], ranks[1:])):
        for a, b in zip(one.flat, other.flat, strict=True):
            beside[max(a, b)].add(int(min(a, b)))
    chosen: list[int] = []
    for rank, neighbours in enumerate(beside):
        taken = {chosen[other] for other in neighbours if other != rank}
        turns = ((rank + turn) % len(_COLOURS) for turn in range(len(_COLOURS)))
        chosen.append(next((colour for colour in turns if colour not in taken), 0))
    return [[_COLOURS[chosen[rank]] for rank in row] for row in ranks]


def _covering(shape: Shape) -> Shape:
    """Return the shape enlarged to whole first tiles, where padding becomes elements.

    All elements keep their offsets.
    """
    layout = shape.layout
    if layout.padded_dimensions is not None:
        plain = replace(layout, padded_dimensions=None)
        return _covering(Shape(shape.element_type, layout.padded_dimensions, plain))
    steps = shape.steps()
    if not steps or steps[0].folds or steps[0].missing:
        return shape
    first = steps[0]
    widths = list(shape.dims)
    covered = layout.major_to_minor[first.untouched :]
    for number, count, size in zip(covered, first.counts, first.sizes, strict=True):
        widths[number] = count * size
    return Shape(shape.element_type, widths, layout)


def _padding_look(theme: Theme) -> dict[str, Any]:
    dashes = {"linewidth": 0.7, "linestyle": (0, (2, 2))}
    return {"facecolor": theme.paper, "edgecolor": _PALE, **dashes}


def _element_look(colour: str, theme: Theme) -> dict[str, Any]:
    return {"facecolor": colour, "edgecolor": theme.paper, "linewidth": 1.2}


def _draw_cells(axes: Axes, grid: _CellGrid, theme: Theme) -> None:
    size = 9.0 if grid.digits <= 3 else 8.0
    top, left = grid.first
    for row, column in itertools.product(range(grid.rows), range(grid.columns)):
        real = bool(grid.is_element[row, column])
        corner = left + column, top + row
        colour = grid.colours[row][column]
        look = _element_look(colour, theme) if real else _padding_look(theme)
        axes.add_patch(Rectangle(corner, 1, 1, **look))
        axes.text(
            corner[0] + 0.5,
            corner[1] + 0.53,
            str(int(grid.offsets[row, column])),
            ha="center",
            va="center",
            fontsize=size,
            color=_INK if real else _PALE,
        )


def _draw_outlines(axes: Axes, grid: _CellGrid) -> None:
    """Outline each second-level tile whose cells make one rectangle."""
    if grid.inner is None:
        return
    top, left = grid.outer.rows.first, grid.outer.columns.first
    for number in np.unique(grid.inner):
        rows, columns = np.nonzero(grid.inner == number)
        height = int(rows.max() - rows.min()) + 1
        width = int(columns.max() - columns.min()) + 1
        if height * width != rows.size:
            continue
        inset = 0.07
        corner = left + columns.min() + inset, top + rows.min() + inset
        axes.add_patch(
            FancyBboxPatch(
                corner,
                width - 2 * inset,
                height - 2 * inset,
                boxstyle="round,pad=0,rounding_size=0.16",
                fill=False,
                edgecolor=_OUTLINE,
                linewidth=1.3,
            )
        )


def _mark(axes: Axes, grid: _CellGrid, cell: tuple[int, int], theme: Theme) -> None:
    """Mark the cell of the element that was asked for."""
    row, column = cell
    axes.add_patch(
        Rectangle((column, row), 1, 1, fill=False, edgecolor=theme.ink, linewidth=2.4, zorder=4)
    )
    axes.texts[(row - grid.first[0]) * grid.columns + column - grid.first[1]].set_fontweight("bold")


def _dress(
    axes: Axes, grid: _CellGrid, title: str, sizes: tuple[float, float], theme: Theme
) -> None:
    """Add numbers of rows and columns, and words; sizes: inches of the picture and of a cell."""
    (top, left), window = grid.first, grid.window
    wide, cell = sizes
    axes.set_xlim(left - 0.05, left + grid.columns + 0.05)
    axes.set_ylim(top + grid.rows + 0.05, top - 0.05)
    axes.set_aspect(0.46 / cell)
    axes.xaxis.tick_top()
    every = max(1, math.ceil(grid.columns / 32))
    columns = range(left, left + grid.columns, every)
    rows = range(top, top + grid.rows)
    axes.set_xticks([column + 0.5 for column in columns], [str(column) for column in columns])
    axes.set_yticks([row + 0.5 for row in rows], [str(row) for row in rows])
    axes.tick_params(length=0, labelsize=7.5, colors=theme.muted)
    for side in axes.spines.values():
        side.set_visible(False)
    _draw_edges(axes, window, theme)
    fitting = min(11.0, 11.0 * wide * 10.5 / max(1, len(title) * 1.15) / 1.0)
    axes.set_title(title, fontsize=fitting, family="monospace", color=theme.ink, pad=8)
    padding = grid.shape.padded_elements() - grid.shape.num_elements()
    elements, size = grid.shape.num_elements(), grid.shape.size_bytes()
    said = f"{elements} elements, {padding} padding, {size} bytes"
    shown = "" if window.is_whole else f"\na window: {window}"
    axes.set_xlabel(said + shown, fontsize=8.5, color=theme.muted, labelpad=6)


def _draw_edges(axes: Axes, window: Window, theme: Theme) -> None:
    """Draw a dotted line along each side of the window on which the shape goes on."""
    rows, columns = window.rows, window.columns
    ends = {
        "left": columns.first > 0,
        "right": columns.stop < columns.size,
        "top": rows.first > 0,
        "bottom": rows.stop < rows.size,
    }
    for side, goes_on in ends.items():
        if goes_on:
            axes.spines[side].set(
                visible=True, color=theme.ink, linewidth=1.4, linestyle=(0, (1, 2))
            )
