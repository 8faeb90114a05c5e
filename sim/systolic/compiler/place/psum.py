"""Slots of the result buffer, in which sums grow. Not here: tiles (`residency`)."""

from __future__ import annotations

from dataclasses import dataclass

from systolic.hw.datatypes import PSUM_WORD_BYTES
from systolic.hw.spec import Chip


@dataclass(frozen=True, slots=True)
class PsumMap:
    """Result-buffer slots of `rows` words: slot s is in bank s % banks."""

    rows: int
    banks: int
    bank_bytes: int
    count: int

    def at(self, number: int) -> tuple[int, int]:
        """Return the slot used by the number-th result, and its first byte."""
        slot = number % self.count
        place, bank = divmod(slot, self.banks)
        return slot, bank * self.bank_bytes + place * self.rows * PSUM_WORD_BYTES


def place_psum(chip: Chip, rows: int) -> PsumMap:
    """Return slots of `rows` words, as many as fit, the next always in another bank."""
    buffer = chip.result_buffer
    per_bank = buffer.bank_words // rows
    return PsumMap(rows, buffer.banks, buffer.bank_bytes, per_bank * buffer.banks)
