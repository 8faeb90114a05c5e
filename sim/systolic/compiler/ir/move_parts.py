"""Moves between layouts with gaps: boxes of elements, each box a move of factors.

A tile that stands over the edge of a tensor leaves gaps in memory. Behind each index along a
dimension lie as many elements as before, but not at one distance throughout: rows 0 to 71 of 77 are
nine tiles of eight, and the other five a part of one. So dimensions are cut where the distances
change, before and after the move. In a box between such cuts places are factors again, perhaps with
something else between them. Not here: layouts without gaps (`factors`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, NamedTuple, Protocol

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.dram_tensor import first_segment
from systolic.compiler.ir.factors import FactorPlaces, Move, move_of
from systolic.isa.access import Pattern
from systolic.layout import COMBINE, Shape

MOST_PARTS = 16
"""The most parts of a move. Dimensions that tiles cut unevenly on both sides give more of them."""
MOST_SPACED = 8
"""The most elements for one that is wanted: more of them take longer than another descriptor."""
LEAST_FACTORS = 2
"""The fewest factors of a part: one lies on partitions, another one along the address."""


@dataclass(frozen=True, slots=True)
class MovePart:
    """A move of some elements. source, result: the places of their first one, in elements."""

    move: Move
    source: int = 0
    result: int = 0

    @property
    def stop(self) -> int:
        """Return the first place of the source behind all elements."""
        steps = zip(self.move.sizes, self.move.before.steps, strict=True)
        return self.source + 1 + sum((n - 1) * step for n, step in steps)

    def cut(self, factor: int, size: int) -> tuple[MovePart, MovePart]:
        """Return the part with the first `size` indices of a factor, and that with the others."""
        move, (before, after) = self.move, (self.move.before, self.move.after)
        every, gaps = move.sizes[factor], list(move.gaps)
        sizes = [list(move.sizes), list(move.sizes)]
        sizes[0][factor], sizes[1][factor] = size, every - size
        if gaps:
            gaps[factor] = 0  # behind the first part lie elements
        first = replace(move, sizes=tuple(sizes[0]), gaps=tuple(gaps))
        return (
            replace(self, move=first),
            MovePart(
                replace(move, sizes=tuple(sizes[1])),
                self.source + size * before.steps[factor],
                self.result + size * after.steps[factor],
            ),
        )

    def first_indices(self) -> MovePart:
        """Return the part without the last index of its first factor."""
        first, *others = self.move.sizes
        return replace(self, move=replace(self.move, sizes=(first - 1, *others)))

    def last_index(self) -> MovePart:
        """Return what `first_indices` leaves out."""
        (first, *others), before, after = self.move.sizes, self.move.before, self.move.after
        return MovePart(
            replace(self.move, sizes=(1, *others)),
            self.source + (first - 1) * before.steps[0],
            self.result + (first - 1) * after.steps[0],
        )


class LinearPlaces(Protocol):
    """Where the elements of a tensor lie: a `Shape` in DRAM, or `ChipPlaces`."""

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of the tensor."""

    @property
    def rank(self) -> int:
        """The number of dimensions."""

    def linear_index(self, index: Sequence[Any]) -> Any:
        """Return the place of an index, or of arrays of indices."""


class Digit(NamedTuple):
    """Indices at one distance in the source, and at one in the result."""

    size: int
    source: int
    result: int


@dataclass(frozen=True, slots=True)
class DigitStretch:
    """Indices along a dimension as digits, major to minor, and where the first one lies."""

    digits: tuple[Digit, ...]
    source: int
    result: int


def stretches(
    source: LinearPlaces, result: LinearPlaces, permutation: Sequence[int] | None = None
) -> list[list[DigitStretch]] | None:
    """Return the indices of the fewest dimensions that go together, in stretches with digits.

    A box of elements is one stretch of each; None if one has too many. permutation: as below.
    """
    groups = dimension_groups(source.dims, result.dims, permutation)
    found = [_stretches(source, result, group) for group in groups]
    some = [each for each in found if each is not None]
    return some if len(some) == len(found) else None


