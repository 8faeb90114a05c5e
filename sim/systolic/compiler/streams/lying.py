"""How the columns of a tile lie in each partition, and the accesses that name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from systolic.compiler.streams.tiling import pairs_of
from systolic.hw.datatypes import SIZE_BYTES
from systolic.isa import Access, Buffer
from systolic.isa.access import MAX_PAIRS

ColumnOrder = list[tuple[int, int]]
"""(number, count) of the modes of columns, in the order in which an engine takes the elements."""


class Lying(NamedTuple):
    """From which byte on the columns lie in each partition, and the step of each mode."""

    dtype: str
    first: int
    lanes: int
    steps: tuple[int, ...]
    elements: int

    def one(self) -> Access:
        """Return the access to the one element of each partition."""
        return pattern_access(self, ((1, 1),))

    def moved(self, elements: int) -> Lying:
        """Return the columns from `elements` elements further on."""
        return self._replace(first=self.first + elements * SIZE_BYTES[self.dtype])


def pattern_access(lying: Lying, pairs: Sequence[tuple[int, int]]) -> Access:
    """Return the access to columns by (step, count) pairs, as few of them as can be."""
    return Access(Buffer.STATE, lying.dtype, 0, lying.lanes, lying.first, pairs_of(pairs))


def named_by_four(lying: Sequence[Lying], order: ColumnOrder) -> Iterator[list[Access]]:
    """Yield accesses to the same elements of several operands, as many as four pairs can name."""
    found = [pattern_access(each, [(each.steps[n], count) for n, count in order]) for each in lying]
    if max(len(access.pattern) for access in found) <= MAX_PAIRS:
        yield found
        return
    (number, count), *inner = order
    for n in range(count):
        yield from named_by_four([each.moved(n * each.steps[number]) for each in lying], inner)


def shared(lying: Sequence[Lying], order: ColumnOrder, shares: int) -> Iterator[list[Access]]:
    """Yield accesses to the same elements of several operands, in equal shares for engines."""
    if shares == 1 or not order or order[0][1] < shares:
        yield from named_by_four(lying, order)
        return
    (number, count), *inner = order
    for share in range(shares):
        begin, end = count * share // shares, count * (share + 1) // shares
        moved = [each.moved(begin * each.steps[number]) for each in lying]
        yield from named_by_four(moved, [(number, end - begin), *inner])
