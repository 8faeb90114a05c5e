"""Links that decide in the ticks in which something can change, and in no others.

What a link decides in a tick depends on the state at its start alone, and every effect takes at
least a tick; so links that decide in one tick may do so in any order. A link decides when a packet
that asks for it has its bytes, when its wire becomes free, and when a slot becomes free. Not here:
the times of a packet by itself (`legs`), and packets that are sent together (`trains`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from systolic.errors import SimulationError
from systolic.network.deadlock import ChannelBuffer, refuse_deadlock
from systolic.network.event.course import TrainCourse
from systolic.network.event.legs import Leg, Legs, edge, first_buffers, leg_builder
from systolic.network.network import Network, NetworkRoute
from systolic.network.outcome import HopTimes, NetworkOutcome
from systolic.network.queues import deepest_packets
from systolic.network.spec import NodeName
from systolic.network.traffic import NO_GATE, Traffic

COMPLETE, ENTER, DECIDE = range(3)
"""What an event is about, in the order of the events of one tick."""
NEVER = 1 << 62
LONGEST_PATIENCE = 256


@dataclass(eq=False, slots=True)
class Message:
    """A message under way. sent: packets granted their first link. due: when all have arrived.

    legs: of its packets; last: of the last one, which may be shorter. due is -1 until it is known.
    retry: the packet from which on a train is tried again; patience: after how many more it is
    tried once more.
    """

    number: int
    route: NetworkRoute
    legs: Legs
    last: Legs
    packets: int
    entered: int
    sent: int = 0
    due: int = -1
    retry: int = 0
    patience: int = 2

    def legs_of(self, packet: int) -> Legs:
        """Return the legs of a packet."""
        return self.last if packet == self.packets - 1 else self.legs

    def try_later(self) -> None:
        """Let some packets, more each time, go by themselves before the next train is tried."""
        self.retry = self.sent + self.patience
        self.patience = min(2 * self.patience, LONGEST_PATIENCE)

    def put_off(self) -> None:
        """Forget when all will have arrived: somebody was met."""
        self.due = -1


@dataclass(eq=False, slots=True)
class Packet:
    """A packet before the link `hop` of its route; leg: that link's. entered, ready: `HopTimes`.

    first, asks: once it is the first of its FIFO, since when, and from which tick on it asks.
    """

    message: Message
    number: int
    legs: Legs
    hop: int
    leg: Leg
    entered: int
    ready: int
    first: int = NEVER
    asks: int = NEVER


@dataclass(eq=False, slots=True)
class Train:
    """Packets sent by one event: first those that stood on the way, the furthest first.

    Behind them the packets of a message from the number `first` on.
    """

    start: int
    course: TrainCourse
    standing: Sequence[Packet]
    message: Message
    first: int

    def wire_free(self) -> int:
        """Return when the first wire is free again."""
        return self.start + self.course.granted[0][-1] + self.message.last[0].wire

    def offset(self, hop: int) -> int:
        """Return how many packets stood behind a hop, so that they do not take it."""
        return sum(each.hop > hop for each in self.standing)

    def packet(self, place: int) -> tuple[Message, int]:
        """Return the message of a packet of the train, and the packet's number in it."""
        count = len(self.standing)
        if place < count:
            return self.standing[place].message, self.standing[place].number
        return self.message, self.first + place - count


