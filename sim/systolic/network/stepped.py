"""The network stepped: every flit of every link in every tick, straight from the rules.

This is the reference that the event model is held against; it shares no timing with it. A tick has
four steps: what is due becomes visible (flits, credits, messages), every link whose wire is free
decides from that state, all decisions take effect, every link at work sends a flit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from systolic.network.deadlock import ChannelBuffer, refuse_deadlock
from systolic.network.network import Network, NetworkLink, NetworkRoute
from systolic.network.outcome import HopTimes, NetworkOutcome
from systolic.network.spec import NodeName
from systolic.network.traffic import NO_GATE, Traffic

UNKNOWN = -1


@dataclass(eq=False, slots=True)
class _Packet:
    """A packet, on its way to ask for link `hop` of its route.

    usable: the ticks in which flits of the link that it came by became usable, flit by flit.
    ready: see `HopTimes`.
    """

    message: int
    number: int
    size_bytes: int
    route: NetworkRoute
    entered: int
    hop: int = 0
    usable: list[int] = field(default_factory=list)
    ready: int = UNKNOWN

    @property
    def head(self) -> int:
        """Return the tick since which the packet stands before its next link."""
        return self.usable[0] if self.hop else self.entered


@dataclass(eq=False, slots=True)
class _Input:
    """A FIFO that links read: the buffer of a link and channel, or where messages enter (None)."""

    buffer: ChannelBuffer | None
    fifo: list[_Packet] = field(default_factory=list)
    readable_from: int = 0


@dataclass(eq=False, slots=True)
class _Wire:
    """A link at work: the packet that it sends, from which buffer, and its next flit.

    hop: how many links the packet has taken with this one. The packet itself may be further: its
    head goes on while its tail is still sent.
    """

    link: NetworkLink
    number: int
    taken: list[int]
    inputs: list[_Input] = field(default_factory=list)
    packet: _Packet | None = None
    came_by: ChannelBuffer | None = None
    hop: int = 0
    flit: int = 0
    turn: int = 0
    busy_cycles: int = 0
    blocked_cycles: int = 0


def simulate(network: Network, traffic: Traffic, *, hops: bool = False) -> NetworkOutcome:
    """Return what the network does with the traffic; hops: whether each hop is recorded."""
    return _Stepped(network, traffic, hops=hops).run()


class _Stepped:
    def __init__(self, network: Network, traffic: Traffic, *, hops: bool) -> None:
        self.network, self.traffic, self.keeps_hops = network, traffic, hops
        self.wires = [
            _Wire(link, number, [0] * link.channels) for number, link in enumerate(network.links)
        ]
        self.inputs = {
            (number, channel): _Input((number, channel))
            for number, link in enumerate(network.links)
            for channel in range(link.channels)
        }
        for wire in self.wires:
            wire.inputs = [_Input(None)] + [
                self.inputs[number, channel]
                for number, link in enumerate(network.links)
                if link.target == wire.link.source
                for channel in range(link.channels)
            ]
        self.flying: defaultdict[int, list[tuple[_Packet, int, bool]]] = defaultdict(list)
        self.credits: defaultdict[int, list[ChannelBuffer]] = defaultdict(list)
        self.entering: defaultdict[int, list[int]] = defaultdict(list)
        self.counts, self.waiting = traffic.gates()
        self.arrivals: list[list[int]] = [[] for _ in range(len(traffic))]
        self.entries = [UNKNOWN] * len(traffic)
        self.unarrived = [len(network.packets(size)) for size in traffic.sizes_bytes]
        self.left = len(traffic)
        self.here: defaultdict[NodeName, int] = defaultdict(int)
        self.deepest: defaultdict[NodeName, int] = defaultdict(int)
        self.hops: list[HopTimes] = []
        self.changed = 0
        self.packet_hops = self.packets = self.sent = self.received = self.last = 0

    def run(self) -> NetworkOutcome:
        """Step until everything has arrived."""
        for message in self.traffic.first():
            self.entering[self.traffic.entry(message)].append(message)
        tick = 0
        while self.left:
            self._see_what_is_due(tick)
            choices = [(wire, self._choice(wire, tick)) for wire in self.wires]
            for wire, place in choices:
                if place is not None:
                    self._grant(wire, place, tick)
            for wire in self.wires:
                self._send(wire, tick)
            if self._is_still(tick):
                refuse_deadlock(self.network.links, self._waits(), tick, self.left)
            tick += 1
        return NetworkOutcome(
            arrivals=self.arrivals,
            ticks=self.last,
            packets=self.packets,
            packet_hops=self.packet_hops,
            busy_cycles=[wire.busy_cycles for wire in self.wires],
            blocked_cycles=[wire.blocked_cycles for wire in self.wires],
            sent_bytes=self.sent,
            received_bytes=self.received,
            deepest_packets=[self.deepest[node] for node in self.network.nodes],
            entries=self.entries,
            hops=self.hops,
        )

    def _see_what_is_due(self, tick: int) -> None:
        """Make flits usable, free slots, and let messages enter, in this order."""
        full = set[int]()
        if tick in self.flying or tick in self.credits or tick in self.entering:
            self.changed = tick
        for packet, hop, is_last_flit in self.flying.pop(tick, []):
            if hop == len(packet.route.links):
                if is_last_flit:
                    self._arrive(packet, tick, full)
            elif hop == packet.hop:  # else the head has gone on already
                packet.usable.append(tick)
        for node, count in self.here.items():
            self.deepest[node] = max(self.deepest[node], count)
        for message in full:
            self._complete(message, tick)
        for number, channel in self.credits.pop(tick, []):
            self.wires[number].taken[channel] -= 1
        for message in sorted(self.entering.pop(tick, [])):
            self._enter(message, tick)

    def _arrive(self, packet: _Packet, tick: int, full: set[int]) -> None:
        """Take a packet whose last flit is usable at its target, and give its slot back."""
        number, channel = packet.route.links[-1], packet.route.channels[-1]
        link = self.wires[number].link
        self.credits[tick + link.credit_cycles * link.period].append((number, channel))
        self.arrivals[packet.message].append(tick)
        self.received += packet.size_bytes
        self.here[link.target] += 1
        self.last = max(self.last, tick)
        self.unarrived[packet.message] -= 1
        if not self.unarrived[packet.message]:
            full.add(packet.message)

    def _complete(self, message: int, tick: int) -> None:
        """Count a message that has arrived, and let those enter that waited for it."""
        self.left -= 1
        self.here[self.traffic.targets[message]] -= len(self.arrivals[message])
        gate = self.traffic.opens[message] if self.traffic.opens else NO_GATE
        if gate != NO_GATE:
            self.counts[gate] -= 1
            if not self.counts[gate]:
                self._open(gate, tick)

    def _open(self, gate: int, tick: int) -> None:
        """Let those enter that waited for a gate; without any, the run lasts until then."""
        later = tick + self.traffic.delays[gate]
        waiting = self.waiting(gate)
        for message in waiting:
            self.entering[max(later, self.traffic.entry(message))].append(message)
        if not waiting:
            self.last = max(self.last, later)

    def _enter(self, message: int, tick: int) -> None:
        """Cut a message into packets, and put them where messages enter its first link."""
        traffic = self.traffic
        route = self.network.route(traffic.sources[message], traffic.targets[message])
        sizes = self.network.packets(traffic.sizes_bytes[message])
        self.entries[message] = tick
        self.packets += len(sizes)
        self.wires[route.links[0]].inputs[0].fifo.extend(
            _Packet(message, number, size, route, tick) for number, size in enumerate(sizes)
        )

    def _choice(self, wire: _Wire, tick: int) -> int | None:
        """Return the place of the input that the link grants in this tick, or None."""
        if tick % wire.link.period:
            return None
        self._note_ready(wire, tick)
        if wire.packet is not None:
            return None
        asking = [place for place, each in enumerate(wire.inputs) if self._asks(each, wire, tick)]
        able = [place for place in asking if self._has_slot(wire.inputs[place].fifo[0], wire)]
        wire.blocked_cycles += bool(asking) and not able
        if not able:
            return None
        if self.network.arbitration == "oldest":
            return min(able, key=lambda place: self._age(wire.inputs[place].fifo[0]))
        count = len(wire.inputs)
        return min(able, key=lambda place: (place - wire.turn) % count)

    def _age(self, packet: _Packet) -> tuple[int, int, int]:
        return packet.entered, packet.message, packet.number

    def _note_ready(self, wire: _Wire, tick: int) -> None:
        """Note for packets before this link, wherever in their FIFO, since when they have bytes."""
        for packet in (packet for each in wire.inputs for packet in each.fifo):
            is_mine = packet.ready == UNKNOWN and packet.route.links[packet.hop] == wire.number
            if is_mine and self._has_bytes(packet, wire.link, tick):
                packet.ready = tick

    def _asks(self, each: _Input, wire: _Wire, tick: int) -> bool:
        if not each.fifo or tick < each.readable_from:
            return False
        packet = each.fifo[0]
        is_for_me = packet.route.links[packet.hop] == wire.number
        return is_for_me and self._has_bytes(packet, wire.link, tick)

    def _has_slot(self, packet: _Packet, wire: _Wire) -> bool:
        return wire.taken[packet.route.channels[packet.hop]] < wire.link.slots

    def _has_bytes(self, packet: _Packet, link: NetworkLink, tick: int) -> bool:
        """Return whether a packet can go on now, flit after flit, without a flit missing."""
        if packet.hop == 0:
            return True
        if not packet.usable:
            return False
        before = self.network.links[packet.route.links[packet.hop - 1]]
        head, node_ticks = packet.usable[0], link.hop_cycles * link.period
        if self.network.forwarding == "store":
            return tick >= head + before.flits(packet.size_bytes) * before.period + node_ticks
        for flit in range(link.flits(packet.size_bytes)):
            stop_byte = min((flit + 1) * link.bytes_per_cycle, packet.size_bytes)
            last_needed = before.flits(stop_byte) - 1
            usable = head + last_needed * before.period  # flits come without a gap
            if tick + flit * link.period < usable + node_ticks:
                return False
        return True

    def _grant(self, wire: _Wire, place: int, tick: int) -> None:
        """Take a packet from an input; its flits are sent from this tick on."""
        each, link = wire.inputs[place], wire.link
        packet = each.fifo.pop(0)
        channel, flits = packet.route.channels[packet.hop], link.flits(packet.size_bytes)
        wire.taken[channel] += 1
        wire.turn = (place + 1) % len(wire.inputs)
        if self.keeps_hops:
            self.hops.append(self._hop_times(packet, each, wire, tick))
        each.readable_from = tick + flits * link.period
        wire.packet, wire.came_by, wire.flit = packet, each.buffer, 0
        packet.hop += 1
        wire.hop = packet.hop
        packet.usable, packet.ready = [], UNKNOWN
        self.packet_hops += 1
        self.sent += packet.size_bytes if packet.hop == 1 else 0
        if packet.hop < len(packet.route.links):
            self.inputs[wire.number, channel].fifo.append(packet)

    def _hop_times(self, packet: _Packet, each: _Input, wire: _Wire, tick: int) -> HopTimes:
        return HopTimes(
            message=packet.message,
            packet=packet.number,
            hop=packet.hop,
            link=wire.number,
            channel=packet.route.channels[packet.hop],
            entered=packet.head,
            first=max(packet.head, each.readable_from),
            ready=packet.ready,
            granted=tick,
        )

    def _send(self, wire: _Wire, tick: int) -> None:
        """Send the next flit; with the last one the packet leaves the buffer that it was in."""
        link, packet = wire.link, wire.packet
        if packet is None or tick % link.period:
            return
        is_last_flit = wire.flit == link.flits(packet.size_bytes) - 1
        self.flying[tick + link.latency_cycles * link.period].append(
            (packet, wire.hop, is_last_flit)
        )
        wire.flit += 1
        wire.busy_cycles += 1
        if not is_last_flit:
            return
        wire.packet = None
        if wire.came_by is not None:
            before = self.network.links[wire.came_by[0]]
            self.credits[tick + before.credit_cycles * before.period].append(wire.came_by)

    def _is_still(self, tick: int) -> bool:
        """Return whether nothing will ever change: every link refused all that can ask for it."""
        if not self.left or self.flying or self.credits or self.entering:
            return False
        if any(wire.packet for wire in self.wires):
            return False
        return all(
            each.fifo[0].ready != UNKNOWN
            and max(each.fifo[0].ready, each.readable_from, self.changed)
            <= self._last_edge(each.fifo[0], tick)
            for wire in self.wires
            for each in wire.inputs
            if each.fifo
        )

    def _last_edge(self, packet: _Packet, tick: int) -> int:
        return tick - tick % self.wires[packet.route.links[packet.hop]].link.period

    def _waits(self) -> dict[ChannelBuffer, list[ChannelBuffer]]:
        """Return which buffer the first packet of each buffer waits for."""
        return {
            buffer: [(packet.route.links[packet.hop], packet.route.channels[packet.hop])]
            for buffer, each in self.inputs.items()
            for packet in each.fifo[:1]
        }
