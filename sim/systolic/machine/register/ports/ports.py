"""Twin of `event.ports.arbiter`: a read and a write port per bank, the client of each, how long.

Not an arbiter: units ask in the order of the chip's priorities, and the first one to ask has it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer
from systolic.spans import Interval
from systolic.trace.records import ALL_PARTITIONS, EXCLUSIVE, NO_BANK

PortTuple = tuple[int, ...]


class Wanted(NamedTuple):
    """A port, and the partitions it is wanted for."""

    port: int
    lanes: Interval


class Refused(NamedTuple):
    """A port that is refused, and the partition of it where each has its own."""

    port: int
    partition: int = ALL_PARTITIONS


class Held(NamedTuple):
    """Partitions first <= p < stop of a port are in use until tick `until`."""

    lanes: Interval
    until: int
    client: str


SUMS = "moving"
"""The client that the array's sums count as."""
NOT_SHARED: tuple[int, str, list[Interval]] = (-1, "", [])
"""No engine shares the port: no tick, no engine, no partitions."""


def wanted(ports: PortTuple, lanes: Interval) -> tuple[Wanted, ...]:
    """Return these ports, wanted for these partitions."""
    return tuple(Wanted(port, lanes) for port in ports)


class Ports:
    """All ports of a chip, numbered; DRAM has none. Times in ticks.

    until: the tick from which the port is free, in all partitions; sums_until: from which the
    array's sums leave it alone; holder, holder_until: the client whose access had it last, and
    until when; used: ticks in which it was in use. Sums are never refused, so they may pass over
    the access of a slower clock.

    Where each partition of the state buffer is a memory of its own, a number stands for the ports
    of one bank in all of them, and `_held` says which are in use.
    """

    def __init__(self, chip: Chip) -> None:
        self._first = {Buffer.STATE: 0, Buffer.RESULT: 2 * chip.state_buffer.banks}
        self._bank_bytes = {
            Buffer.STATE: chip.state_buffer.bank_bytes,
            Buffer.RESULT: chip.result_buffer.bank_bytes,
        }
        self._split_below = self._first[Buffer.RESULT] if chip.state_buffer.is_split else 0
        # Only ports that a program asks for are kept: a buffer may have millions of banks.
        self.until: dict[int, int] = defaultdict(int)
        self.sums_until: dict[int, int] = defaultdict(int)
        self.holder: dict[int, str] = defaultdict(str)
        self.holder_until: dict[int, int] = defaultdict(int)
        self.used: dict[int, int] = defaultdict(int)
        self._chip = chip
        self._users: list[dict[str, int]] = [{} for _ in chip.exclusions]
        self._shares: dict[int, tuple[int, str, list[Interval]]] = {}
        self._held: dict[int, list[Held]] = defaultdict(list)

    def key(self, port: int) -> tuple[str, int, str]:
        """Return buffer, bank and direction of a port."""
        if port < 0:
            return self._chip.exclusions[-1 - port].buffer, NO_BANK + 1 + port, EXCLUSIVE
        buffer = self._buffer_of(port)
        bank, direction = divmod(port - self._first[buffer], 2)
        return str(buffer), bank, ("read", "write")[direction]

    def _buffer_of(self, port: int) -> Buffer:
        return Buffer.RESULT if port >= self._first[Buffer.RESULT] else Buffer.STATE

    def excluded(self, port: int, tick: int, engine: str) -> Refused | None:
        """Return the exclusion that keeps an engine from the buffer of a port now, or None.

        Exclusion n of the chip, from 0, is refused as port -1 - n.
        """
        for number in self._exclusions_of(port, engine):
            users = self._users[number].items()
            if any(user != engine and until > tick for user, until in users):
                return Refused(-1 - number)
        return None

    def use_buffer(self, port: int, until: int, engine: str) -> None:
        """Keep the engines that an engine excludes from the buffer of a port until a tick."""
        for number in self._exclusions_of(port, engine):
            self._users[number][engine] = until

    def _exclusions_of(self, port: int, engine: str) -> list[int]:
        buffer = str(self._buffer_of(port))
        return [
            number
            for number, exclusion in enumerate(self._chip.exclusions)
            if exclusion.buffer == buffer and engine in exclusion.engines
        ]

    def number(self, buffer: Buffer, byte: int, direction: str) -> int:
        """Return the port of the bank that holds `byte` of each partition."""
        bank = byte // self._bank_bytes[buffer]
        return self._first[buffer] + 2 * bank + (direction == "write")

    def of_bytes(self, buffer: Buffer, low: int, high: int, direction: str) -> PortTuple:
        """Return the ports that bytes low <= byte < high of a partition need (DRAM: none)."""
        if buffer is Buffer.DRAM:
            return ()
        first = self.number(buffer, low, direction)
        return tuple(range(first, self.number(buffer, high - 1, direction) + 1, 2))

    def of_groups(self, access: Access, direction: str, group: int) -> list[PortTuple]:
        """Return, for each group of `group` elements, its ports, the lowest bank first."""
        size, bank = access.element_bytes, self._bank_bytes[access.buffer]
        low = access.offsets() * size
        first = self.number(access.buffer, 0, direction)
        near, far = first + 2 * (low // bank), first + 2 * ((low + size - 1) // bank)
        groups = -(-len(low) // group)
        if int(near.min()) == int(far.max()):
            return [(int(near[0]),)] * groups
        pairs = np.stack([near, far], axis=1)
        return [
            tuple(np.unique(pairs[g * group : (g + 1) * group]).tolist()) for g in range(groups)
        ]

    def refused(self, want: Wanted, tick: int, engine: str = "") -> Refused | None:
        """Return what of a port is refused in the cycle that begins at `tick`, or None.

        Instructions of one engine on disjoint partitions share a port. Where partitions have ports
        of their own only those in use are refused, the lowest first.
        """
        port, lanes = want
        if self.until[port] <= tick:
            return None
        if port < self._split_below:
            met = [h.lanes for h in self._held[port] if h.until > tick and lanes.meets(h.lanes)]
            return Refused(port, max(lanes.first, min(met).first)) if met else None
        since, sharer, taken = self._shares.get(port, NOT_SHARED)
        if since != tick or sharer != engine or any(lanes.meets(other) for other in taken):
            return Refused(port)
        return None

    def take(
        self, want: Wanted, tick: int, period: int, client: str, *, is_engine: bool = False
    ) -> None:
        """Hold a port for one cycle of `period` ticks, also beside an access that holds it.

        is_engine: further instructions of this client may take other partitions in this cycle.
        """
        port, lanes = want
        if port < self._split_below:
            live = [held for held in self._held[port] if held.until > tick]
            self._held[port] = [*live, Held(lanes, tick + period, client)]
            self.used[port] += period * (lanes.stop - lanes.first)
            self.until[port] = max(self.until[port], tick + period)
            return
        if is_engine:
            since, sharer, taken = self._shares.get(port, NOT_SHARED)
            shared = taken if since == tick and sharer == client else []
            self._shares[port] = (tick, client, [*shared, lanes])
        self.holder[port], self.holder_until[port] = client, tick + period
        self._hold(port, tick, period)

    def take_for_sums(self, port: int, tick: int, period: int) -> None:
        """Hold the port for sums that are written in this cycle; an access under way goes on."""
        self.sums_until[port] = tick + period
        self._hold(port, tick, period)

    def winner(self, refused: Refused, tick: int) -> str:
        """Return the client that has the port in this cycle: the sums while they pass."""
        port, partition = refused
        if port < 0:
            users = self._users[-1 - port]
            return max(users, key=users.__getitem__)
        if port < self._split_below:
            return next(
                h.client
                for h in self._held[port]
                if h.until > tick and h.lanes.first <= partition < h.lanes.stop
            )
        return SUMS if self.sums_until[port] > tick else self.holder[port]

    def accessor(self, refused: Refused, tick: int) -> str:
        """Return the client whose access has the port in this cycle, whatever sums pass over it."""
        if refused.port < self._split_below:
            return self.winner(refused, tick)
        return self.holder[refused.port]

    def is_held_by_sums_alone(self, port: int, tick: int) -> bool:
        """Return whether sums have the port in this cycle and no access has it."""
        return self.sums_until[port] > tick >= self.holder_until[port]

    def _hold(self, port: int, tick: int, period: int) -> None:
        held, stop = self.until[port], tick + period
        if held <= tick:
            self.used[port] += period
            self.until[port] = stop
        elif held < stop:
            self.used[port] += stop - held
            self.until[port] = stop
