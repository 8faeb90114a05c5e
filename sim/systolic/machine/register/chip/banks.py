"""The controllers of a chip whose DRAM has banks: their channels, and where in them a byte lies."""

from __future__ import annotations

from systolic.hw.spec import MultiCoreChip
from systolic.hw.spec.places import ChipPlace
from systolic.machine.register.dram.channels import DramChannels


class BankedControllers:
    """All of them are alike; the addresses of each follow the addresses of the one before."""

    def __init__(self, chip: MultiCoreChip) -> None:
        self._chip = chip
        drams = chip.controller_drams
        self._numbers = [n for n, dram in enumerate(drams) if dram.organisation is not None]
        self.dram = drams[self._numbers[0]]
        self.channels = DramChannels(self.dram, [*chip.queue_numbers], len(self._numbers))

    @classmethod
    def of(cls, chip: MultiCoreChip) -> BankedControllers | None:
        """Return the controllers of a chip with such DRAM, if it has some."""
        has_some = any(dram.organisation is not None for dram in chip.controller_drams)
        return cls(chip) if has_some else None

    def has(self, place: ChipPlace) -> bool:
        """Return whether a place is such a controller."""
        return place.kind == "controller" and place.number in self._numbers

    def address(self, byte: int) -> int:
        """Return where a byte of the chip's DRAM lies in the DRAM of all such controllers."""
        piece = self._chip.piece(byte)
        inside = piece.local + byte - piece.first
        return self._numbers.index(piece.controller) * self.dram.size_bytes + inside
