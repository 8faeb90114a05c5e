"""The indices along dimensions as digits: at one distance before a move, and at one after it.

A tile that stands over the edge of a tensor leaves gaps in memory. Behind each index along a
dimension lie as many elements as before, but not at one distance throughout: rows 0 to 71 of 77 are
nine tiles of eight, and the other five a part of one. So dimensions are cut where the distances
change, before and after the move. In a stretch between such cuts places are digits again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.dram_tensor import first_segment
from systolic.isa.access import Pattern

MOST_PARTS = 16
"""The most parts of a move. Dimensions that tiles cut unevenly on both sides give more of them."""


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
