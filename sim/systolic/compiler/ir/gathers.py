"""A gather: a matrix made of boxes of other matrices, and of boxes that have one value.

A slice, a concatenation and padding are gathers, and so are the rows of several taps of a
convolution. A part takes whole rows and columns: which matrix of the source, which row and which
column stand in a place are three questions, so three short arrays answer them. Not here: tiles,
addresses and instructions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.dram_tensor import segments
from systolic.isa.access import MAX_PAIRS, Pattern
from systolic.spans import Span

NOWHERE = -1
"""The index that stands where a part has no element."""
FAR = 1 << 31
"""More than any distance of two columns."""


@dataclass(frozen=True, slots=True, eq=False)
class GatherPart:
    """A part of a gather: some matrices, rows and columns of the result.

    source: the number of the input that it comes from; None: its elements have one value. numbers,
    rows, cols: for each matrix, row and column of the result its number in the source (any if
    there is no source); `NOWHERE` if it is not in the part.
    """

    source: int | None
    numbers: Integers
    rows: Integers
    cols: Integers

    @property
    def elements(self) -> int:
        """Return how many elements of the result the part makes."""
        return math.prod(int((index >= 0).sum()) for index in (self.numbers, self.rows, self.cols))


class PlaceValues(NamedTuple):
    """The values of elements that have no source, by their place in a row or a column."""

    base: int
    per_element: int


@dataclass(frozen=True, slots=True)
class GatheredBox:
    """A box of a tensor's elements, and where they come from.

    first, sizes: of the result, for each dimension. source: the number of the input, or None.
    origin, steps: the element of the source at `first`, and its distance to the next.
    """

    first: tuple[int, ...]
    sizes: tuple[int, ...]
    source: int | None = None
    origin: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


def part_of(
    box: GatheredBox, axes: Sequence[tuple[int, ...]], dims: Sequence[int], source: Sequence[int]
) -> GatherPart:
    """Return a box as a part of matrices that have the source's axes too.

    axes: of (batch..., row, column); dims: of the result; source: dimensions of the source.
    """
    *batch, row, col = axes
    groups = (tuple(axis for group in batch for axis in group), row, col)
    numbers, rows, cols = (_index(box, group, dims, source) for group in groups)
    return GatherPart(box.source, numbers, rows, cols)


def _index(
    box: GatheredBox, group: Sequence[int], dims: Sequence[int], source: Sequence[int]
) -> Integers:
    """Return where each element of a group of axes comes from."""
    sizes = [dims[axis] for axis in group]
    count = math.prod(sizes)
    found = np.arange(count) if box.source is None else np.zeros(count, np.int64)
    inside = np.ones(count, bool)
    for axis, place in zip(group, np.indices(sizes).reshape(len(group), count), strict=True):
        within = place - box.first[axis]
        inside &= (within >= 0) & (within < box.sizes[axis])
        if box.source is not None:
            found = found * source[axis] + box.origin[axis] + within * box.steps[axis]
    found[~inside] = NOWHERE
    return found


def parts_of(
    places: Sequence[Integers], axes: Sequence[tuple[int, ...]], source: Sequence[int]
) -> Iterator[GatherPart]:
    """Yield the parts of a result: what has no source, cut at axis after axis, then the rest.

    places: for each axis of the result that along the source's, `NOWHERE` for none. source: the
    dimensions of the source, whose matrices are seen as the result's (`axes`).
    """
    *batch, row, col = axes
    groups = (tuple(axis for group in batch for axis in group), row, col)
    kept = [np.arange(len(each)) for each in places]
    for axis, along in enumerate(places):
        for span in gaps(along):
            inside = [*kept]
            inside[axis] = span
            yield GatherPart(None, *(_joined(inside, group, places) for group in groups))
        kept[axis] = np.flatnonzero(along != NOWHERE)
    found = (
        _joined(kept, group, places, [(source[axis], places[axis]) for axis in group])
        for group in groups
    )
    yield GatherPart(0, *found)


def gaps(along: Integers) -> Iterator[Integers]:
    """Yield the places without a source: before the first that has one, behind the last, between.

    All are neighbours but those between: if these are between every two, they are one part.
    """
    has = np.flatnonzero(along != NOWHERE)
    numbers = np.arange(len(along))
    if not len(has):
        yield numbers
        return
    missing = along == NOWHERE
    before, behind = numbers < has[0], numbers > has[-1]
    for some in (before, behind, missing & ~before & ~behind):
        if some.any():
            yield numbers[some]


def _joined(
    kept: Sequence[Integers],
    group: Sequence[int],
    places: Sequence[Integers],
    source: Sequence[tuple[int, Integers]] = (),
) -> Integers:
    """Return where each element of a group of axes comes from; `NOWHERE` beside what is kept.

    source: for each axis its size in the source, and the place there of each index; none: any.
    """
    found, inside = np.zeros(1, np.int64), np.ones(1, bool)
    for number, axis in enumerate(group):
        here = np.zeros(len(places[axis]), bool)
        here[kept[axis]] = True
        size, along = source[number] if source else (len(here), np.arange(len(here)))
        found = (found[:, None] * size + along).reshape(-1)
        inside = (inside[:, None] & here).reshape(-1)
    return np.where(inside, found, NOWHERE)


def around(inner: GatheredBox, dims: Sequence[int]) -> Iterator[GatheredBox]:
    """Yield boxes without a source that make up all of the result but one box."""
    first, sizes = [0] * len(dims), list(dims)
    for axis, size in enumerate(dims):
        begin, stop = inner.first[axis], inner.first[axis] + inner.sizes[axis]
        for low, high in ((0, begin), (stop, size)):
            if low < high:
                at = (*first[:axis], low, *first[axis + 1 :])
                yield GatheredBox(at, (*sizes[:axis], high - low, *sizes[axis + 1 :]))
        first[axis], sizes[axis] = begin, stop - begin


@dataclass(frozen=True, slots=True)
class ColumnRun:
    """Columns of a result and of a source, in the same order, that one access each reaches."""

    target: int
    target_pairs: Pattern
    source: int
    source_pairs: Pattern


def runs_of(target: Integers, source: Integers) -> Iterator[ColumnRun]:
    """Yield runs that together take source columns to target columns, in order."""
    for part in segments(target * FAR + source):
        for piece in _fitting_pairs(part.base, part.pairs):
            base, pairs = piece
            whole = [_apart(step) for step, _ in pairs]
            counts = [count for _, count in pairs]
            first, second = _apart(base)
            yield ColumnRun(
                first,
                tuple((step, n) for (step, _), n in zip(whole, counts, strict=True)),
                second,
                tuple((step, n) for (_, step), n in zip(whole, counts, strict=True)),
            )


def _apart(number: int) -> tuple[int, int]:
    """Return target and source from a number target * FAR + source."""
    source = (number + FAR // 2) % FAR - FAR // 2
    return (number - source) // FAR, source


def _fitting_pairs(base: int, pairs: Pattern) -> Iterator[tuple[int, Pattern]]:
    if len(pairs) <= MAX_PAIRS:
        yield base, pairs
        return
    (step, count), *inner = pairs
    for number in range(count):
        yield from _fitting_pairs(base + number * step, tuple(inner))


def stretches(index: Integers) -> Iterator[tuple[Span, int]]:
    """Yield neighbouring places that come from neighbouring indices, and the first index."""
    first, known = 0, np.where(index < 0, -2 * FAR, index)
    edges = np.flatnonzero(np.diff(known) != 1) + 1
    for stop in [*edges.tolist(), len(index)]:
        if first < stop and index[first] >= 0:
            yield Span(first, stop - first), int(index[first])
        first = stop
