"""A picture of a tiled layout, like the documents' figures 1 and 2.

One cell for each element and each place of padding the first tile adds: the colour is the tile, the
number the offset in memory, padding is white, and second-level tiles are outlined. Not here: any
layout arithmetic; every number is asked of ``sim.layout``.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from numpy.typing import NDArray

from sim.layout import Layout, LayoutError, Shape
from sim.report.png import replacing

MAX_CELLS = 4096
"""Most cells a picture shows; more could not be read."""

_COLOURS = (
    "#a8c8ec", "#f7c99b", "#b5dfae", "#e8b4c8", "#cfc1ea", "#f3e08f", "#9fdad2", "#e3bfa6",
)  # fmt: skip
_INK = "#1f2933"
_PALE = "#b8c0c9"
_OUTLINE = "#c62f2f"


def layout_picture(shape: Shape, title: str | None = None) -> Figure:
    """Return the figure of a shape of at most two dimensions (more: leading ones are stacked).

    Raises LayoutError for more than ``MAX_CELLS`` cells. Colours mark tiles of the first level;
    without tiles, rows of memory order.
    """
    grid = _Grid(shape)
    cell = 0.46 if grid.digits <= 3 else 0.56
    wide = max(3.4, grid.columns * cell + 1.0)
    figure = Figure(figsize=(wide, grid.rows * 0.46 + 1.25), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    _draw_cells(axes, grid)
    _draw_outlines(axes, grid)
    _dress(axes, grid, title or str(shape), wide)
    return figure


def save_layout_picture(shape: Shape, path: Path, title: str | None = None) -> None:
    """Write the picture to ``path``, whole or not at all; the ending says which format."""
    if path.is_dir():
        raise LayoutError(f"{path}: is a folder; needed the name of a file to write")
    figure = layout_picture(shape, title)
    try:
        with replacing(path) as partial:
            figure.savefig(partial, format=path.suffix[1:] or "png")
    except (ValueError, OSError) as refused:
        why = getattr(refused, "strerror", None) or refused
        raise LayoutError(f"the picture cannot be written to {path}: {why}") from None


class _Grid:
    """The cells of a shape: the last logical dimension across, the others down."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.whole = _covering(shape)
        *leading, self.columns = self.whole.dims or (1,)
        self.rows = math.prod(leading)
        if not 0 < self.rows * self.columns <= MAX_CELLS:
            raise LayoutError(
                f"a picture shows 1 to {MAX_CELLS} cells, "
                f"found {self.rows * self.columns} in {shape}"
            )
        self.offsets = _per_cell(self.whole, self.whole.linear_index)
        self.is_element = self._elements()
        self.digits = len(str(int(self.offsets.max())))
        self.tiles = self._first_tiles()
        self.inner = self.offsets // self._tile_elements(1) if self._has_inner else None

    @property
    def _has_inner(self) -> bool:
        return len(self.shape.layout.tiles) > 1 and self._tile_elements(1) > 1

    def _first_tiles(self) -> NDArray[np.int64]:
        """The number of each cell's first-level tile, whatever later tiles do to its place."""
        tiles = self.whole.layout.tiles
        only_first = self.whole.with_tiles(*tiles[:1]) if len(tiles) > 1 else self.whole
        offsets: NDArray[np.int64] = _per_cell(only_first, only_first.linear_index)
        return offsets // self._tile_elements(0)

    def _tile_elements(self, level: int) -> int:
        """Elements of one tile of a level; without tiles, of the fastest dimension."""
        steps = self.whole.steps()
        if not steps:
            order = self.whole.layout.minor_to_major
            return max(1, self.whole.dims[order[0]]) if order else 1
        return math.prod(steps[level].sizes)

    def _elements(self) -> NDArray[np.bool_]:
        index = np.indices(self.whole.dims or (1,)).reshape(max(1, self.whole.rank), -1)
        limits = np.asarray(self.shape.dims or (1,))[:, np.newaxis]
        inside: NDArray[np.bool_] = np.all(index < limits, axis=0)
        return inside.reshape(self.rows, self.columns)


