"""Copies from one place in DRAM to another of elements that lie at steps in both.

Both places have the dimensions of one box of elements. A copy goes through them in some
order, for which an access has a few pairs, and is cut into shares: one for each DMA queue. Not
here: which queues there are, and what a copy takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from systolic.compiler.ir.dram_tensor import coalesced
from systolic.compiler.ir.strided import ShapeInDram
from systolic.isa.access import MAX_PAIRS, Pattern


class BoxDigit(NamedTuple):
    """A dimension of a box: indices, and elements from one to the next in either place."""

    size: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class DramBox:
    """Elements of two places, major to minor. source, target: where the first of them lies."""

    digits: tuple[BoxDigit, ...]
    source: int = 0
    target: int = 0

    @classmethod
    def of(cls, source: ShapeInDram, target: ShapeInDram, order: Sequence[int]) -> DramBox:
        """Return all elements of two places of the same dimensions, in this order of them."""
        sides = _steps(source), _steps(target)
        found: list[BoxDigit] = []
        for n in order:
            digit = BoxDigit(source.dims[n], *(steps[n] for steps in sides))
            whole = digit.size * digit.source, digit.size * digit.target
            if found and (found[-1].source, found[-1].target) == whole:
                found[-1] = digit._replace(size=found[-1].size * digit.size)
            elif digit.size > 1:
                found.append(digit)
        return cls(tuple(found))

    @property
    def elements(self) -> int:
        """Return how many elements there are."""
        return math.prod(digit.size for digit in self.digits)

    @property
    def run(self) -> int:
        """Return how many elements lie side by side in both places."""
        last = self.digits[-1] if self.digits else BoxDigit(1, 1, 1)
        return last.size if (last.source, last.target) == (1, 1) else 1

    @property
    def patterns(self) -> tuple[Pattern, Pattern]:
        """Return how the elements lie in the source and in the target."""
        source, target = (
            coalesced(tuple((digit[side], digit.size) for digit in self.digits)) for side in (1, 2)
        )
        return source, target

    def shares(self, most: int) -> list[DramBox]:
        """Return at most `most` boxes of about as many elements; together they are this one.

        The dimension is cut that gives the most even shares, of equal ones the most major.
        """
        if not self.digits:
            return [self]
        each = [-(-digit.size // most) / digit.size for digit in self.digits]
        cut = each.index(min(each))
        size, share = self.digits[cut].size, -(-self.digits[cut].size // most)
        return [self._part(cut, n, min(share, size - n)) for n in range(0, size, share)]

    def accessible(self) -> Iterator[DramBox]:
        """Yield boxes that an access names on either side: the smallest dimensions one by one."""
        if max(map(len, self.patterns)) <= MAX_PAIRS:
            yield self
            return
        sizes = [digit.size for digit in self.digits]
        least = sizes.index(min(sizes))
        for n in range(sizes[least]):
            yield from self._part(least, n, 1).accessible()

    def _part(self, place: int, first: int, count: int) -> DramBox:
        """Return the elements that have `count` indices of one dimension, from `first` on."""
        digits, digit = list(self.digits), self.digits[place]
        digits[place : place + 1] = [digit._replace(size=count)] if count > 1 else []
        source, target = (
            start + first * step
            for start, step in ((self.source, digit.source), (self.target, digit.target))
        )
        return replace(self, digits=tuple(digits), source=source, target=target)


def _steps(shape: ShapeInDram) -> list[int]:
    """Return how many elements of memory there are from one index to the next, by dimension."""
    found: list[int] = []
    for dim, size in enumerate(shape.dims):
        index = [0] * shape.rank
        index[dim] = int(size > 1)
        found.append(int(shape.linear_index(index)))
    return found