def move_parts(
    source: Shape,
    result: Shape,
    permutation: Sequence[int] | None = None,
    *,
    over_padding: bool = False,
) -> tuple[MovePart, ...] | None:
    """Return the moves that bring a shape to another one; None if there are too many.

    permutation: axis i of the result is axis permutation[i] of the source; None: a reshape, or the
    same axes. over_padding: where rows of the result lie side by side, element by element, the rows
    that are padding may get anything that lies in the source's memory, so that runs stay whole; and
    padding between elements of the source may be brought with them.
    """
    whole = move_of(source, result, permutation)
    if whole is not None:
        return (MovePart(whole),)
    tiles = (*source.layout.tiles, *result.layout.tiles)
    if any(COMBINE in tile.dims for tile in tiles) or not source.num_elements():
        return None
    found = stretches(source, result, permutation)
    if found is None or math.prod(map(len, found)) > MOST_PARTS:
        return None
    parts = [_part(source.element_type, box) for box in product(*found)]
    if over_padding:
        groups = dimension_groups(source.dims, result.dims, permutation)
        boxes = product(*(_over_padding(result, *each) for each in zip(groups, found, strict=True)))
        longer = [_part(source.element_type, box) for box in boxes]
        places = source.padded_elements()
        parts = [
            one for pair in zip(parts, longer, strict=True) for one in _readable(*pair, places)
        ]
        parts = [_with_gaps(_spaced(part, places), places) for part in parts]
    return tuple(parts)


def _spaced(part: MovePart, places: int) -> MovePart:
    """Return a part that brings the padding between its elements, if these lie evenly apart."""
    steps = part.move.before.steps
    step = math.gcd(*steps)
    if not 1 < step <= MOST_SPACED or step not in steps or part.stop + step - 1 > places:
        return part
    return replace(part, move=replace(part.move, spaced=step))


def _with_gaps(part: MovePart, places: int) -> MovePart:
    """Return a part that brings the padding behind its factors, where that joins runs.

    So it is with the columns of a tile that stands over the edge: 112 of 128, row after row.
    """
    move, steps = part.move, part.move.before.steps
    gaps = [0] * len(move.sizes)
    for major, minor in pairwise(move.before.order):
        reach, rest = divmod(steps[major], steps[minor])
        if not rest and reach > move.sizes[minor]:
            gaps[minor] = reach - move.sizes[minor]
    behind = sum(gap * step for gap, step in zip(gaps, steps, strict=True)) + move.spaced - 1
    if not any(gaps) or part.stop + behind > places:
        return part
    return replace(part, move=replace(move, gaps=tuple(gaps)))


def _readable(part: MovePart, longer: MovePart, places: int) -> Iterator[MovePart]:
    """Yield the longer form of a part as far as it lies within the places of the source."""
    if longer.stop <= places:
        yield longer
        return
    head, tail = longer.first_indices(), part.last_index()
    alike = (head.move.sizes[0] + 1, longer.move.before.steps[0]) == (
        part.move.sizes[0],
        part.move.before.steps[0],
    )
    if head.move.sizes[0] and alike and head.stop <= places:
        yield from (head, tail)
    else:
        yield part


def _over_padding(
    result: Shape, group: _Group, stretches: list[DigitStretch]
) -> list[DigitStretch]:
    """Return stretches whose last one has whole lines of rows side by side, padding among them.

    The second tile says how many rows that are, T(8,128)(4,1) four.
    """
    *others, last = stretches
    tiles, major = result.layout.tiles, last.digits[0]
    side = tiles[1].dims[0] if len(tiles) > 1 and result.layout.padded_dimensions is None else 1
    more = -major.size % side
    if major.result != 1 or not more:
        return stretches
    axes, worth = group[1], math.prod(digit.size for digit in last.digits[1:])
    minor = math.prod(result.dims[axis] for axis in axes[1:])
    if not axes or (more * worth) % minor:
        return stretches
    dims = list(result.dims)
    dims[axes[0]] += more * worth // minor
    whole = Shape(result.element_type, dims, result.layout)
    if whole.padded_elements() != result.padded_elements():
        return stretches
    longer = Digit(major.size + more, major.source, 1)
    places = places_along(whole, axes)[-longer.size * worth :].reshape(longer.size, worth)
    if (places != places[:1] + np.arange(longer.size)[:, None]).any():
        return stretches
    return [*others, DigitStretch((longer, *last.digits[1:]), last.source, last.result)]


_Group = tuple[tuple[int, ...], tuple[int, ...]]
"""Dimensions of the source, and dimensions of the result with the same elements."""