def _covering(shape: Shape) -> Shape:
    """Return the shape enlarged to whole first tiles: same offsets, padding as real elements."""
    layout = shape.layout
    if layout.padded_dimensions is not None:
        order = Layout(layout.minor_to_major, layout.tiles)
        return _covering(Shape(shape.element_type, layout.padded_dimensions, order))
    steps = shape.steps()
    if not steps or steps[0].folds or steps[0].missing:
        return shape
    first = steps[0]
    widths = list(shape.dims)
    covered = layout.major_to_minor[first.untouched :]
    for number, count, size in zip(covered, first.counts, first.sizes, strict=True):
        widths[number] = count * size
    return Shape(shape.element_type, widths, layout)


def _per_cell(shape: Shape, linear_index: Any) -> NDArray[np.int64]:
    if not shape.dims:
        return np.zeros((1, 1), np.int64)
    index = np.ogrid[tuple(slice(0, size) for size in shape.dims)]
    offsets: NDArray[np.int64] = linear_index(list(index))
    return offsets.reshape(-1, shape.dims[-1])


def _draw_cells(axes: Axes, grid: _Grid) -> None:
    size = 9.0 if grid.digits <= 3 else 8.0
    for row, column in itertools.product(range(grid.rows), range(grid.columns)):
        real = bool(grid.is_element[row, column])
        tile = int(grid.tiles[row, column])
        colour = _COLOURS[tile % len(_COLOURS)] if real else "white"
        axes.add_patch(
            Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="white", linewidth=1.2)
            if real
            else Rectangle((column, row), 1, 1, facecolor="white", edgecolor=_PALE,
                           linewidth=0.7, linestyle=(0, (2, 2)))
        )  # fmt: skip
        axes.text(
            column + 0.5, row + 0.53, str(int(grid.offsets[row, column])),
            ha="center", va="center", fontsize=size, color=_INK if real else _PALE,
        )  # fmt: skip


def _draw_outlines(axes: Axes, grid: _Grid) -> None:
    """Outline each second-level tile where its cells make one rectangle."""
    if grid.inner is None:
        return
    for number in np.unique(grid.inner):
        rows, columns = np.nonzero(grid.inner == number)
        height = int(rows.max() - rows.min()) + 1
        width = int(columns.max() - columns.min()) + 1
        if height * width != rows.size:
            continue
        inset = 0.07
        axes.add_patch(
            FancyBboxPatch(
                (columns.min() + inset, rows.min() + inset), width - 2 * inset, height - 2 * inset,
                boxstyle="round,pad=0,rounding_size=0.16", fill=False,
                edgecolor=_OUTLINE, linewidth=1.3,
            )
        )  # fmt: skip


def _dress(axes: Axes, grid: _Grid, title: str, wide: float) -> None:
    axes.set_xlim(-0.05, grid.columns + 0.05)
    axes.set_ylim(grid.rows + 0.05, -0.05)
    axes.set_aspect("equal")
    axes.xaxis.tick_top()
    every = max(1, math.ceil(grid.columns / 32))
    axes.set_xticks([column + 0.5 for column in range(0, grid.columns, every)],
                    [str(column) for column in range(0, grid.columns, every)])  # fmt: skip
    axes.set_yticks([row + 0.5 for row in range(grid.rows)], [str(r) for r in range(grid.rows)])
    axes.tick_params(length=0, labelsize=7.5, colors="#7b8794")
    for side in axes.spines.values():
        side.set_visible(False)
    fitting = min(11.0, 11.0 * wide * 10.5 / max(1, len(title) * 1.15) / 1.0)
    axes.set_title(title, fontsize=fitting, family="monospace", color=_INK, pad=8)
    padding = grid.shape.padded_elements() - grid.shape.num_elements()
    axes.set_xlabel(
        f"{grid.shape.num_elements()} elements, {padding} padding, "
        f"{grid.shape.size_bytes()} bytes",
        fontsize=8.5, color="#52606d", labelpad=6,
    )  # fmt: skip
