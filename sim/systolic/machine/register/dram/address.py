"""Where a byte of DRAM lies: channel, bank group, bank and row."""

from __future__ import annotations

from typing import NamedTuple

from systolic.hw.spec import Dram


class BurstPlace(NamedTuple):
    """A burst's place; `bank` counts the banks of the channel, over all groups."""

    channel: int
    group: int
    bank: int
    row: int


class AddressMap:
    """The cutting of an address into fields, and into controllers that follow one another."""

    def __init__(self, dram: Dram) -> None:
        parts = dram.organisation
        assert parts is not None
        self._parts, self._size = parts, dram.size_bytes
        self._banks_of_group = parts.banks // parts.bank_groups
        values = {
            "column": parts.row_bytes // parts.burst_bytes,
            "bank_group": parts.bank_groups,
            "bank": self._banks_of_group,
            "row": dram.size_bytes // (parts.channels * parts.banks * parts.row_bytes),
        }
        self._values = [(name, values[name]) for name in parts.address_order]

    def place(self, address: int) -> BurstPlace:
        """Return where the burst that holds a byte lies; channels count over all controllers."""
        parts = self._parts
        controller, address = divmod(address, self._size)
        block, rest = divmod(address, parts.interleave_bytes)
        stripe, channel = divmod(block, parts.channels)
        fields = self._fields((stripe * parts.interleave_bytes + rest) // parts.burst_bytes)
        row, bank, group = fields["row"], fields["bank"], fields["bank_group"]
        if parts.hash_banks:
            bank ^= row % self._banks_of_group
            group ^= row // self._banks_of_group % parts.bank_groups
        if parts.hash_channels:
            channel ^= self._folded(stripe)
        channel += controller * parts.channels
        return BurstPlace(channel, group, group + parts.bank_groups * bank, row)

    def _fields(self, number: int) -> dict[str, int]:
        fields: dict[str, int] = {}
        for name, values in self._values[:-1]:
            number, fields[name] = divmod(number, values)
        fields[self._values[-1][0]] = number
        return fields

    def _folded(self, stripe: int) -> int:
        """Return all digits of a stripe's number, in base `channels`, XORed."""
        found = 0
        while stripe and self._parts.channels > 1:
            stripe, digit = divmod(stripe, self._parts.channels)
            found ^= digit
        return found
