"""Why a run takes its cycles: the way of the last arrival, back to cycle 0, step by step.

Every tick of the run belongs to one step. A packet waits for its bytes, for the wire, or for a
slot. While it stands behind another one in a FIFO, the step is what that one does: it is sent, or
waits in its turn. A message that a gate held up leads to the arrival that opened the gate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from systolic.network.network import Network
from systolic.network.outcome import HopTimes, NetworkOutcome
from systolic.network.traffic import NO_GATE, Traffic

SENDING, FLIGHT, NODE = "sending", "flight", "node and bytes"
AHEAD, WIRE, SLOT = "sending packets ahead", "wire busy with others", "no slot at the far end"
ALPHA, ENTRY = "from an arrival to the next send", "before the message enters"


class WayStep(NamedTuple):
    """Ticks `first` to before `stop` of the way, for one reason; link: -1 between messages."""

    first: int
    stop: int
    reason: str
    link: int
    message: int
    packet: int


def last_way(network: Network, traffic: Traffic, outcome: NetworkOutcome) -> list[WayStep]:
    """Return the way of the last arrival, from cycle 0 to the end; hops must have been recorded."""
    return list(reversed(list(_Way(network, traffic, outcome).steps())))


class _Way:
    def __init__(self, network: Network, traffic: Traffic, outcome: NetworkOutcome) -> None:
        self.network, self.traffic, self.outcome = network, traffic, outcome
        self.hops: dict[tuple[int, int], list[HopTimes]] = defaultdict(list)
        self.grants: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.ahead: dict[tuple[int, int, int], HopTimes] = {}
        last: dict[tuple[int, int, int], HopTimes] = {}
        for hop in sorted(outcome.hops, key=lambda each: each.granted):
            self.hops[hop.message, hop.packet].append(hop)
            self.grants[hop.link].append((hop.granted, hop.granted + self._wire(hop)))
            place = self._input(hop)
            if place in last:
                self.ahead[hop.message, hop.packet, hop.hop] = last[place]
            last[place] = hop
        self.openers: dict[int, list[int]] = defaultdict(list)
        for message, gate in enumerate(traffic.opens):
            self.openers[gate].append(message)

    def steps(self) -> Iterator[WayStep]:
        """Yield the steps from the end of the run back to its start."""
        outcome = self.outcome
        if not outcome.arrivals:
            return
        message = max(range(len(outcome.arrivals)), key=lambda m: outcome.arrivals[m][-1])
        end = outcome.arrivals[message][-1]
        if outcome.ticks > end:
            yield WayStep(end, outcome.ticks, ALPHA, -1, message, -1)
        while True:
            yield from self._packet(message)
            entry, gate = outcome.entries[message], self._gate(message)
            if gate == NO_GATE:
                break
            before = max(self.openers[gate], key=lambda m: outcome.arrivals[m][-1])
            arrival = outcome.arrivals[before][-1]
            if arrival + self.traffic.delays[gate] < entry:  # its own entry was later
                break
            if entry > arrival:
                yield WayStep(arrival, entry, ALPHA, -1, message, -1)
            message = before
        if entry > 0:
            yield WayStep(0, entry, ENTRY, -1, message, -1)

    def _gate(self, message: int) -> int:
        return self.traffic.waits[message] if self.traffic.waits else NO_GATE

    def _input(self, hop: HopTimes) -> tuple[int, int, int]:
        """Return the FIFO that a packet leaves: of a buffer, or of a link's queue."""
        if hop.hop == 0:
            return 0, hop.link, 0
        before = self.hops[hop.message, hop.packet][hop.hop - 1]
        return 1, before.link, before.channel

    def _wire(self, hop: HopTimes) -> int:
        link, size = self.network.links[hop.link], self._size(hop)
        return link.flits(size) * link.period

    def _size(self, hop: HopTimes) -> int:
        whole, count, last = self.network.cut(self.traffic.sizes_bytes[hop.message])
        return last if hop.packet == count - 1 else whole

    def _packet(self, message: int) -> Iterator[WayStep]:
        """Yield the way of a message's last packet, back to the entry of the message."""
        packet = len(self.outcome.arrivals[message]) - 1
        stop = self.outcome.arrivals[message][packet]
        for hop in reversed(self.hops[message, packet]):
            link = self.network.links[hop.link]
            flight = hop.granted + link.latency_cycles * link.period
            if flight < stop:
                yield WayStep(flight, stop, SENDING, hop.link, message, packet)
            yield WayStep(hop.granted, min(flight, stop), FLIGHT, hop.link, message, packet)
            yield from self._waits(hop)
            stop = hop.entered

    def _waits(self, hop: HopTimes) -> Iterator[WayStep]:
        """Yield what a packet waited for before a link, the last wait first."""
        asks = max(hop.first, hop.ready)
        yield from self._refusals(hop, (asks, hop.granted))
        before = min(asks, hop.ready)
        yield from self._behind(hop, (before, asks))
        if before > hop.entered:
            yield WayStep(hop.entered, before, NODE, hop.link, hop.message, hop.packet)

    def _behind(self, hop: HopTimes, during: tuple[int, int]) -> Iterator[WayStep]:
        """Yield, from the end back, what the packets ahead in the FIFO did."""
        first, stop = during
        while stop > first:
            hop = self.ahead[hop.message, hop.packet, hop.hop]
            begin = max(first, hop.granted)
            if begin < stop:
                yield WayStep(begin, stop, AHEAD, hop.link, hop.message, hop.packet)
            asks = max(hop.first, hop.ready)
            yield from self._refusals(hop, (max(first, asks), begin))
            stop, begin = max(first, min(asks, begin)), max(first, hop.first)
            if begin < stop:
                yield WayStep(begin, stop, NODE, hop.link, hop.message, hop.packet)
                stop = begin

    def _refusals(self, hop: HopTimes, during: tuple[int, int]) -> Iterator[WayStep]:
        """Yield, from the end back, when the wire was busy and when there was no slot."""
        asks, stop = during
        grants = self.grants[hop.link]
        place = bisect_left(grants, (hop.granted, 0)) - 1
        while stop > asks:
            first, free = grants[place] if place >= 0 else (0, 0)
            if free < stop:
                begin = max(free, asks)
                yield WayStep(begin, stop, SLOT, hop.link, hop.message, hop.packet)
                stop = begin
            if stop > asks:
                begin = max(first, asks)
                yield WayStep(begin, stop, WIRE, hop.link, hop.message, hop.packet)
                stop, place = begin, place - 1
