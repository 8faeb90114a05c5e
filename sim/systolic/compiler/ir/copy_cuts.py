"""A copy of many elements cut into parts of its source's bytes, its target's, or both; and joined.

The elements of a copy are counted by digits. One of them has the longest way to go in the source,
and one in the target. Some values of the former are a stretch of the source's bytes, some of the
latter a stretch of the target's. Not here: which engine copies a part, and how long it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from systolic.isa import Access, Copy
from systolic.isa.access import MAX_PAIRS, coalesced
from systolic.spans import Span


class CopyDigit(NamedTuple):
    """A digit of the number of an element: its values, and the elements from one to the next."""

    size: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class CopyDigits:
    """A copy and the digits of its elements, major to minor, of two values or more."""

    copy: Copy
    digits: tuple[CopyDigit, ...]

    @property
    def longest(self) -> tuple[int, int]:
        """Return which digit has the longest step in the source, and which in the target."""
        numbers = range(len(self.digits))
        return (
            max(numbers, key=lambda n: self.digits[n].source),
            max(numbers, key=lambda n: self.digits[n].target),
        )

    def part(self, some: Sequence[tuple[int, Span]]) -> Copy | None:
        """Return the copy of the elements that have only some values of a few digits.

        some: the number of a digit, and its values. None if an access has too few pairs for them.
        """
        digits, starts = list(self.digits), [self.copy.source.start, self.copy.target.start]
        for number, values in some:
            digit = digits[number]
            starts[0] += values.first * digit.source * self.copy.source.element_bytes
            starts[1] += values.first * digit.target * self.copy.target.element_bytes
            digits[number] = digit._replace(size=values.count)
        source = coalesced(tuple((digit.source, digit.size) for digit in digits))
        target = coalesced(tuple((digit.target, digit.size) for digit in digits))
        if max(len(source), len(target)) > MAX_PAIRS:
            return None
        return replace(
            self.copy,
            source=replace(self.copy.source, start=starts[0], pattern=source),
            target=replace(self.copy.target, start=starts[1], pattern=target),
        )


def copy_digits(copy: Copy) -> CopyDigits | None:
    """Return a copy with its digits; None if the pairs of one side cut the pairs of the other.

    Nor has a copy digits that reads an element twice, goes backwards, or has one element.
    """
    here, there = (_inwards(access) for access in (copy.source, copy.target))
    found: list[CopyDigit] = []
    while here and there:
        (step, count), (other_step, other) = here.pop(), there.pop()
        if min(step, other_step) < 1 or max(count, other) % min(count, other):
            return None
        size = min(count, other)
        found.append(CopyDigit(size, step, other_step))
        for left, rest, far in ((here, count // size, step), (there, other // size, other_step)):
            if rest > 1:
                left.append((far * size, rest))
    return CopyDigits(copy, tuple(reversed(found))) if found else None


def _inwards(access: Access) -> list[tuple[int, int]]:
    return [(step, count) for step, count in access.pattern if count > 1]


def joined(copies: Sequence[Copy]) -> list[Copy]:
    """Return copies with those that follow one another at equal distances as one, in their order.

    A series of series is one copy as well, as long as an access has pairs enough.
    """
    found = list(copies)
    while True:
        fewer = [copy for series in _series(found) for copy in _as_one(series)]
        if len(fewer) == len(found):
            return fewer
        found = fewer


def _series(copies: Sequence[Copy]) -> list[list[Copy]]:
    """Return lists of neighbours that are alike but for their starts, at equal distances."""
    found: list[list[Copy]] = []
    distance: tuple[int, int] | None = None
    for copy in copies:
        last = found[-1][-1] if found else None
        gap = None if last is None else _distance(last, copy)
        if gap is not None and (len(found[-1]) == 1 or gap == distance):
            found[-1].append(copy)
            distance = gap
        else:
            found.append([copy])
    return found


def _distance(one: Copy, other: Copy) -> tuple[int, int] | None:
    """Return the bytes from a copy's source and target to a like copy's."""
    source = replace(one.source, start=other.source.start)
    target = replace(one.target, start=other.target.start)
    if replace(one, source=source, target=target) != other:
        return None
    gaps = []
    for here, there in ((one.source, other.source), (one.target, other.target)):
        gap = there.start - here.start
        if gap <= 0 or gap % here.element_bytes:
            return None
        gaps.append(gap)
    return gaps[0], gaps[1]


def _as_one(series: Sequence[Copy]) -> Sequence[Copy]:
    if len(series) == 1:
        return series
    first, second = series[:2]
    ends = []
    for here, there in ((first.source, second.source), (first.target, second.target)):
        step = (there.start - here.start) // here.element_bytes
        pattern = coalesced(((step, len(series)), *here.pattern))
        if len(pattern) > MAX_PAIRS:
            return series
        ends.append(replace(here, pattern=pattern))
    return [replace(first, source=ends[0], target=ends[1])]
