"""Rows of a tensor in tiles as they are brought from DRAM whole, with gaps between their elements.

A descriptor moves bytes side by side. The columns of a matrix in tiles do not lie so: T(8,128)(2,1)
puts an element of the next row between two of them, and a tile over the edge ends with padding. So
a row is brought with its short gaps, as a few long runs. On the chip the gaps lie between the
columns of each matrix, and an access with a step leaves them out. Not here: costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.change_of_view import Spread
from systolic.compiler.ir.dram_tensor import Segment
from systolic.compiler.ir.move_parts import places_along
from systolic.layout import COMBINE, Shape
from systolic.spans import Span

MOST_GAP_BYTES = 1024
"""Longer gaps are never brought: they take any chip longer than another descriptor."""


@dataclass(frozen=True, slots=True)
class CoveredRows:
    """A tensor as rows of memory, [rows, columns], each with the elements of all matrices.

    shape: how the tensor lies. rows, cols: the dimensions that the rows and the columns of its
    matrices are made of. gap: gaps of so many elements at most are brought with the row.
    """

    shape: Shape
    rows: tuple[int, ...]
    cols: tuple[int, ...]
    gap: int

    @property
    def element_type(self) -> str:
        """The type of an element."""
        return self.shape.element_type

    @property
    def dims(self) -> tuple[int, ...]:
        """The rows, and the elements that are brought of each, gaps counted."""
        found = _cover(self)
        return len(found.rows), len(found.columns)

    @property
    def rank(self) -> int:
        """The number of dimensions: rows and columns."""
        return 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """How numpy holds one element."""
        return self.shape.dtype

    def padded_elements(self) -> int:
        """Return the elements of memory from the first one of the tensor to the last."""
        return self.shape.padded_elements()

    def size_bytes(self) -> int:
        """Return the bytes of memory that the tensor takes."""
        return self.shape.size_bytes()

    def linear_index(self, index: Sequence[Any]) -> Integers:
        """Return the place of a row and a column, or of arrays of them, in elements."""
        found, (row, col) = _cover(self), index
        places: Integers = found.rows[row] + found.columns[col]
        return places

    def columns_of(self, axes: tuple[tuple[int, ...], ...]) -> Integers:
        """Return the column of each element of a row, [matrices, columns of a matrix].

        axes: the matrices, [batch..., rows, columns], of whose rows these are.
        """
        *batch, _, cols = axes
        groups = tuple(axis for group in batch for axis in group)
        places = places_along(self.shape, (*groups, *cols)).reshape(-1, _count(self.shape, cols))
        found = _cover(self)
        run = np.searchsorted(found.first_places, places, side="right") - 1
        columns: Integers = found.first_columns[run] + places - found.first_places[run]
        return columns

    def __str__(self) -> str:
        return f"{self.shape} in rows of {self.dims[1]} elements, with gaps of up to {self.gap}"


@dataclass(frozen=True, slots=True)
class CoveredWindow:
    """Where the elements of a batch of matrices lie in rows that were brought with their gaps.

    outer: those rows. inner: the matrices, whose rows are the same, and whose columns have one
    distance, which `is_regular` says.
    """

    holder: str
    outer: CoveredRows
    inner: Spread

    def number(self, number: int) -> int:
        """Return which of the holder's matrices holds this matrix: the only one."""
        return 0

    def row(self, row: int) -> int:
        """Return the holder's row of a row."""
        return row

    def column(self, row: int, col: int) -> int:
        """Return the first column of the holder's tile, which has all of them."""
        return 0

    def columns(self, number: int, row: int, cols: Span) -> Integers:
        """Return the holder's column of each of these columns."""
        return _table(self.outer, self.inner.axes)[number, cols.first : cols.stop]

    def segments(self, number: int, row: int, cols: Span) -> list[Segment]:
        """Return the holder's columns as one regular segment."""
        found = _table(self.outer, self.inner.axes)[number]
        step = int(found[1] - found[0]) if cols.count > 1 else 1
        return [Segment(0, cols.count, int(found[cols.first]), ((step, cols.count),))]


def may_be_covered(shape: Shape) -> bool:
    """Return whether the place of an element is a sum of parts of its row and of the rest."""
    return not any(COMBINE in tile.dims for tile in shape.layout.tiles)


def gap_choices(shape: Shape, rows: tuple[int, ...]) -> list[int]:
    """Return the lengths of the short gaps between the elements of a row, in elements, from 0."""
    places = np.sort(_of_a_row(shape, rows))
    gaps = (np.unique(np.diff(places)) - 1).tolist()
    return sorted({0, *(gap for gap in gaps if gap * shape.dtype.itemsize <= MOST_GAP_BYTES)})


def is_regular(outer: CoveredRows, axes: tuple[tuple[int, ...], ...]) -> bool:
    """Return whether the columns of every matrix have one distance in the rows."""
    steps = np.diff(_table(outer, axes), axis=1)
    return bool(steps.size == 0 or (steps == steps[0, 0]).all())


@dataclass(frozen=True, slots=True)
class _Cover:
    """The place of each row, that of each column, and where the runs of columns begin."""

    rows: Integers
    columns: Integers
    first_places: Integers
    first_columns: Integers


@lru_cache(maxsize=256)
def _cover(rows: CoveredRows) -> _Cover:
    """Return the runs of a row.

    Where a run has gaps between its columns, it ends with one too if another run follows: then the
    columns go on in the next run at the same distance.
    """
    places = np.sort(_of_a_row(rows.shape, rows.rows))
    ends = np.flatnonzero(np.diff(places) > rows.gap + 1)
    firsts = places[np.concatenate(([0], ends + 1))]
    lengths = places[np.concatenate((ends, [len(places) - 1]))] + 1 - firsts
    along = places_along(rows.shape, rows.cols)
    step = int(along[1] - along[0]) if len(along) > 1 else 1
    if 1 < step <= rows.gap + 1:
        lengths[:-1] = -(-lengths[:-1] // step) * step
    down = places_along(rows.shape, rows.rows)
    room = np.append(firsts[1:], rows.shape.padded_elements() - int(down.max())) - firsts
    lengths = np.where(room >= lengths.max(), lengths.max(), lengths)
    columns = np.concatenate(
        [first + np.arange(length) for first, length in zip(firsts, lengths, strict=True)]
    )
    begun = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    return _Cover(down, columns, firsts, begun)


@lru_cache(maxsize=256)
def _table(outer: CoveredRows, axes: tuple[tuple[int, ...], ...]) -> Integers:
    return outer.columns_of(axes)


def _of_a_row(shape: Shape, rows: tuple[int, ...]) -> Integers:
    """Return the places of the elements of the first row of all matrices."""
    return places_along(shape, [axis for axis in range(shape.rank) if axis not in rows])


def _count(shape: Shape, axes: Sequence[int]) -> int:
    return int(np.prod([shape.dims[axis] for axis in axes], dtype=np.int64))
