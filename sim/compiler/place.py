"""Place tensors, the identity and result slots in the buffers; say what has no room.

A matrix lies in the state buffer as its tiles T(p,q): the row in the tile is the partition, and
tile number * q + column the address (architecture: blocks are tiles). Times do not enter here.
"""

from __future__ import annotations

from dataclasses import dataclass

from sim.errors import CompileError
from sim.hw.datatypes import PSUM_WORD_BYTES
from sim.hw.spec import Chip
from sim.layout import Decomposition


@dataclass(frozen=True, slots=True)
class Slots:
    """Equal places one after another in every partition: `count` of `slot_bytes`, from `start`."""

    start: int
    slot_bytes: int
    count: int

    def at(self, number: int) -> int:
        """Return the first byte of a slot; numbers wrap around."""
        return self.start + number % self.count * self.slot_bytes


@dataclass(frozen=True, slots=True)
class StateMap:
    """Where blocks, transposed blocks and the identity lie in the state buffer."""

    source: Slots
    result: Slots
    identity: int


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


RING = 4
"""Blocks under way at once between DRAM and the array: one arrives, one is used, two wait."""


def place_state(
    chip: Chip, source: Decomposition, size_bytes: int, identity_rows: int, *, streamed: bool
) -> StateMap:
    """Return the map of the state buffer.

    `streamed`: blocks come from DRAM and go back, so only some are there at a time. The identity
    lies at the end, where possible in another bank than the blocks: both are read at once.
    """
    buffer = chip.state_buffer
    p, q = source.block
    block, result = q * size_bytes, p * size_bytes
    identity = -(-identity_rows * size_bytes // 64) * 64 if identity_rows else 0
    if streamed and (own := _in_banks_of_their_own(chip, source, max(block, result), identity)):
        return own
    count = source.count
    if streamed:
        count = min(count, RING)
        while count > 1 and count * (block + result) + identity > buffer.bytes_per_partition:
            count -= 1
    need = {"block": count * block, "result at its second address": count * result}
    if identity_rows:
        need["identity"] = identity
    _refuse_overflow(chip, need, source)
    second = count * block
    aligned = -(-second // buffer.bank_bytes) * buffer.bank_bytes
    if streamed and aligned + count * result + identity <= buffer.bytes_per_partition:
        second = aligned
    return StateMap(
        source=Slots(0, block, count),
        result=Slots(second, result, count),
        identity=buffer.bytes_per_partition - identity,
    )


def _in_banks_of_their_own(
    chip: Chip, source: Decomposition, slot_bytes: int, identity: int
) -> StateMap | None:
    """Return a map in which no two slots share a bank, nor one with the identity; None if no room.

    Then transfers of different blocks, the array and the engines never meet at a port.
    """
    buffer = chip.state_buffer
    each = min((buffer.banks - 1) // 2, RING, source.count)
    if each < min(2, source.count) or max(slot_bytes, identity) > buffer.bank_bytes:
        return None
    return StateMap(
        source=Slots(0, buffer.bank_bytes, each),
        result=Slots(each * buffer.bank_bytes, buffer.bank_bytes, each),
        identity=buffer.bytes_per_partition - identity,
    )


def _refuse_overflow(chip: Chip, need: dict[str, int], source: Decomposition) -> None:
    have = chip.state_buffer.bytes_per_partition
    room = have
    for what, size in need.items():
        if size > room:
            everything = " + ".join(f"{name} {bytes_}" for name, bytes_ in need.items())
            raise CompileError(
                f"state_buffer of {chip.name} has no room for the {what}: {source.tiled} in "
                f"{source.count} blocks of {source.block[0]} x {source.block[1]} needs "
                f"{everything} = {sum(need.values())} bytes per partition, found {have}"
            )
        room -= size


def place_psum(chip: Chip, rows: int, results: int) -> PsumMap:
    """Return slots of `rows` words for up to `results` results, over as many banks as possible."""
    buffer = chip.result_buffer
    per_bank = buffer.bank_words // rows
    if per_bank == 0:
        raise CompileError(
            f"result_buffer of {chip.name} is too small for one block: {rows} rows of "
            f"{PSUM_WORD_BYTES} bytes are needed in a bank, found bank_bytes = {buffer.bank_bytes}"
        )
    count = min(per_bank * buffer.banks, results)
    return PsumMap(rows, min(buffer.banks, count), buffer.bank_bytes, count)