def dimension_groups(
    before: Sequence[int], after: Sequence[int], permutation: Sequence[int] | None
) -> list[_Group]:
    """Return the fewest dimensions of either shape that go together."""
    if permutation is not None:
        return [((axis,), (place,)) for place, axis in enumerate(permutation)]
    found: list[_Group] = []
    a = b = 0
    while a < len(before) and b < len(after):
        first, second = a, b
        here, there = before[a], after[b]
        a, b = a + 1, b + 1
        while here != there:
            if here < there:
                here, a = here * before[a], a + 1
            else:
                there, b = there * after[b], b + 1
        found.append((tuple(range(first, a)), tuple(range(second, b))))
    return found  # what is left has dimensions of one


def _stretches(
    source: LinearPlaces, result: LinearPlaces, group: _Group
) -> list[DigitStretch] | None:
    """Return the indices of a group in stretches; None if there are too many."""
    here, there = places_along(source, group[0]), places_along(result, group[1])
    found: list[DigitStretch] = []
    first = 0
    while first < len(here):
        digits = _digits(here[first:], there[first:])
        found.append(DigitStretch(digits, int(here[first]), int(there[first])))
        first += math.prod(digit.size for digit in digits)
        if len(found) > MOST_PARTS:
            return None
    return found


def places_along(shape: LinearPlaces, axes: Sequence[int]) -> Integers:
    """Return the places along some dimensions, as elements from the first one."""
    sizes = tuple(shape.dims[axis] for axis in axes)
    index = [np.asarray(0)] * shape.rank
    numbers = np.unravel_index(np.arange(math.prod(sizes)), sizes)
    for axis, number in zip(axes, numbers, strict=True):
        index[axis] = number
    return np.broadcast_to(shape.linear_index(index), (math.prod(sizes),))


def _digits(here: Integers, there: Integers) -> tuple[Digit, ...]:
    """Return the digits of the longest stretch, from the first index on, that has some."""
    count = len(here)
    while True:
        before, after = (first_segment(places[:count]) for places in (here, there))
        if before.count == after.count:
            break
        count = min(before.count, after.count)
    found = _common(before.pairs, after.pairs)
    if found is None:
        (one, many), (other, more) = before.pairs[-1], after.pairs[-1]
        found = (Digit(min(many, more), one, other),)
    return found


def _common(before: Pattern, after: Pattern) -> tuple[Digit, ...] | None:
    """Return digits that both patterns are made of; None if one cuts digits of the other."""
    found: list[Digit] = []
    ones, others = list(before), list(after)
    while ones and others:
        (one, many), (other, more) = ones.pop(), others.pop()
        size = min(many, more)
        if max(many, more) % size:
            return None
        found.insert(0, Digit(size, one, other))
        if many > size:
            ones.append((one * size, many // size))
        if more > size:
            others.append((other * size, more // size))
    return tuple(found)


def _part(dtype: str, box: Sequence[DigitStretch]) -> MovePart:
    """Return the move of a box."""
    digits = [digit for stretch in box for digit in stretch.digits if digit.size > 1]
    digits = merged(sorted(digits, key=lambda digit: -digit.source))
    while len(digits) < LEAST_FACTORS:
        ahead = digits[0] if digits else Digit(1, 1, 1)
        digits.insert(0, Digit(1, ahead.size * ahead.source, ahead.size * ahead.result))
    numbers, after = range(len(digits)), tuple(digit.result for digit in digits)
    move = Move(
        dtype,
        tuple(digit.size for digit in digits),
        FactorPlaces(tuple(numbers), tuple(digit.source for digit in digits)),
        FactorPlaces(tuple(sorted(numbers, key=lambda number: -after[number])), after),
    )
    first, other = sum(each.source for each in box), sum(each.result for each in box)
    return MovePart(move, first, other)


def merged(digits: Sequence[Digit]) -> list[Digit]:
    """Return digits without those that continue the one before, in the source and the result."""
    found: list[Digit] = []
    for digit in digits:
        major = found[-1] if found else None
        whole = digit.size * digit.source, digit.size * digit.result
        if major and (major.source, major.result) == whole:
            found[-1] = Digit(major.size * digit.size, digit.source, digit.result)
        else:
            found.append(digit)
    return found
