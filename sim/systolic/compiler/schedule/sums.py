"""The banks of the result buffer in which sums grow.

They are used in turn, so that the next sums begin while the last ones are copied out.
"""

from __future__ import annotations

from systolic.compiler.ir.dependencies import Region
from systolic.compiler.place.psum import place_psum
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer

Sum = tuple[int, int, int, int]
"""A product's node, which matrix of its batch, the first stationary column and moving column."""


class SumBanks:
    """Gives banks to sums. words: the most sums of a partition in one bank."""

    def __init__(self, chip: Chip, words: int) -> None:
        """Begin with all banks free."""
        self.words = words
        self._slots = place_psum(chip, words)
        self._regions: dict[int, Region] = {}
        self._next = 0
        self._growing: dict[Sum, int] = {}

    def grow(self, which: Sum, *, first: bool, last: bool) -> int:
        """Return the bank in which sums grow: a free one at first, given back at the last."""
        if first:
            self._growing[which] = self.free()
        return self._growing.pop(which) if last else self._growing[which]

    def free(self) -> int:
        """Return the next bank in which no sums grow."""
        growing, count = self._growing.values(), self._slots.count
        assert len(growing) < count, "a tile is turned while every bank holds sums"
        while (bank := self._next % count) in growing:
            self._next += 1
        self._next += 1
        return bank

    def access(self, dtype: str, columns: int, words: int, bank: int) -> tuple[Access, Region]:
        """Return the place of `words` words of each column in a bank."""
        _, start = self._slots.at(bank)
        assert words <= self._slots.rows
        found = Access(Buffer.RESULT, dtype, 0, columns, start, ((1, words),))
        return found, self._regions.setdefault(bank, Region(f"psum{bank}"))
