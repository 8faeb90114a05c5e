"""The banks of the result buffer in which sums grow.

They are used in turn, so that the next sums begin while the last ones are copied out.
"""

from __future__ import annotations

from systolic.compiler.ir.dependencies import Region
from systolic.compiler.place.psum import place_psum
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer


class SumBanks:
    """Gives banks to sums. growing: the banks of the sums of the product at hand."""

    def __init__(self, chip: Chip, words: int) -> None:
        """Begin with all banks free. words: the most sums of a partition in one bank."""
        self._slots = place_psum(chip, words)
        self._regions: dict[int, Region] = {}
        self._next = 0
        self.growing: list[int] = []

    def begin(self, count: int) -> None:
        """Give banks to so many groups of sums that grow side by side."""
        self.growing = [self.free() for _ in range(count)]

    def end(self) -> None:
        """Note that the sums which grew side by side are complete."""
        self.growing = []

    def free(self) -> int:
        """Return the next bank in which no sums grow."""
        assert len(self.growing) < self._slots.count, "a tile is turned while every bank holds sums"
        while (bank := self._next % self._slots.count) in self.growing:
            self._next += 1
        self._next += 1
        return bank

    def access(self, dtype: str, columns: int, words: int, bank: int) -> tuple[Access, Region]:
        """Return the place of so many words of each column in a bank."""
        _, start = self._slots.at(bank)
        assert words <= self._slots.rows
        found = Access(Buffer.RESULT, dtype, 0, columns, start, ((1, words),))
        return found, self._regions.setdefault(bank, Region(f"psum{bank}"))
