"""The buffers of the cores as DRAM's channels know them: their banks, numbered through.

First come the banks of the state buffers, core by core, then banks of the result buffers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from systolic.hw.spec import Chip
from systolic.isa import Buffer
from systolic.machine.event.chip.ports import base_of
from systolic.trace.records import ALL_PARTITIONS


class Near(NamedTuple):
    """The rows WIDTH to OVERLAPS of `tables` for a copy: its bursts, its ports, its descriptors."""

    width: int
    cycles: int
    at_once: int
    has_ports: int
    first_bank: int
    bank_bytes: int
    port_bytes: int
    lanes: int
    fetch_cycles: int
    overlaps: int


class BankPlace(NamedTuple):
    """A bank as the arbiter numbers it, and the partition of its port, or ALL_PARTITIONS."""

    buffer: Buffer
    bank: int
    partition: int


class NearBanks:
    """How the banks of some cores are numbered.

    port_lanes: ports that a bank of a state buffer has in a direction, at most.
    least_result_bytes: of a bank of a result buffer.
    """

    def __init__(self, cores: Sequence[Chip]) -> None:
        self._cores = tuple(cores)
        self._states = [0, *accumulate(each.state_buffer.banks for each in cores)]
        self._results = [0, *accumulate(each.result_buffer.banks for each in cores)]
        self.state_banks, self.result_banks = self._states[-1], self._results[-1]
        self.port_lanes = max(self.lanes_of(core) for core in range(len(cores)))
        self.least_result_bytes = min(each.result_buffer.bank_bytes for each in cores)

    def lanes_of(self, core: int) -> int:
        """Return how many ports a bank of a core's state buffer has in a direction."""
        state = self._cores[core].state_buffer
        return state.partitions if state.is_split else 1

    def first(self, buffer: Buffer, core: int) -> int:
        """Return the number of bank 0 of a buffer."""
        if buffer is Buffer.RESULT:
            return self.state_banks + self._results[core]
        return self._states[core]

    def state_bank(self, number: int) -> int:
        """Return a bank of a state buffer as the arbiter numbers it."""
        return _placed(self._states, number)

    def result_bank(self, number: int) -> int:
        """Return a bank of a result buffer, counted from the first of these, likewise."""
        return _placed(self._results, number)

    def place_of(self, port: int) -> BankPlace:
        """Return the bank and the partition of a port by its number (`steps.port_of`)."""
        behind = port - self.state_banks * self.port_lanes
        if behind >= 0:
            return BankPlace(Buffer.RESULT, self.result_bank(behind), ALL_PARTITIONS)
        bank, partition = divmod(port, self.port_lanes)
        is_split = self._cores[bisect_right(self._states, bank) - 1].state_buffer.is_split
        place = partition if is_split else ALL_PARTITIONS
        return BankPlace(Buffer.STATE, self.state_bank(bank), place)


def _placed(firsts: list[int], number: int) -> int:
    core = bisect_right(firsts, number) - 1
    return base_of(core) + number - firsts[core]
