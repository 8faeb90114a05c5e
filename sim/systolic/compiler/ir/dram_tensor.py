"""A tensor in DRAM in any XLA layout: the accesses that reach a rectangle of a matrix.

The offsets come from `systolic.layout`; here they are only recognised as [step, count] pairs.
Without combined dimensions an offset is the sum of a part that depends on the row and a part that
depends on the column. So the offsets of a block take two short vectors, for any tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from systolic.arrays import Integers
from systolic.isa import Access, Buffer
from systolic.isa.access import MAX_PAIRS, Pattern, coalesced
from systolic.layout import COMBINE, Shape
from systolic.spans import Span

BURST_BYTES = 64
"""The compiler gives places in DRAM in whole bursts of this size."""


def whole_bursts(size_bytes: int) -> int:
    """Return a size in bytes, rounded up to whole bursts."""
    return -(-size_bytes // BURST_BYTES) * BURST_BYTES


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Rows and columns of a block, counted from the block's origin, and where they lie."""

    access: Access
    rows: Span
    cols: Span


@dataclass(frozen=True, slots=True)
class Segment:
    """`count` consecutive indices from `first` whose offsets are `base` plus a regular pattern."""

    first: int
    count: int
    base: int
    pairs: Pattern

    @property
    def span(self) -> Span:
        """Return the indices."""
        return Span(self.first, self.count)


class DramTensor:
    """A tensor at byte `base` of DRAM.

    Args:
        shape: type, dimensions and layout.
        base: byte address of its first element's place.
        axes: for each axis of the matrices [batch..., row, column], the dimensions of the tensor
            that make it up, major to minor.
        picked: the tensor's row for each row of the matrix (none: the same).

    """

    def __init__(
        self,
        shape: Shape,
        base: int,
        axes: Sequence[tuple[int, ...]],
        picked: Sequence[int] = (),
    ) -> None:
        self.shape, self.base = shape, base
        self._picked = np.asarray(picked, np.int64)
        self._axes = tuple(axes)
        tiles = shape.layout.tiles if isinstance(shape, Shape) else ()
        self._separable = not any(COMBINE in tile.dims for tile in tiles)
        self._found = _found_segments(shape, self._axes, tuple(picked))

    @property
    def size_bytes(self) -> int:
        """Return the bytes the tensor takes, padding counted, in whole bursts."""
        return whole_bursts(self.shape.size_bytes())

    def whole(self) -> Access:
        """Return the access to every place of the tensor, padding included."""
        places = self.shape.padded_elements()
        return Access(Buffer.DRAM, self.shape.element_type, 0, 1, self.base, ((1, places),))

    def rectangles(
        self,
        batch: Sequence[int],
        origin: tuple[int, int],
        extents: tuple[int, int],
        *,
        whole_rows: bool = False,
    ) -> Iterator[Rectangle]:
        """Yield accesses that together reach a block.

        whole_rows: an access with too many pairs is cut along the columns, if that helps, so that
        its parts go to as many partitions.
        """
        if not self._separable:
            yield from self._row_by_row(batch, origin, extents)
            return
        outer = sum(self._offset(axis, i) for axis, i in enumerate(batch))
        row_axis, col_axis = len(batch), len(batch) + 1
        for row in self._segments(row_axis, origin[0], extents[0]):
            for col in self._segments(col_axis, origin[1], extents[1]):
                yield from self._emit(outer, row, col, whole_rows=whole_rows)

    def _emit(
        self, outer: int, row: Segment, col: Segment, *, whole_rows: bool
    ) -> Iterator[Rectangle]:
        pairs = coalesced(row.pairs + col.pairs)
        if len(pairs) <= MAX_PAIRS:
            start = self.base + (outer + row.base + col.base) * self._bytes
            access = Access(Buffer.DRAM, self.shape.element_type, 0, 1, start, pairs)
            yield Rectangle(access, row.span, col.span)
            return
        by_rows = len(col.pairs) == 1 if whole_rows else len(row.pairs) >= len(col.pairs)
        rows, cols = (_split(row), [col]) if by_rows else ([row], _split(col))
        for one, other in product(rows, cols):
            yield from self._emit(outer, one, other, whole_rows=whole_rows)

    def _row_by_row(
        self, batch: Sequence[int], origin: tuple[int, int], extents: tuple[int, int]
    ) -> Iterator[Rectangle]:
        """Yield accesses for a layout that mixes dimensions: one row at a time."""
        for line, offsets in enumerate(self._grid(batch, origin, extents)):
            for part in segments(offsets):
                for piece in _fitting(part):
                    start = self.base + piece.base * self._bytes
                    access = Access(Buffer.DRAM, self.shape.element_type, 0, 1, start, piece.pairs)
                    yield Rectangle(access, Span(line, 1), piece.span)

    def _grid(
        self, batch: Sequence[int], origin: tuple[int, int], extents: tuple[int, int]
    ) -> Integers:
        index: list[Any] = [0] * self.shape.rank
        for axis, i in enumerate(batch):
            self._place(index, axis, np.asarray(i))
        rows = origin[0] + np.arange(extents[0])[:, None]
        cols = origin[1] + np.arange(extents[1])[None, :]
        self._place(index, len(batch), rows)
        self._place(index, len(batch) + 1, cols)
        found = self.shape.linear_index([np.asarray(part) for part in index])
        return np.broadcast_to(found, extents)

    def _segments(self, axis: int, first: int, count: int) -> tuple[Segment, ...]:
        key = axis, first, count
        if key not in self._found:
            index: list[Any] = [0] * self.shape.rank
            self._place(index, axis, first + np.arange(count))
            offsets = self.shape.linear_index([np.asarray(part) for part in index])
            self._found[key] = tuple(segments(np.broadcast_to(offsets, (count,))))
        return self._found[key]

    def _offset(self, axis: int, number: int) -> int:
        return self._segments(axis, number, 1)[0].base

    def _place(self, index: list[Any], axis: int, numbers: npt.NDArray[Any]) -> None:
        """Spread numbers along a matrix axis over the tensor's dimensions it is made of."""
        dims = self._axes[axis]
        if axis == len(self._axes) - 2 and self._picked.size:
            numbers = self._picked[numbers]
        sizes = tuple(self.shape.dims[d] for d in dims)
        for dim, part in zip(dims, np.unravel_index(numbers, sizes) if dims else (), strict=True):
            index[dim] = part

    @property
    def _bytes(self) -> int:
        return int(self.shape.dtype.itemsize)


