"""Where buffers lie in the state buffer: a bank of its own for each, as far as there are any.

A unit that writes one buffer then never meets another that writes, or reads, the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from systolic.hw.spec import Chip

ALIGNED_BYTES = 4
"""Where buffers begin: a multiple of every element's size."""


class BufferSize(NamedTuple):
    """The bytes of a buffer in each of some banks that follow one another, at the same place there.

    middle: the byte that begins the second of two banks (0: any). piece_bytes: users of other
    pieces, of this many bytes, need not be waited for (0: all of it is one piece).
    """

    size_bytes: int
    middle: int = 0
    banks: int = 1
    piece_bytes: int = 0


@dataclass(slots=True)
class Buffers:
    """The bytes of each bank that are taken, from its first on."""

    bank_bytes: int
    taken: list[int]
    room: list[int]

    @classmethod
    def of(cls, chip: Chip, free: int) -> Buffers:
        """Return the empty banks of a chip; the bytes from `free` on are kept."""
        bank = chip.state_buffer.bank_bytes
        firsts = range(0, bank * chip.state_buffer.banks, bank)
        return cls(bank, [0] * len(firsts), [min(bank, max(0, free - n)) for n in firsts])

    def place_all(self, wanted: Sequence[BufferSize]) -> tuple[Buffers, list[int]] | None:
        """Return the banks with some buffers, and their first bytes; None if there is no room."""
        after = Buffers(self.bank_bytes, list(self.taken), self.room)
        found = [after._place(each.size_bytes, each.middle, each.banks) for each in wanted]
        firsts = [first for first in found if first is not None]
        return (after, firsts) if len(firsts) == len(wanted) else None

    def _place(self, size_bytes: int, middle: int, banks: int) -> int | None:
        if banks > 1:
            return self._place_in(size_bytes, banks)
        if middle and max(middle, size_bytes - middle) <= self.bank_bytes:
            pair = self._empty(2, step=2)
            if pair is not None:
                return pair + self.bank_bytes - middle
        if size_bytes > self.bank_bytes:
            return self._empty(-(-size_bytes // self.bank_bytes))
        bank = min(
            range(len(self.taken)), key=lambda n: self.bank_bytes - self.room[n] + self.taken[n]
        )
        first = self.taken[bank]
        if first + size_bytes > self.room[bank]:
            return None
        self.taken[bank] += -(-size_bytes // ALIGNED_BYTES) * ALIGNED_BYTES
        return bank * self.bank_bytes + first

    def _place_in(self, size_bytes: int, banks: int) -> int | None:
        """Take bytes of several banks: of the banks with the fewest bytes taken."""
        starts = range(len(self.taken) - banks + 1)
        taken = [max(self.taken[n : n + banks]) for n in starts]
        for first in sorted(starts, key=lambda n: taken[n]):
            at = taken[first]
            if at + size_bytes <= min(self.room[first : first + banks]):
                end = at + -(-size_bytes // ALIGNED_BYTES) * ALIGNED_BYTES
                self.taken[first : first + banks] = [end] * banks
                return first * self.bank_bytes + at
        return None

    def _empty(self, banks: int, step: int = 1) -> int | None:
        """Take `banks` empty banks side by side; return the first byte of the first."""
        for first in range(0, len(self.taken) - banks + 1, step):
            end = first + banks
            if not any(self.taken[first:end]) and min(self.room[first:end]) == self.bank_bytes:
                self.taken[first:end] = [self.bank_bytes] * banks
                return first * self.bank_bytes
        return None
