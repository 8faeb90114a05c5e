"""A move: elements of one memory get another order in it.

A layout without gaps is a number system. The place of an element in memory has digits, such as
(row tile, column tile, row, column), and a digit is worth a number of elements in logical order.
Two layouts of the same elements, cut where either has a digit, have the same digits, in another
order. These digits are the factors of a move. So a reshape, a permutation and a relayout, tiles and
all, are one thing: factors in the order of the source, and their order in the result. Not here:
ways, and layouts with gaps, which are cut into moves first (`parts`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from systolic.compiler.ir.strided import ShapeInDram, StridedShape
from systolic.layout import COMBINE, Layout, Shape

Digits = list[tuple[int, int]]
"""(size, elements of logical order that a step of it is worth), major to minor."""


@dataclass(frozen=True, slots=True)
class FactorPlaces:
    """Where the factors of a move lie in one of its two places.

    order: their numbers, major to minor. steps: of each factor by its number, elements of memory
    from one index to the next.
    """

    order: tuple[int, ...]
    steps: tuple[int, ...]

    @classmethod
    def dense(cls, sizes: Sequence[int], order: Sequence[int]) -> FactorPlaces:
        """Return where factors of these sizes lie in this order without gaps."""
        steps = [1] * len(sizes)
        for major, minor in reversed([*pairwise(order)]):
            steps[major] = steps[minor] * sizes[minor]
        return cls(tuple(order), tuple(steps))

    def shape(self, dtype: str, sizes: tuple[int, ...]) -> ShapeInDram:
        """Return the place as a shape whose dimensions are the factors."""
        if self == FactorPlaces.dense(sizes, self.order):
            return Shape(dtype, sizes, Layout(self.order[::-1]))
        return StridedShape(dtype, sizes, self.steps)

    def cut(self, factor: int, minor: int) -> FactorPlaces:
        """Return the same place with a factor cut in two: its major part, and `minor`."""
        order: list[int] = []
        for number in self.order:
            order += [number, number + 1] if number == factor else [number + (number > factor)]
        steps = list(self.steps)
        steps.insert(factor, steps[factor] * minor)
        return FactorPlaces(tuple(order), tuple(steps))


@dataclass(frozen=True, slots=True)
class Move:
    """The elements of a place in DRAM, in another order.

    sizes: of the factors, in the order of the source, major to minor. before, after: where they lie
    in the source and in the result. spaced: elements of the source from one to the next, at least;
    those in between are padding that may be brought with them (1: no padding is brought). gaps: for
    each factor, how many indices of padding behind its own may be brought with them (none: no
    padding is brought).
    """

    dtype: str
    sizes: tuple[int, ...]
    before: FactorPlaces
    after: FactorPlaces
    spaced: int = 1
    gaps: tuple[int, ...] = ()

    @classmethod
    def dense(cls, dtype: str, sizes: Sequence[int], order: Sequence[int]) -> Move:
        """Return a move between places without gaps; order: of the factors in the result."""
        before = FactorPlaces.dense(sizes, range(len(sizes)))
        return cls(dtype, tuple(sizes), before, FactorPlaces.dense(sizes, order))

    def gap_choices(self) -> Iterator[Move]:
        """Yield the move without the padding of its gaps, then with more and more, minor first."""
        if not any(self.gaps):
            yield self
            return
        gaps = [0] * len(self.sizes)
        yield replace(self, gaps=())
        for number in reversed(self.before.order):
            if self.gaps[number]:
                gaps[number] = self.gaps[number]
                yield replace(self, gaps=tuple(gaps))

    @property
    def order(self) -> tuple[int, ...]:
        """Return the numbers of the factors in the order of the result."""
        return self.after.order

    @property
    def source(self) -> ShapeInDram:
        """Return the source as a shape whose dimensions are the factors.

        If elements lie apart, there is a last dimension: each of them with the padding behind it.
        """
        if self.spaced > 1:
            return StridedShape(self.dtype, self.source_sizes, (*self.before.steps, 1))
        return self.before.shape(self.dtype, self.sizes)

    @property
    def source_sizes(self) -> tuple[int, ...]:
        """Return the dimensions of the source as a shape."""
        return (*self.sizes, self.spaced) if self.spaced > 1 else self.sizes

    @property
    def result(self) -> ShapeInDram:
        """Return the result as a shape of the same dimensions, which lie in another order."""
        return self.after.shape(self.dtype, self.sizes)

    @property
    def same_bytes(self) -> bool:
        """Return whether nothing changes its place, and there is nothing in between."""
        return self == Move.dense(self.dtype, self.sizes, range(len(self.sizes)))

    def cut(self, factor: int, minor: int) -> Move:
        """Return the same move with a factor of n cut into n / minor and minor."""
        sizes = list(self.sizes)
        sizes[factor : factor + 1] = [sizes[factor] // minor, minor]
        before, after = (side.cut(factor, minor) for side in (self.before, self.after))
        gaps = list(self.gaps)
        if gaps:
            whole = gaps[factor] // minor if gaps[factor] % minor == 0 else 0
            gaps[factor : factor + 1] = [whole, 0]
        return Move(self.dtype, tuple(sizes), before, after, self.spaced, tuple(gaps))


def move_of(source: Shape, result: Shape, permutation: Sequence[int] | None = None) -> Move | None:
    """Return the move from a shape to another one; None if a layout has gaps or no factors fit.

    permutation: axis i of the result is axis permutation[i] of the source; None: a reshape, or the
    same axes.
    """
    if not (_dense(source) and _dense(result)):
        return None
    worth = _worth(source.dims)
    after = _worth(result.dims) if permutation is None else [worth[a] for a in permutation]
    here, there = _digits(source, worth), _digits(result, after)
    if here is None or there is None:
        return None
    cuts = sorted({step for size, step in (*here, *there) if size > 1})
    fine, other = _cut(here, cuts), _cut(there, cuts)
    if fine is None or other is None:
        return None
    return _merged(source.element_type, fine, other)


def _dense(shape: Shape) -> bool:
    count = shape.num_elements()
    return shape.padded_elements() == count and shape.size_bytes() == count * shape.dtype.itemsize


def _worth(dims: Sequence[int]) -> list[int]:
    return [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]


def _digits(shape: Shape, worth: Sequence[int]) -> Digits | None:
    """Return the digits of a place in memory; None if a tile splits a dimension unevenly."""
    dims: list[Digits] = [[(shape.dims[a], worth[a])] for a in shape.layout.major_to_minor]
    for tile in shape.layout.tiles:
        if len(tile.dims) > len(dims):
            return None
        folded = _folded(dims[len(dims) - len(tile.dims) :], tile.dims)
        parts = [_split(digits, size) for digits, size in folded]
        if any(part is None for part in parts):
            return None
        pairs = [part for part in parts if part is not None]
        del dims[len(dims) - len(tile.dims) :]
        dims += [major for major, _ in pairs] + [minor for _, minor in pairs]
    return [digit for digits in dims for digit in digits]


def _folded(dims: Sequence[Digits], tile: Sequence[int]) -> Iterator[tuple[Digits, int]]:
    """Yield dimensions and tile sizes; a dimension that the tile combines joins the next one."""
    before: Digits = []
    for digits, size in zip(dims, tile, strict=True):
        before = before + digits
        if size != COMBINE:
            yield before, size
            before = []


def _split(digits: Digits, size: int) -> tuple[Digits, Digits] | None:
    """Return the digits beyond the lowest `size` numbers, and those below; None if one is cut."""
    major, minor = list(digits), list[tuple[int, int]]()
    while size > 1:
        if not major:
            return None
        count, step = major.pop()
        if count <= size:
            if size % count:
                return None
            minor.insert(0, (count, step))
            size //= count
        elif count % size:
            return None
        else:
            major.append((count // size, step * size))
            minor.insert(0, (size, step))
            size = 1
    return major, minor


def _cut(digits: Digits, cuts: Sequence[int]) -> Digits | None:
    """Return the digits cut at each of the steps; None if a step cuts a digit unevenly."""
    found: Digits = []
    for size, step in digits:
        inside = [cut for cut in reversed(cuts) if step < cut < step * size]
        top = step * size
        for low in (*inside, step):
            if top % low:
                return None
            if top > low:
                found.append((top // low, low))
            top = low
    return found


def _merged(dtype: str, here: Digits, there: Digits) -> Move | None:
    """Return the move; digits that follow one another on both sides are one factor."""
    if sorted(here) != sorted(there):
        return None
    order = [here.index(digit) for digit in there]
    groups: list[list[int]] = []
    for number in order:
        if groups and groups[-1][-1] + 1 == number:
            groups[-1].append(number)
        else:
            groups.append([number])
    ranked = sorted(groups)
    sizes = tuple(math.prod(here[number][0] for number in group) for group in ranked)
    return Move.dense(dtype, sizes, [ranked.index(group) for group in groups])
