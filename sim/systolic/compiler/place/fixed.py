"""Place what has a fixed place: the sums in the result buffer, a tensor of blocks on the chip.

A tensor of blocks lies in the state buffer as its tiles T(p,q): the row in the tile is the
partition, and tile number * q + column the address (architecture: blocks are tiles). Not here:
tiles that come and go (`residency`).
"""

from __future__ import annotations

from dataclasses import dataclass

from systolic.errors import CompileError
from systolic.hw.datatypes import PSUM_WORD_BYTES
from systolic.hw.spec import Chip
from systolic.layout import Decomposition


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


def check_room(chip: Chip, blocks: Decomposition, size_bytes: int, identity_rows: int) -> None:
    """Raise CompileError unless blocks, their transposes and an identity fit the state buffer.

    Args:
        chip: the hardware.
        blocks: the tensor's blocks p x q; transposed they are q x p.
        size_bytes: of an element.
        identity_rows: of the identity matrix (0: none is needed).

    """
    p, q = blocks.block
    need = {
        "block": blocks.count * q * size_bytes,
        "result at its second address": blocks.count * p * size_bytes,
    }
    if identity_rows:
        need["identity"] = identity_rows * size_bytes
    have = chip.state_buffer.bytes_per_partition
    room = have
    for what, size in need.items():
        if size > room:
            everything = " + ".join(f"{name} {bytes_}" for name, bytes_ in need.items())
            raise CompileError(
                f"state_buffer of {chip.name} has no room for the {what}: {blocks.tiled} in "
                f"{blocks.count} blocks of {p} x {q} needs {everything} = {sum(need.values())} "
                f"bytes per partition, found {have}"
            )
        room -= size


def check_result_bank(chip: Chip, rows: int) -> None:
    """Raise CompileError if a bank of the result buffer does not hold so many rows of a block."""
    buffer = chip.result_buffer
    if rows > buffer.bank_words:
        raise CompileError(
            f"result_buffer of {chip.name} is too small for one block: {rows} rows of "
            f"{PSUM_WORD_BYTES} bytes are needed in a bank, found bank_bytes = {buffer.bank_bytes}"
        )
