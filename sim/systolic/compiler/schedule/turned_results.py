"""Results of turns that an engine copies out together.

A copy takes an engine a least time, however few words it has. So the results of several small
turns are neighbours in a bank, and one copy takes them out, if they lie at equal distances. It
waits for the last of them, with which the others are done. Not here: how many are copied together
(`cost.turns`).
"""

from __future__ import annotations

from dataclasses import replace

from systolic.compiler.ir.dependencies import Region
from systolic.compiler.ir.joined_copies import joined
from systolic.compiler.schedule.engine_work import EngineWork, HeldAccess
from systolic.compiler.schedule.sums import SumBanks
from systolic.hw.datatypes import PSUM_WORD_BYTES
from systolic.isa import Access, Copy


class TurnedResults:
    """The results in a bank that have not been copied out yet."""

    def __init__(self, engines: EngineWork, sums: SumBanks) -> None:
        """Begin with no results."""
        self._engines, self._sums = engines, sums
        self._copies: list[Copy] = []
        self._read: Region | None = None
        self._written: dict[str, Region] = {}
        self._bank = 0

    def place(self, dtype: str, words: int, target: Access) -> HeldAccess:
        """Return where the next result grows: behind the others, if one copy takes them all.

        target: its place in a tile. All have as many columns then, so that they are complete in
        their order.
        """
        columns = target.partitions
        if self._copies:
            taken = len(self._copies) * self._copies[0].source.elements
            access, region = self._sums.access(dtype, columns, words, self._bank)
            access = replace(access, start=access.start + taken * PSUM_WORD_BYTES)
            last = [*self._copies[-2:], self._engines.copy_of_sums(access, target)]
            if taken + words <= self._sums.words and len(joined(last)) == 1:
                return access, region
            self.finish()
        self._bank = self._sums.free()
        return self._sums.access(dtype, columns, words, self._bank)

    def note(self, held: HeldAccess, target: Access, tile: Region, most: int) -> None:
        """Note a result and its place in a tile; `most` are copied together."""
        sums, self._read = held
        self._copies.append(self._engines.copy_of_sums(sums, target))
        self._written[tile.name] = tile
        if len(self._copies) >= most:
            self.finish()

    def finish(self) -> None:
        """Copy out what is there."""
        if self._read is None:
            return
        for copy in joined(self._copies):
            self._engines.add(copy, (self._read,), self._written.values())
        self._copies, self._read, self._written = [], None, {}
