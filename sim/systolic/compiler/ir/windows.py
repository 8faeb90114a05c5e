"""A matrix within another: the same rows, and columns that are some of the other's columns.

A tensor is brought and stored in the order in which memory has it, row by row. The matrices that
work needs lie within these rows, often at a distance: of [rows, columns and batch] matrix b has
every batch-th column. An access with steps reaches it, so nothing has to move. So it is with a
format that puts pairs of rows in a partition, column by column: the even rows are every second
column of the holder. One byte of every element of a matrix is a matrix of bytes. Not here:
addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.change_of_view import Spread
from systolic.compiler.ir.dram_tensor import Segment, segments
from systolic.isa import Access
from systolic.spans import Span


class AnyWindow(Protocol):
    """Where the elements of a matrix lie in another one, the holder."""

    @property
    def holder(self) -> str:
        """The name of the matrix in which they lie."""

    def number(self, number: int) -> int:
        """Return which of the holder's matrices holds this matrix."""

    def row(self, row: int) -> int:
        """Return the holder's row of a row."""

    def column(self, row: int, col: int) -> int:
        """Return a column of the holder's tile in which an element lies."""

    def columns(self, number: int, row: int, cols: Span) -> Integers:
        """Return the holder's column of each of these columns, in a row."""

    def segments(self, number: int, row: int, cols: Span) -> list[Segment]:
        """Return the holder's columns as regular segments; `first` counts from `cols.first`."""


@dataclass(frozen=True, slots=True)
class StridedWindow:
    """A matrix whose columns are every `step`-th column of another one, from the `first` on.

    within: how that one lies in the holder (None: it is the holder). Each tile of the holder has
    all of its columns.
    """

    holder: str
    first: int
    step: int
    within: MatrixWindow | None = None

    def number(self, number: int) -> int:
        """Return which of the holder's matrices holds this matrix."""
        return self.within.number(number) if self.within else number

    def row(self, row: int) -> int:
        """Return the holder's row of a row."""
        return self.within.row(row) if self.within else row

    def column(self, row: int, col: int) -> int:
        """Return the first column of the holder's tile, which has all of them."""
        return 0

    def columns(self, number: int, row: int, cols: Span) -> Integers:
        """Return the holder's column of each of these columns."""
        first = self.first + self.step * cols.first
        wide = Span(first, self.step * (cols.count - 1) + 1)
        every = self.within.columns(number, row, wide) if self.within else np.arange(wide.count)
        found: Integers = every[:: self.step] + (0 if self.within else first)
        return found

    def segments(self, number: int, row: int, cols: Span) -> list[Segment]:
        """Return the holder's columns as regular segments; `first` counts from `cols.first`."""
        return segments(np.ascontiguousarray(self.columns(number, row, cols)))


@dataclass(frozen=True, slots=True)
class FoldedWindow:
    """A matrix whose rows lie several to a partition of the holder, side by side in its columns.

    outer, inner: the holder's view of the elements, and the matrix's own; the holder's rows are
    made of some of the dimensions of the matrix's rows, its columns of the others too. So a column
    of 2048 rows may lie in 16 columns of 128, and row 5 of a matrix as the second half of row 2 of
    a holder. Rows that the work takes together must lie in as many rows of the holder, at one
    place in their columns. Each tile of the holder has all of its columns.
    """

    holder: str
    outer: Spread
    inner: Spread

    def number(self, number: int) -> int:
        """Return which of the holder's matrices holds this matrix."""
        return int(_places(self.outer, self.inner)[0][number])

    def row(self, row: int) -> int:
        """Return the holder's row of a row."""
        return int(_folded(self.outer, self.inner)[0][row])

    def column(self, row: int, col: int) -> int:
        """Return a column of the holder's tile, which has all of them: the row's first."""
        return int(_folded(self.outer, self.inner)[1][row])

    def columns(self, number: int, row: int, cols: Span) -> Integers:
        """Return the holder's column of each of these columns, in a row."""
        _, starts, steps = _places(self.outer, self.inner)
        found: Integers = self._start(starts, number, row) + steps[cols.first : cols.stop]
        return found

    def segments(self, number: int, row: int, cols: Span) -> list[Segment]:
        """Return the holder's columns as regular segments; `first` counts from `cols.first`."""
        start = self._start(_places(self.outer, self.inner)[1], number, row)
        return [
            Segment(part.first, part.count, start + part.base, part.pairs)
            for part in _segments(self.outer, self.inner, cols)
        ]

    def _start(self, starts: Integers, number: int, row: int) -> int:
        return int(starts[number]) + int(_folded(self.outer, self.inner)[1][row])