class Links:
    """The state of all links and buffers, and the events to come.

    By link: free, when its wire is free; turn; heads, by place of the input, the packets that ask
    or will ask; wake, when it decides next; since, from when on it is blocked, or -1. By buffer:
    fifo; slots that are free, and releases, when others become free; readable, from when on it may
    be read; place among the inputs of a link out of its node. trains: by link, what it is part of.
    """

    def __init__(self, network: Network, traffic: Traffic, *, hops: bool, arrivals: bool) -> None:
        self.network, self.traffic = network, traffic
        self.keeps_hops, self.keeps_arrivals = hops, arrivals
        self.is_oldest = network.arbitration == "oldest"
        self.legs = leg_builder(network)
        self.plans: dict[tuple[NodeName, NodeName, int], tuple[NetworkRoute, Legs, Legs, int]] = {}
        links = network.links
        self.period = [link.period for link in links]
        self.free = [0] * len(links)
        self.turn = [0] * len(links)
        self.heads: list[dict[int, Packet]] = [{} for _ in links]
        self.wake = [NEVER] * len(links)
        self.since = [-1] * len(links)
        self.queues: list[deque[Message]] = [deque() for _ in links]
        self.queue_readable = [0] * len(links)
        self.busy, self.blocked = [0] * len(links), [0] * len(links)
        self.trains: list[Train | None] = [None] * len(links)
        self._number_buffers()
        self.events: list[tuple[int, int, int]] = []
        self.announced: dict[int, Message] = {}
        self.gates, self.waiting = traffic.gates()
        self.arrivals: list[list[int]] = [[] for _ in traffic.sources] if arrivals else []
        self.entries = [-1] * len(traffic) if arrivals else []
        self.hops: list[HopTimes] = []
        self.left = len(traffic)
        self.last = self.packets = self.packet_hops = self.sent = self.received = 0

    def _number_buffers(self) -> None:
        links = self.network.links
        self.link_of: list[int] = []
        self.place: list[int] = []
        inputs_of: dict[object, int] = {}
        for number, link in enumerate(links):
            for _ in range(link.channels):
                inputs_of[link.target] = inputs_of.get(link.target, 0) + 1
                self.link_of.append(number)
                self.place.append(inputs_of[link.target])
        self.inputs = [1 + inputs_of.get(link.source, 0) for link in links]
        self.fifos: list[deque[Packet]] = [deque() for _ in self.link_of]
        self.slots = [links[number].slots for number in self.link_of]
        self.releases: list[list[int]] = [[] for _ in self.link_of]
        self.readable = [0] * len(self.link_of)

    def run(self) -> NetworkOutcome:
        """Take one event after the other until none is left."""
        entry = self.traffic.entry
        events = self.events
        events += [(entry(number), ENTER, number) for number in self.traffic.first()]
        events.sort()
        wake, tick = self.wake, 0
        while events:
            tick, kind, number = heappop(events)
            if kind == DECIDE:
                if wake[number] == tick:
                    self.decide(number, tick)
            elif kind == ENTER:
                self._enter(number, tick)
            else:
                self._complete(number, tick)
        self.settle_all()
        if self.left:
            refuse_deadlock(self.network.links, self._waits(), tick, self.left)
        if self.sent != self.received:
            raise SimulationError(f"{self.sent} bytes were sent, and {self.received} received")
        return self._outcome()

    def _outcome(self) -> NetworkOutcome:
        network, traffic = self.network, self.traffic
        deepest = [0] * len(network.nodes)
        if self.keeps_arrivals:
            deepest = deepest_packets(network.nodes, traffic.targets, self.arrivals)
        return NetworkOutcome(
            arrivals=self.arrivals,
            ticks=self.last,
            packets=self.packets,
            packet_hops=self.packet_hops,
            busy_cycles=self.busy,
            blocked_cycles=[
                ticks // period for ticks, period in zip(self.blocked, self.period, strict=True)
            ],
            sent_bytes=self.sent,
            received_bytes=self.received,
            deepest_packets=deepest,
            entries=self.entries,
            hops=self.hops,
        )

    def _waits(self) -> dict[ChannelBuffer, list[ChannelBuffer]]:
        """Return which buffer the first packet of each buffer waits for."""
        bases = first_buffers(self.network)

        def named(buffer: int) -> ChannelBuffer:
            return self.link_of[buffer], buffer - bases[self.link_of[buffer]]

        return {
            named(buffer): [named(fifo[0].leg.buffer)]
            for buffer, fifo in enumerate(self.fifos)
            if fifo
        }

    # What trains add; without them every packet is sent by itself.

    def start_train(self, message: Message, tick: int) -> bool:
        """Send the rest of a message at once, if that is possible; return whether it is done."""
        return False

    def settle(self, link: int, tick: int) -> None:
        """Turn a train that a link is part of into its packets, as they are before a tick."""

    def settle_all(self) -> None:
        """Settle what is left when no event is."""

    def wire_free_after_train(self, link: int) -> int | None:
        """Return when the wire of a link is free, if a train that began there is on it."""
        return None

    # Messages

    def _enter(self, number: int, tick: int) -> None:
        """Put a message into the queue before its first link."""
        traffic = self.traffic
        ends = traffic.sources[number], traffic.targets[number], traffic.sizes_bytes[number]
        if ends not in self.plans:
            self.plans[ends] = self._plan(*ends)
        route, legs, last, count = self.plans[ends]
        message = Message(number, route, legs, last, count, tick)
        if self.keeps_arrivals:
            self.entries[number] = tick
        self.packets += count
        link = route.links[0]
        queue = self.queues[link]
        queue.append(message)
        if len(queue) == 1:
            self.next_of_queue(link)
        elif (free := self.wire_free_after_train(link)) is not None:
            self.schedule(link, edge(max(tick, free), self.period[link]))

    def _plan(
        self, source: NodeName, target: NodeName, size_bytes: int
    ) -> tuple[NetworkRoute, Legs, Legs, int]:
        """Return the route of a message, the legs of its packets and of the last, their count."""
        route = self.network.route(source, target)
        whole, count, last = self.network.cut(size_bytes)
        legs = self.legs(route, whole)
        return route, legs, legs if last == whole else self.legs(route, last), count

    def next_of_queue(self, link: int, now: int = 0) -> None:
        """Let the next packet of a link's queue be the first of this input."""
        queue = self.queues[link]
        if queue:
            message = queue[0]
            entered, number = message.entered, message.sent
            legs = message.legs if number < message.packets - 1 else message.last
            packet = Packet(message, number, legs, 0, legs[0], entered, entered)
            if self.period[link] != 1:
                packet.ready = edge(entered, self.period[link])
            self.ask(packet, 0, self.queue_readable[link], now)

    def ask(self, packet: Packet, place: int, readable: int, now: int = 0) -> None:
        """Make a packet the first of an input that may be read from tick `readable` on.

        now: the tick before which nothing is decided any more; the packet may have asked before.
        """
        link = packet.leg.link
        packet.first = packet.entered if packet.entered > readable else readable
        asks = packet.ready if packet.ready > readable else readable
        if self.period[link] != 1:
            asks = edge(asks, self.period[link])
        packet.asks = asks
        self.heads[link][place] = packet
        if asks < now:
            asks = edge(now, self.period[link])
        if asks < self.wake[link]:
            self.wake[link] = asks
            heappush(self.events, (asks, DECIDE, link))

    def schedule(self, link: int, tick: int) -> None:
        """Let a link decide in a tick, or before."""
        if tick < self.wake[link]:
            self.wake[link] = tick
            heappush(self.events, (tick, DECIDE, link))

    def arrives(self, message: Message, tick: int) -> None:
        """Note when the last packet of a message is at its target."""
        message.due = tick
        if self.gate(message.number) == NO_GATE:
            self.finish(tick)
        else:
            self.announce(message, tick)

    def announce(self, message: Message, tick: int) -> None:
        """Say when a message that a gate waits for will have arrived."""
        message.due = tick
        self.announced[message.number] = message
        heappush(self.events, (tick, COMPLETE, message.number))

    def gate(self, number: int) -> int:
        """Return the gate that a message's arrival counts for, or NO_GATE."""
        return self.traffic.opens[number] if self.traffic.opens else NO_GATE

    def finish(self, tick: int) -> None:
        """Count a message that has arrived."""
        self.left -= 1
        self.last = max(self.last, tick)

    def _complete(self, number: int, tick: int) -> None:
        """Count the arrival of a message for its gate, unless a meeting has put it off."""
        message = self.announced.get(number)
        if message is None or message.due != tick:
            return
        del self.announced[number]
        self.finish(tick)
        gate = self.traffic.opens[number]
        self.gates[gate] -= 1
        if not self.gates[gate]:
            later, waiting = tick + self.traffic.delays[gate], self.waiting(gate)
            for each in waiting:
                heappush(self.events, (max(later, self.traffic.entry(each)), ENTER, each))
            if not waiting:
                self.last = max(self.last, later)

    # Decisions: this is where a run spends its time, so the common case comes first, and bounds
    # are compared without calls.

    def decide(self, link: int, tick: int) -> None:
        """Grant a packet, if one has all that it needs; otherwise say when to look again."""
        self.wake[link] = NEVER
        if self.trains[link] is not None:
            self.settle(link, tick)
            self.wake[link] = NEVER
        heads = self.heads[link]
        if not heads:
            return
        if self.free[link] > tick:
            self.schedule(link, self.free[link])
            return
        best, soon, is_blocked = -1, NEVER, False
        best_rank: tuple[int, ...] = (NEVER,)
        for place, packet in heads.items():
            if packet.asks > tick:
                if packet.asks < soon:
                    soon = packet.asks
                continue
            buffer = packet.leg.buffer
            releases = self.releases[buffer]
            while releases and releases[0] <= tick:
                heappop(releases)
                self.slots[buffer] += 1
            if self.slots[buffer] > 0:
                rank = (-1,) if len(heads) == 1 else self._rank(link, place, packet)
                if rank < best_rank:
                    best, best_rank = place, rank
            else:
                is_blocked = True
                if releases:
                    soon = min(soon, edge(releases[0], self.period[link]))
        if best >= 0:
            if best or not self.start_train(heads[0].message, tick):
                self._grant(link, best, tick)
            return
        if is_blocked and self.since[link] < 0:
            self.since[link] = tick
        if soon < NEVER:
            self.schedule(link, soon)

    def _rank(self, link: int, place: int, packet: Packet) -> tuple[int, ...]:
        """Return what the link chooses by: the least is granted."""
        if self.is_oldest:
            return packet.message.entered, packet.message.number, packet.number
        return ((place - self.turn[link]) % self.inputs[link],)

    def _grant(self, link: int, place: int, tick: int) -> None:
        """Send a packet: its wire, its slot, the input it leaves, and where it is next."""
        heads = self.heads[link]
        packet = heads.pop(place)
        leg = packet.leg
        free = self.free[link] = tick + leg.wire
        self.turn[link] = (place + 1) % self.inputs[link]
        self.busy[link] += leg.flits
        if self.since[link] >= 0:
            self.blocked[link] += tick - self.since[link]
            self.since[link] = -1
        self.slots[leg.buffer] -= 1
        self.packet_hops += 1
        if self.keeps_hops:
            self._record(packet, tick)
        if place:
            self._leave_buffer(packet.legs[packet.hop - 1], leg, tick)
        else:
            self._leave_queue(link, packet, free)
        if packet.hop + 1 == len(packet.legs):
            self._take(packet, leg, tick)
        else:
            self._move_on(packet, leg, tick)
        if heads:
            self.schedule(link, free)

    def _record(self, packet: Packet, tick: int) -> None:
        self.hops.append(
            HopTimes(
                message=packet.message.number,
                packet=packet.number,
                hop=packet.hop,
                link=packet.leg.link,
                channel=packet.message.route.channels[packet.hop],
                entered=packet.entered,
                first=packet.first,
                ready=packet.ready,
                granted=tick,
            )
        )

    def _leave_queue(self, link: int, packet: Packet, free: int) -> None:
        """Take a packet from the queue before its first link."""
        message = packet.message
        message.sent += 1
        self.sent += packet.leg.size_bytes
        self.queue_readable[link] = free
        if message.sent == message.packets:
            self.queues[link].popleft()
        self.next_of_queue(link)

    def _leave_buffer(self, before: Leg, leg: Leg, tick: int) -> None:
        """Take a packet from a buffer; its slot and the FIFO behind it become free later."""
        buffer, release = before.buffer, tick + leg.tail + before.credit
        heappush(self.releases[buffer], release)
        if self.heads[before.link]:
            self.schedule(before.link, edge(release, before.period))
        self.readable[buffer] = tick + leg.wire
        fifo = self.fifos[buffer]
        fifo.popleft()
        if fifo:
            self.ask(fifo[0], self.place[buffer], tick + leg.wire)

    def _move_on(self, packet: Packet, leg: Leg, tick: int) -> None:
        """Put a packet that was granted into the buffer at the far end."""
        packet.hop += 1
        packet.leg = after = packet.legs[packet.hop]
        packet.entered = tick + leg.flight
        packet.ready = packet.entered + leg.wait
        if after.period != 1:
            packet.ready = edge(packet.ready, after.period)
        fifo = self.fifos[leg.buffer]
        fifo.append(packet)
        if len(fifo) == 1:
            self.ask(packet, self.place[leg.buffer], self.readable[leg.buffer])

    def _take(self, packet: Packet, leg: Leg, tick: int) -> None:
        """Let a packet that was granted its last link arrive at its target."""
        arrival = tick + leg.tail + leg.flight
        heappush(self.releases[leg.buffer], arrival + leg.credit)
        self.received += leg.size_bytes
        message = packet.message
        if self.keeps_arrivals:
            self.arrivals[message.number].append(arrival)
        if packet.number == message.packets - 1:
            self.arrives(message, arrival)