@lru_cache(maxsize=1024)
def _found_segments(
    shape: Shape, axes: tuple[tuple[int, ...], ...], picked: tuple[int, ...]
) -> dict[tuple[int, int, int], tuple[Segment, ...]]:
    """Return the segments found so far, by axis, first index and count, for tensors to add to.

    They count from a tensor's base. So equal tensors share them, as layers of equal shape have, and
    the same tensor in another plan.
    """
    return {}


def segments(offsets: Integers) -> list[Segment]:
    """Return few regular segments, found from the left, that make up the offsets.

    Offsets that begin in the middle of a run have that rest of a run as a segment of its own, if
    what follows is longer then: of runs of 7 from the third on, 5 and 7 x 17 instead of pairs of 5.
    """
    found: list[Segment] = []
    first = 0
    while first < len(offsets):
        count, pairs = _regular(offsets[first:])
        if len(pairs) > 1 and first + count < len(offsets):
            run = pairs[-1][1]
            aligned, _ = _regular(offsets[first + run :])
            following, _ = _regular(offsets[first + count :])
            if run + aligned > count + following:
                count, pairs = run, pairs[-1:]
        found.append(Segment(first, count, int(offsets[first]), pairs))
        first += count
    return found


def _regular(offsets: Integers) -> tuple[int, Pattern]:
    """Return how many leading offsets follow one nested pattern, and the pattern."""
    run = _run(offsets)
    step = int(offsets[1] - offsets[0]) if len(offsets) > 1 else 1
    inner: Pattern = ((step, run),)
    rows = len(offsets) // run
    if run == 1 or rows == 1:
        return run, inner
    table = offsets[: rows * run].reshape(rows, run)
    same = (table - table[:, :1] == table[0] - table[0, 0]).all(axis=1)
    alike = int(np.argmin(same)) if not same.all() else rows
    if alike == 1:
        return run, inner
    count, outer = _regular(table[:alike, 0])
    return count * run, outer + inner


def _run(offsets: Integers) -> int:
    """Return how many leading offsets have one distance."""
    if len(offsets) < 3:
        return len(offsets)
    steps = np.diff(offsets)
    other = np.flatnonzero(steps != steps[0])
    return int(other[0]) + 1 if len(other) else len(offsets)


def _split(segment: Segment) -> Iterator[Segment]:
    """Yield the segment cut along its outermost pair."""
    (step, count), *inner = segment.pairs
    size = segment.count // count
    for part in range(count):
        yield Segment(
            segment.first + part * size, size, segment.base + part * step, tuple(inner) or ((1, 1),)
        )


def _fitting(segment: Segment) -> Iterator[Segment]:
    """Yield the segment in parts that an access can name."""
    if len(segment.pairs) <= MAX_PAIRS:
        yield segment
        return
    for part in _split(segment):
        yield from _fitting(part)