@dataclass(frozen=True, slots=True)
class MatrixWindow:
    """Where the elements of a matrix lie in another one, the holder.

    outer, inner: the holder's view of the tensor, and the matrix's own; the rows are made of the
    same dimensions. Those of columns may have more indices in the holder: what lies there is no
    part of the matrix. Each tile of the holder has all of its columns.
    """

    holder: str
    outer: Spread
    inner: Spread

    def number(self, number: int) -> int:
        """Return which of the holder's matrices holds this matrix."""
        return int(_places(self.outer, self.inner)[0][number])

    def row(self, row: int) -> int:
        """Return the holder's row of a row."""
        return row

    def column(self, row: int, col: int) -> int:
        """Return the first column of the holder's tile, which has all of them."""
        return 0

    def columns(self, number: int, row: int, cols: Span) -> Integers:
        """Return the holder's column of each of these columns."""
        _, starts, steps = _places(self.outer, self.inner)
        found: Integers = starts[number] + steps[cols.first : cols.stop]
        return found

    def segments(self, number: int, row: int, cols: Span) -> list[Segment]:
        """Return the holder's columns as regular segments; `first` counts from `cols.first`."""
        start = int(_places(self.outer, self.inner)[1][number])
        return [
            Segment(part.first, part.count, start + part.base, part.pairs)
            for part in _segments(self.outer, self.inner, cols)
        ]


@dataclass(frozen=True, slots=True)
class PartWindow:
    """A part of every element of a matrix, its byte or its half: a matrix of u8 or of u16.

    many: how many parts an element of the holder has. part: which of them, in the order of their
    bytes. dtype: the type of a part. within: how the elements lie in the holder (None: they are the
    holder's, in tiles of the holder).
    """

    holder: str
    many: int
    part: int
    dtype: str
    within: MatrixWindow | None = None

    def number(self, number: int) -> int:
        """Return which of the holder's matrices holds this matrix."""
        return self.within.number(number) if self.within else number

    def row(self, row: int) -> int:
        """Return the holder's row of a row."""
        return self.within.row(row) if self.within else row

    def column(self, row: int, col: int) -> int:
        """Return a column of the holder's tile in which an element lies."""
        return self.within.column(row, col) if self.within else col

    def columns(self, number: int, row: int, cols: Span) -> Integers:
        """Return the holder's column of each of these columns."""
        if self.within:
            return self.within.columns(number, row, cols)
        return np.arange(cols.first, cols.stop)

    def segments(self, number: int, row: int, cols: Span) -> list[Segment]:
        """Return the holder's columns as regular segments; `first` counts from `cols.first`."""
        if self.within:
            return self.within.segments(number, row, cols)
        return [Segment(0, cols.count, cols.first, ((1, cols.count),))]

    def of(self, elements: Access) -> Access:
        """Return the access to the part of each element that an access of the holder names."""
        pattern = tuple((step * self.many, count) for step, count in elements.pattern)
        start = elements.start + self.part * elements.element_bytes // self.many
        return replace(elements, dtype=self.dtype, start=start, pattern=pattern)


@lru_cache(maxsize=256)
def _places(outer: Spread, inner: Spread) -> tuple[Integers, Integers, Integers]:
    """Return, of each matrix, its holder's number and first column; and the columns' distances."""
    count, _, cols = inner.sizes()
    numbers, _, starts = outer.locate(_among(outer, inner, inner.starts(count)))
    first_row = inner.logical(0, Span(0, 1), Span(0, cols))[0]
    _, _, steps = outer.locate(_among(outer, inner, first_row))
    return numbers, starts, steps


@lru_cache(maxsize=256)
def _folded(outer: Spread, inner: Spread) -> tuple[Integers, Integers]:
    """Return, of each row of the first matrix, its holder's row, and its first column there."""
    _, rows, _ = inner.sizes()
    down = inner.logical(0, Span(0, rows), Span(0, 1))[:, 0]
    _, places, columns = outer.locate(_among(outer, inner, down))
    return places, columns - columns[0]  # the matrix's first column counts elsewhere


def _among(outer: Spread, inner: Spread, logical: Integers) -> Integers:
    """Return the row-major indices of elements in the dimensions of the holder's view."""
    if outer.dims == inner.dims:
        return logical
    return np.ravel_multi_index(np.unravel_index(logical, inner.dims), outer.dims)


@lru_cache(maxsize=65536)
def _segments(outer: Spread, inner: Spread, cols: Span) -> tuple[Segment, ...]:
    steps = _places(outer, inner)[2]
    return tuple(segments(np.ascontiguousarray(steps[cols.first : cols.stop])))
