"""The ends of a copy: what it reads and writes, and the core that has the ports."""

from __future__ import annotations

from typing import NamedTuple

from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy

READ, WRITE, READ_AND_WRITE = ("read",), ("write",), ("read", "write")


class CopyEnd(NamedTuple):
    """An end of a copy.

    bank_bytes: of a bank of the buffer (DRAM: any). base: added to the number of a bank, so that
    the ports of cores differ. directions: of the ports that it needs. width: `port_bytes` of the
    buffer, if it is a state buffer whose chip names one. is_split: each partition has its own port.
    is_mapped: its bytes lie behind a DRAM controller.
    """

    access: Access
    bank_bytes: int
    base: int
    directions: tuple[str, ...]
    width: int | None
    is_split: bool
    is_mapped: bool

    @property
    def is_dram(self) -> bool:
        """Return whether it lies in no core, and needs no port."""
        return self.access.buffer is Buffer.DRAM


CopyEnds = tuple[CopyEnd, ...]


def end_of(access: Access, chip: Chip, directions: tuple[str, ...], base: int = 0) -> CopyEnd:
    """Return an end that lies in a core, or in DRAM."""
    in_state = access.buffer is Buffer.STATE
    return CopyEnd(
        access,
        bank_bytes(access, chip),
        base,
        directions,
        chip.state_buffer.port_bytes if in_state else None,
        chip.state_buffer.is_split and in_state,
        access.buffer is Buffer.DRAM,
    )


def ends_of(copy: DmaCopy, chip: Chip) -> CopyEnds:
    """Return source and target of a copy within one core."""
    return end_of(copy.source, chip, READ), end_of(copy.target, chip, WRITE)


def bank_bytes(access: Access, chip: Chip) -> int:
    """Return the bytes of a bank of the buffer on the chip that an access names (DRAM: any)."""
    in_results = access.buffer is Buffer.RESULT
    return chip.result_buffer.bank_bytes if in_results else chip.state_buffer.bank_bytes
