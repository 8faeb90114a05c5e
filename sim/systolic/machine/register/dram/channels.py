"""Twin of `event.dram.channels`: DRAM cycle by cycle, a controller with banks for each channel.

In every cycle in which a burst is in hand, each channel refreshes if that is due, then gives banks,
activates rows and gives its data bus. The burst that has the bus moves bytes in that cycle, unless
a port of the state buffer is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from systolic.hw.spec import Dram, DramOrganisation
from systolic.machine.register.dram.address import AddressMap, BurstPlace
from systolic.trace.transfers import ChannelCounts, QueueWaits, Transfers

LONG_AGO = -(1 << 60)


@dataclass(slots=True, eq=False)
class Burst:
    """A burst in hand of a queue, from the cycle in which it first asks.

    run: number of the descriptor; low, high: bytes of it; address: where the burst begins; skipped:
    its bytes before `low`; width: bytes that move in a cycle; at_once: how many of its queue may
    move; cycles: how many it takes; cycle: how many of them are over; closes: cycles until the row
    open before it is closed, once it has its bank (-1 once activated or not needed); opens: cycles
    until its row is open.
    """

    queue: int
    run: int
    low: int
    high: int
    skipped: int
    to_dram: bool
    place: BurstPlace
    asked: int
    width: int
    at_once: int
    cycles: int
    closes: int = -1
    opens: int = 0
    cycle: int = 0

    @property
    def is_ready(self) -> bool:
        """Return whether its row is open, given that it has its bank."""
        return self.closes < 0 and not self.opens

    def pass_cycle(self) -> int:
        """Let a cycle on the bus pass; return how many have passed."""
        self.cycle += 1
        return self.cycle


@dataclass(slots=True)
class Bank:
    """The row it holds open, the burst it works for, and when it was last activated."""

    row: int | None = None
    burst: Burst | None = None
    activated: int = LONG_AGO


@dataclass(slots=True)
class BankGroup:
    """When a bank of the group was last activated, and a burst last began to move."""

    activated: int = LONG_AGO
    began: int = LONG_AGO


def _long_ago() -> deque[int]:
    return deque([LONG_AGO] * 4, maxlen=4)


@dataclass(slots=True)
class Channel:
    """A controller: its banks, the burst on its data bus, and what its timings count from.

    activated: the last four activations; began: when the last burst began to move; ended, to_dram:
    its last cycle and direction; due: when the next refresh is due; refreshed: when the last ends.
    """

    banks: list[Bank]
    groups: list[BankGroup]
    due: int
    burst: Burst | None = None
    activated: deque[int] = field(default_factory=_long_ago)
    began: int = LONG_AGO
    ended: int = LONG_AGO
    to_dram: bool = False
    refreshed: int = 0
    counts: ChannelCounts = field(default_factory=ChannelCounts)


def opening_cycles(parts: DramOrganisation, open_row: int | None, row: int) -> int:
    """Return the cycles until a bank holds a row open, where nothing else binds."""
    if open_row is None:
        return parts.activate_cycles
    return 0 if open_row == row else parts.precharge_cycles + parts.activate_cycles


class DramChannels:
    """All channels, and the bursts in hand, in the order in which they were taken.

    queues: by name, in the order of their numbers. controllers: of such DRAM, one behind the other.
    """

    def __init__(self, dram: Dram, queues: Sequence[str], controllers: int = 1) -> None:
        parts = dram.organisation
        assert parts is not None
        self._parts: DramOrganisation = parts
        self._queues = tuple(queues)
        self._map = AddressMap(dram)
        self._channels = [
            Channel(
                [Bank() for _ in range(parts.banks)],
                [BankGroup() for _ in range(parts.bank_groups)],
                parts.refresh_interval_cycles,
            )
            for _ in range(controllers * parts.channels)
        ]
        self._waits = [QueueWaits() for _ in queues]
        self._in_hand: list[Burst] = []
        self._now = -1

    def ask(
        self,
        queue: int,
        run: int,
        base: int,
        low: int,
        size: int,
        *,
        to_dram: bool,
        now: int,
        width: int,
        at_once: int,
    ) -> Burst:
        """Take in hand the burst of byte `low` of a descriptor of `size` bytes at `base`.

        width: the bytes of it that move in a cycle. at_once: how many of the queue may move.
        """
        skipped = (base + low) % self._parts.burst_bytes
        high = min(size, low + self._parts.burst_bytes - skipped)
        place = self._map.place(base + low - skipped)
        cycles = -(-self._parts.burst_bytes // width)
        burst = Burst(queue, run, low, high, skipped, to_dram, place, now, width, at_once, cycles)
        self._in_hand.append(burst)
        return burst

    def arrange(self, cycle: int) -> None:
        """Give the banks and buses of a cycle; the first queue that comes in it says so."""
        if cycle == self._now:
            return
        self._now = cycle
        self._in_hand.sort(key=lambda burst: (burst.asked, burst.queue))  # else as they were taken
        lines: list[list[Burst]] = [[] for _ in self._channels]
        for burst in self._in_hand:
            lines[burst.place.channel].append(burst)
        for channel, line in zip(self._channels, lines, strict=True):
            if not self._is_refreshing(channel, cycle):
                self._give_banks(channel, line)
            self._activate(channel, line)
            self._give_bus(channel, line)
            channel.counts.count(busy=channel.burst is not None)
        self._count_waits()

    def moves(self, burst: Burst) -> bool:
        """Return whether the burst has the bus."""
        return self._channels[burst.place.channel].burst is burst

    def release(self, burst: Burst) -> None:
        """End a burst: bank and bus are free from the next cycle on."""
        channel = self._channels[burst.place.channel]
        channel.burst = channel.banks[burst.place.bank].burst = None
        channel.ended, channel.to_dram = self._now, burst.to_dram
        self._in_hand.remove(burst)

    def account(self, transfers: Transfers) -> None:
        """Hand over the counts of the run."""
        transfers.channels.update({n: c.counts for n, c in enumerate(self._channels)})
        transfers.waits.update(zip(self._queues, self._waits, strict=True))

    def _is_refreshing(self, channel: Channel, cycle: int) -> bool:
        """Return whether no bank may be given, a refresh being due or going on."""
        parts = self._parts
        if not parts.refresh_interval_cycles:
            return False
        # Cycles in which nothing was in hand have not been arranged: what came due in them.
        while cycle >= channel.refreshed and cycle >= channel.due:
            begin = self._refresh_begins(channel, cycle)
            if begin is None:
                return True
            is_open = any(bank.row is not None for bank in channel.banks)
            closing = parts.precharge_cycles if is_open else 0
            channel.refreshed = begin + closing + parts.refresh_cycles
            channel.due += parts.refresh_interval_cycles
            for bank in channel.banks:
                bank.row = None
        return cycle < channel.refreshed

    def _refresh_begins(self, channel: Channel, cycle: int) -> int | None:
        """Return when the refresh that is due began, now or before; None if it cannot yet."""
        begin = max(channel.due, channel.refreshed, channel.ended + 1)
        for bank in channel.banks:
            if bank.burst is not None:
                return None
            if bank.row is not None:
                begin = max(begin, bank.activated + self._parts.row_active_cycles)
        return begin if begin <= cycle else None

    def _is_overdue(self, burst: Burst) -> bool:
        patience = self._parts.patience_cycles
        return bool(patience) and self._now - burst.asked > patience

    def _give_banks(self, channel: Channel, line: list[Burst]) -> None:
        asking: dict[int, list[Burst]] = {}
        for burst in line:
            bank = channel.banks[burst.place.bank]
            if bank.burst is None:
                asking.setdefault(burst.place.bank, []).append(burst)
        for number, bursts in asking.items():
            bank, first = channel.banks[number], bursts[0]
            if self._parts.scheduling == "fr_fcfs" and not self._is_overdue(first):
                first = next((b for b in bursts if b.place.row == bank.row), first)
            self._give_bank(channel, bank, first)

    def _give_bank(self, channel: Channel, bank: Bank, burst: Burst) -> None:
        bank.burst = burst
        if bank.row == burst.place.row:
            channel.counts.count(hits=1)
        elif bank.row is None:
            channel.counts.count(opened=1)
            burst.closes = 0
        else:
            channel.counts.count(conflicts=1)
            young = bank.activated + self._parts.row_active_cycles - self._now
            burst.closes = max(0, young) + self._parts.precharge_cycles
        burst.opens = opening_cycles(self._parts, bank.row, burst.place.row)
        if burst.closes >= 0 and bank.row is not None:
            burst.opens -= self._parts.precharge_cycles
        bank.row = burst.place.row

    def _activate(self, channel: Channel, line: list[Burst]) -> None:
        parts, now = self._parts, self._now
        for burst in line:
            bank, group = channel.banks[burst.place.bank], channel.groups[burst.place.group]
            if bank.burst is not burst or burst.closes:
                continue
            if (
                now - bank.activated >= parts.row_cycle_cycles
                and now - group.activated >= parts.activate_gap_in_group_cycles
                and now - channel.activated[-1] >= parts.activate_gap_cycles
                and now - channel.activated[0] >= parts.four_activates_cycles
            ):
                bank.activated = group.activated = now
                channel.activated.append(now)
                burst.closes = -1

    def _give_bus(self, channel: Channel, line: list[Burst]) -> None:
        if channel.burst is not None:
            return
        asking = [
            burst
            for burst in line
            if channel.banks[burst.place.bank].burst is burst
            and burst.is_ready
            and self._moving(burst.queue) < burst.at_once
        ]
        if asking and (self._parts.scheduling == "fcfs" or self._is_overdue(asking[0])):
            asking = asking[:1]
        for burst in asking:
            if self._may_move(channel, burst):
                channel.burst = burst
                channel.began = channel.groups[burst.place.group].began = self._now
                return

    def _moving(self, queue: int) -> int:
        return sum(c.burst is not None and c.burst.queue == queue for c in self._channels)

    def _may_move(self, channel: Channel, burst: Burst) -> bool:
        parts, now = self._parts, self._now
        idle = 0
        if burst.to_dram != channel.to_dram:
            idle = parts.read_to_write_cycles if burst.to_dram else parts.write_to_read_cycles
        return (
            now - channel.began >= parts.burst_gap_cycles
            and now - channel.groups[burst.place.group].began >= parts.burst_gap_in_group_cycles
            and now - channel.ended > idle
        )

    def _count_waits(self) -> None:
        """Count what every burst waits for in this cycle, and let a cycle of opening pass."""
        for burst in self._in_hand:
            channel, waits = self._channels[burst.place.channel], self._waits[burst.queue]
            if channel.banks[burst.place.bank].burst is not burst:
                waits.count(bank=1)
            elif not burst.is_ready:
                waits.count(row=1)
                if burst.closes > 0:
                    burst.closes -= 1
                elif burst.closes < 0:
                    burst.opens -= 1
            elif channel.burst is not burst:
                waits.count(bus=1)
