"""Twin of `event.dram.channels`: DRAM cycle by cycle, a controller with banks for each channel.

In every cycle in which a burst is in hand, banks are given first, then data buses. The burst
that has the bus moves bytes in that cycle, unless a port of the state buffer is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from systolic.hw.spec import Chip, DramOrganisation
from systolic.hw.units import dma_queue
from systolic.trace.transfers import ChannelCounts, QueueWaits, Transfers


@dataclass(slots=True, eq=False)
class Burst:
    """A burst in hand of a queue, from the cycle in which it first asks.

    low, high: bytes of the descriptor; address: where the burst begins; to_dram: a write;
    cycle: how many of its cycles are over; opens: cycles until its row is open, once it has its
    bank.
    """

    queue: int
    address: int
    low: int
    high: int
    skipped: int
    to_dram: bool
    channel: int
    bank: int
    row: int
    asked: int = -1
    opens: int = 0
    cycle: int = 0


@dataclass(slots=True)
class Bank:
    """The row it holds open, and the burst it works for."""

    row: int | None = None
    burst: Burst | None = None


@dataclass(slots=True)
class Channel:
    """A controller: its banks, and the burst on its data bus."""

    banks: list[Bank]
    burst: Burst | None = None
    counts: ChannelCounts = field(default_factory=ChannelCounts)


def opening_cycles(parts: DramOrganisation, open_row: int | None, row: int) -> int:
    """Return the cycles until a bank holds a row open."""
    if open_row is None:
        return parts.activate_cycles
    return 0 if open_row == row else parts.precharge_cycles + parts.activate_cycles


class Dram:
    """All channels, and the bursts in hand, by queue."""

    def __init__(self, chip: Chip) -> None:
        parts = chip.dram.organisation
        assert parts is not None
        self._parts: DramOrganisation = parts
        self.width, self.burst_cycles = chip.burst_cycles
        self._channels = [
            Channel([Bank() for _ in range(parts.banks)]) for _ in range(parts.channels)
        ]
        self._waits = [QueueWaits() for _ in range(chip.dma.queues)]
        self._in_hand: dict[int, Burst] = {}
        self._now = -1

    def burst(self, queue: int, base: int, low: int, size: int, *, to_dram: bool) -> Burst:
        """Return the burst that holds byte `low` of a descriptor of `size` bytes at `base`."""
        parts = self._parts
        skipped = (base + low) % parts.burst_bytes
        address = base + low - skipped
        high = min(size, low + parts.burst_bytes - skipped)
        block, rest = divmod(address, parts.interleave_bytes)
        block, channel = divmod(block, parts.channels)
        row, bank = divmod((block * parts.interleave_bytes + rest) // parts.row_bytes, parts.banks)
        return Burst(queue, address, low, high, skipped, to_dram, channel, bank, row)

    def ask(self, burst: Burst) -> None:
        """Let a queue ask for its burst, in the next cycle that is arranged."""
        self._in_hand[burst.queue] = burst

    def arrange(self, cycle: int) -> None:
        """Give the banks and buses of a cycle; the first queue that comes in it says so."""
        if cycle == self._now:
            return
        self._now = cycle
        for burst in self._in_hand.values():
            if burst.asked < 0:
                burst.asked = cycle
        line = sorted(self._in_hand.values(), key=lambda b: (b.asked, b.queue))
        for burst in line:
            self._give_bank(burst)
        for burst in line:
            self._give_bus(burst)
        for channel in self._channels:
            channel.counts.busy_cycles += channel.burst is not None

    def moves(self, burst: Burst) -> bool:
        """Return whether the burst has the bus."""
        return self._channels[burst.channel].burst is burst

    def release(self, burst: Burst) -> None:
        """End a burst: bank and bus are free from the next cycle on."""
        channel = self._channels[burst.channel]
        channel.burst = channel.banks[burst.bank].burst = None
        del self._in_hand[burst.queue]

    def account(self, transfers: Transfers) -> None:
        """Hand over the counts of the run."""
        transfers.channels.update({n: c.counts for n, c in enumerate(self._channels)})
        transfers.waits.update({dma_queue(q): waits for q, waits in enumerate(self._waits)})

    def _give_bank(self, burst: Burst) -> None:
        channel = self._channels[burst.channel]
        bank = channel.banks[burst.bank]
        if bank.burst is not None:
            self._waits[burst.queue].bank_cycles += bank.burst is not burst
            return
        bank.burst = burst
        burst.opens = opening_cycles(self._parts, bank.row, burst.row)
        if bank.row == burst.row:
            channel.counts.hits += 1
        elif bank.row is None:
            channel.counts.opened += 1
        else:
            channel.counts.conflicts += 1
        bank.row = burst.row

    def _give_bus(self, burst: Burst) -> None:
        channel = self._channels[burst.channel]
        if channel.banks[burst.bank].burst is not burst or channel.burst is burst:
            return
        if burst.opens:
            burst.opens -= 1
            self._waits[burst.queue].row_cycles += 1
        elif channel.burst is None:
            channel.burst = burst
        else:
            self._waits[burst.queue].bus_cycles += 1
