"""Cutting a tensor into blocks and sub-blocks, written as a tiled shape: blocks are tiles.

A tensor larger than the state buffer (p partitions of q columns) is cut into blocks ``T(p,q)``; a
block larger than the array is cut again, ``T(p,q)(p2,q2)`` (seed 004, paragraphs 52-57, 90-93).
This is the only place that knows how many blocks there are and where they begin. Not here: which
block is computed when, or where its bytes lie in a buffer (``placement``).
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from systolic.layout.errors import LayoutError
from systolic.layout.layout import Layout
from systolic.layout.shape import Shape
from systolic.spans import Span


@dataclass(frozen=True, slots=True)
class Block:
    """One block, or sub-block, of one matrix.

    ``batch`` are the leading indices of its matrix. ``row`` and ``column`` count blocks (for a
    sub-block: within its block). ``rows`` and ``columns`` are the rows and columns of the matrix
    that the block holds, fewer than the tile's at ragged edges. ``number`` is the block's place in
    the iteration.
    """

    number: int
    batch: tuple[int, ...]
    row: int
    column: int
    rows: Span
    columns: Span

    @property
    def origin(self) -> tuple[int, int]:
        """The row and the column of the block's first element."""
        return self.rows.first, self.columns.first

    @property
    def extents(self) -> tuple[int, int]:
        """How many rows and how many columns the block has."""
        return self.rows.count, self.columns.count

    @property
    def index(self) -> tuple[int, ...]:
        """The block's index: batch, block row, block column."""
        return (*self.batch, self.row, self.column)

    @property
    def elements(self) -> int:
        """How many elements the block has."""
        return self.rows.count * self.columns.count

    @property
    def slices(self) -> tuple[int | slice, ...]:
        """The index that gives the block from a numpy array (batch..., rows, columns)."""
        sides = (self.rows, self.columns)
        return (*self.batch, *(slice(side.first, side.stop) for side in sides))


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A tensor as a batch of matrices, each cut into blocks; iterating gives the blocks.

    ``batch`` are the leading dimensions; ``rows`` and ``columns`` are the sizes of each matrix (a
    vector is one row). ``block`` is (p, q), ``sub_block`` (p2, q2) or None. ``tiled`` is the same
    decomposition as a shape: row major in ``T(p,q)`` or ``T(p,q)(p2,q2)``.
    """

    tiled: Shape
    batch: tuple[int, ...]
    rows: int
    columns: int
    block: tuple[int, int]
    sub_block: tuple[int, int] | None

    @property
    def grid(self) -> tuple[int, int]:
        """(block rows, block columns) of one matrix; 0 where a dimension is 0."""
        return _count(self.rows, self.block[0]), _count(self.columns, self.block[1])

    @property
    def count_per_matrix(self) -> int:
        """k = [(m-1)//p + 1] * [(n-1)//q + 1], equation 1 of seed 004."""
        return self.grid[0] * self.grid[1]

    @property
    def count(self) -> int:
        """How many blocks there are over the whole batch."""
        return math.prod(self.batch) * self.count_per_matrix

    def at(self, number: int) -> Block:
        """Return block ``number`` (batch, block row, block column in row-major order)."""
        if not 0 <= number < self.count:
            raise LayoutError(f"block {number} is out of range: there are {self.count}")
        matrix, inside = divmod(number, self.count_per_matrix)
        row, column = divmod(inside, self.grid[1])
        return self._block(number, _unravel(matrix, self.batch), row, column)

    def __iter__(self) -> Iterator[Block]:
        rows, columns = self.grid
        numbers = itertools.count()
        for matrix in range(math.prod(self.batch)):
            batch = _unravel(matrix, self.batch)
            for row in range(rows):
                for column in range(columns):
                    yield self._block(next(numbers), batch, row, column)

    def __len__(self) -> int:
        return self.count

    def sub_grid(self, block: Block) -> tuple[int, int]:
        """Return (sub-block rows, sub-block columns) that hold elements of ``block``."""
        p, q = self.sub_block or self.block
        return _count(block.rows.count, p), _count(block.columns.count, q)

    def sub_blocks(self, block: Block) -> Iterator[Block]:
        """Yield the sub-blocks of ``block`` that hold elements, row by row.

        Without a ``sub_block`` size the block itself is the only one.
        """
        p, q = self.sub_block or self.block
        rows, columns = self.sub_grid(block)
        for number in range(rows * columns):
            row, column = divmod(number, columns)
            sides = _part(block.rows, row, p), _part(block.columns, column, q)
            yield Block(number, block.batch, row, column, *sides)

    def transposed(self) -> Decomposition:
        """Return the decomposition of the transposed matrices: block (i, j) becomes (j, i)."""
        sub = None if self.sub_block is None else self.sub_block[::-1]
        shape = Shape(self.tiled.element_type, (*self.batch, self.columns, self.rows))
        return decompose(shape, self.block[::-1], sub)

    def _block(self, number: int, batch: tuple[int, ...], row: int, column: int) -> Block:
        p, q = self.block
        rows = _part(Span(0, self.rows), row, p)
        return Block(number, batch, row, column, rows, _part(Span(0, self.columns), column, q))


def decompose(
    shape: Shape, block: Sequence[int], sub_block: Sequence[int] | None = None
) -> Decomposition:
    """Cut ``shape`` into blocks of (p, q) elements and these into sub-blocks of (p2, q2).

    Only the logical dimensions count: the layout of the tensor in DRAM does not change its blocks.
    The last two dimensions are rows and columns, leading dimensions a batch; a vector is one row.
    A sub-block need not divide its block: sub-blocks at the block's edge are smaller. Raises
    LayoutError for sizes below 1.
    """
    size = _pair(block, "block")
    sub = None if sub_block is None else _pair(sub_block, "sub-block")
    *batch, rows, columns = (1,) * (2 - shape.rank) + shape.dims
    tiles = (size,) if sub is None else (size, sub)
    layout = Layout.row_major(shape.rank, *tiles, element_bits=shape.layout.element_bits)
    return Decomposition(
        tiled=shape.with_layout(layout),
        batch=tuple(batch),
        rows=rows,
        columns=columns,
        block=size,
        sub_block=sub,
    )


def _pair(sizes: Sequence[int], what: str) -> tuple[int, int]:
    pair = tuple(operator.index(size) for size in sizes)
    if len(pair) != 2:
        raise LayoutError(f"a {what} has 2 sizes (rows, columns), found {len(pair)}")
    if min(pair) < 1:
        raise LayoutError(f"the sizes of a {what} must be at least 1, found {_times(pair)}")
    return pair[0], pair[1]


def _part(whole: Span, number: int, size: int) -> Span:
    """Return part ``number`` of a span that is cut into parts of ``size``; the last is shorter."""
    first = whole.first + number * size
    return Span(first, min(size, whole.stop - first))


def _times(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def _count(size: int, tile: int) -> int:
    return (size - 1) // tile + 1


def _unravel(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    found: list[int] = []
    for size in reversed(sizes):
        number, inside = divmod(number, size)
        found.append(inside)
    return tuple(reversed(found))
