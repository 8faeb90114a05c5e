"""The event model: links decide in the ticks in which something can change, and in no others.

What a link decides in a tick depends on the state at its start alone, and every effect takes at
least a tick; so links that decide in one tick may do so in any order. A link decides when a packet
that asks for it has its bytes, when its wire becomes free, and when a slot becomes free. Not here:
the times of a packet by itself (`legs`), and of packets that meet nobody (`train`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import lcm

from systolic.network.deadlock import Buffer, refuse_deadlock
from systolic.network.event.legs import Leg, first_buffers, leg_builder
from systolic.network.event.train import (
    FEWEST_PACKETS,
    Course,
    Legs,
    Runner,
    Standing,
    Start,
    edge,
)
from systolic.network.network import Network, Route
from systolic.network.outcome import HopTimes, Outcome
from systolic.network.queues import deepest_packets
from systolic.network.traffic import NO_GATE, Traffic

COMPLETE, ENTER, DECIDE = range(3)
"""What an event is about, in the order of the events of one tick."""
NEVER = 1 << 62
LONGEST_PATIENCE = 256
MOST_COURSES = 512
"""Courses of trains that are remembered; then all are forgotten."""


@dataclass(eq=False, slots=True)
class _Message:
    """A message under way. sent: packets that have entered the first link; arrived: at the target.

    due: when the last packet will be there, if that is settled or a train says so. retry: the
    packet from which on a train is tried again, and patience: how many packets later after that.
    """

    number: int
    route: Route
    legs: Legs
    last: Legs
    packets: int
    entered: int
    sent: int = 0
    arrived: int = 0
    due: int = -1
    retry: int = 0
    patience: int = 2

    def legs_of(self, packet: int) -> Legs:
        """Return the legs of a packet; the last may be shorter than the others."""
        return self.last if packet == self.packets - 1 else self.legs


@dataclass(eq=False, slots=True)
class _Packet:
    """A packet before the link `hop` of its route; entered, ready: see `HopTimes`.

    first, asks: once it is the first of its FIFO, since when, and from which tick on it asks.
    """

    message: _Message
    number: int
    legs: Legs
    hop: int
    entered: int
    ready: int
    first: int = NEVER
    asks: int = NEVER


@dataclass(eq=False, slots=True)
class _Train:
    """Packets sent by one event: those that stood on the way, then the message's from `first` on."""

    start: int
    course: Course
    standing: Sequence[_Packet]
    message: _Message
    first: int

    def wire_free(self) -> int:
        """Return when the first wire is free again."""
        return self.start + self.course.granted[0][-1] + self.message.last[0].wire

    def offset(self, hop: int) -> int:
        """Return how many packets stood behind a hop, so that they do not take it."""
        return sum(each.hop > hop for each in self.standing)

    def packet(self, place: int) -> tuple[_Message, int]:
        """Return the message of a packet of the train, and the packet's number in it."""
        count = len(self.standing)
        if place < count:
            return self.standing[place].message, self.standing[place].number
        return self.message, self.first + place - count


def simulate(
    network: Network,
    traffic: Traffic,
    *,
    hops: bool = False,
    arrivals: bool = True,
    trains: bool = True,
) -> Outcome:
    """Return what the network does with the traffic.

    hops: whether each hop is recorded, for which there are no trains. arrivals: whether that of
    each packet is kept. trains: whether packets that meet nobody are sent together.
    """
    engine = _Engine(network, traffic, hops=hops, arrivals=arrivals, trains=trains and not hops)
    return engine.run()


class _Engine:
    """The state of all links and buffers.

    By link: free, when its wire is free; turn; heads, by place of the input, the packets that ask
    or will ask; wake, when it decides next; since, from when on it is blocked, or -1. By buffer:
    fifo; slots that are free, and the releases of others; readable; place among the inputs of a
    link out of its node.
    """

    def __init__(
        self, network: Network, traffic: Traffic, *, hops: bool, arrivals: bool, trains: bool
    ) -> None:
        self.network, self.traffic = network, traffic
        self.keeps_hops, self.keeps_arrivals, self.with_trains = hops, arrivals, trains
        self.legs = leg_builder(network)
        links = network.links
        count = len(links)
        self.period = [link.period for link in links]
        self.free = [0] * count
        self.turn = [0] * count
        self.heads: list[dict[int, _Packet]] = [{} for _ in links]
        self.wake = [NEVER] * count
        self.since = [-1] * count
        self.queues: list[deque[_Message]] = [deque() for _ in links]
        self.queue_readable = [0] * count
        self.trains: list[_Train | None] = [None] * count
        self.busy, self.blocked = [0] * count, [0] * count
        self._number_buffers()
        self.events: list[tuple[int, int, int]] = []
        self.messages: dict[int, _Message] = {}
        self.gates, self.waiting = traffic.gates()
        self.arrivals: list[list[int]] = [[] for _ in traffic.sources] if arrivals else []
        self.entries = [-1] * len(traffic)
        self.hops: list[HopTimes] = []
        self.left = len(traffic)
        self.last = self.packets = self.packet_hops = self.sent = self.received = 0
        self.courses: dict[object, Course] = {}
        self.is_oldest = network.arbitration == "oldest"

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
        self.fifos: list[deque[_Packet]] = [deque() for _ in self.link_of]
        self.slots = [links[number].slots for number in self.link_of]
        self.releases: list[list[int]] = [[] for _ in self.link_of]
        self.readable = [0] * len(self.link_of)

    def run(self) -> Outcome:
        """Take one event after the other until none is left."""
        for number in self.traffic.first():
            self.events.append((self.traffic.entry(number), ENTER, number))
        self.events.sort()
        events, tick = self.events, 0
        while events:
            tick, kind, number = heappop(events)
            if kind == DECIDE:
                if self.wake[number] == tick:
                    self._decide(number, tick)
            elif kind == ENTER:
                self._enter(number, tick)
            else:
                self._complete(number, tick)
        for train in {id(each): each for each in self.trains if each is not None}.values():
            self._settle(train, NEVER)
        if self.left:
            refuse_deadlock(self.network.links, self._waits(), tick, self.left)
        return self._outcome()

    def _outcome(self) -> Outcome:
        network, traffic = self.network, self.traffic
        deepest = [0] * len(network.nodes)
        if self.keeps_arrivals:
            deepest = deepest_packets(network.nodes, traffic.targets, self.arrivals)
        return Outcome(
            arrivals=self.arrivals,
            ticks=self.last + traffic.tail_ticks,
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

    def _waits(self) -> dict[Buffer, list[Buffer]]:
        """Return which buffer the first packet of each buffer waits for."""
        bases = first_buffers(self.network)

        def named(buffer: int) -> Buffer:
            return self.link_of[buffer], buffer - bases[self.link_of[buffer]]

        return {
            named(buffer): [named(fifo[0].legs[fifo[0].hop].buffer)]
            for buffer, fifo in enumerate(self.fifos)
            if fifo
        }

    # Messages

    def _enter(self, number: int, tick: int) -> None:
        """Put a message into the queue before its first link."""
        traffic, network = self.traffic, self.network
        route = network.route(traffic.sources[number], traffic.targets[number])
        whole, count, last = network.cut(traffic.sizes_bytes[number])
        message = _Message(
            number, route, self.legs(route, whole), self.legs(route, last), count, tick
        )
        self.entries[number] = tick
        self.packets += count
        link = route.links[0]
        queue = self.queues[link]
        queue.append(message)
        train = self.trains[link]
        if len(queue) == 1:
            self._next_of_queue(link)
        elif train is not None and train.message is queue[0]:
            self._schedule(link, train.wire_free())

    def _next_of_queue(self, link: int, now: int = 0) -> None:
        """Let the next packet of a link's queue be the first of this input."""
        queue = self.queues[link]
        if not queue:
            return
        message = queue[0]
        entered, number = message.entered, message.sent
        packet = _Packet(message, number, message.legs_of(number), 0, entered, entered)
        if self.period[link] > 1:
            packet.ready = edge(entered, self.period[link])
        self._ask(packet, 0, self.queue_readable[link], now)

    def _ask(self, packet: _Packet, place: int, readable: int, now: int = 0) -> None:
        """Make a packet the first of an input that may be read from tick `readable` on.

        now: the tick before which nothing is decided any more; the packet may have asked before.
        """
        link = packet.legs[packet.hop].link
        packet.first = max(packet.entered, readable)
        packet.asks = asks = edge(max(packet.ready, readable), self.period[link])
        self.heads[link][place] = packet
        if asks < now:
            asks = edge(now, self.period[link])
        if asks < self.wake[link]:
            self.wake[link] = asks
            heappush(self.events, (asks, DECIDE, link))

    def _schedule(self, link: int, tick: int) -> None:
        if tick < self.wake[link]:
            self.wake[link] = tick
            heappush(self.events, (tick, DECIDE, link))

    def _arrives(self, message: _Message, tick: int) -> None:
        """Note when the last packet of a message is at its target."""
        message.due = tick
        if self._gate(message.number) == NO_GATE:
            self._finish(message, tick)
        else:
            self.messages[message.number] = message
            heappush(self.events, (tick, COMPLETE, message.number))

    def _gate(self, number: int) -> int:
        """Return the gate that a message's arrival counts for, or NO_GATE."""
        return self.traffic.opens[number] if self.traffic.opens else NO_GATE

    def _finish(self, message: _Message, tick: int) -> None:
        self.left -= 1
        self.last = max(self.last, tick)

    def _complete(self, number: int, tick: int) -> None:
        """Count the arrival of a message for its gate, unless a meeting has put it off."""
        message = self.messages.get(number)
        if message is None or message.due != tick:
            return
        del self.messages[number]
        self._finish(message, tick)
        gate = self.traffic.opens[number]
        self.gates[gate] -= 1
        if not self.gates[gate]:
            for waiting in self.waiting[gate]:
                entry = max(tick + self.traffic.delay_ticks, self.traffic.entry(waiting))
                heappush(self.events, (entry, ENTER, waiting))

    # Decisions

    def _decide(self, link: int, tick: int) -> None:
        """Grant a packet, if one has all that it needs; otherwise say when to look again."""
        self.wake[link] = NEVER
        train = self.trains[link]
        if train is not None:
            self._settle(train, tick)
            self.wake[link] = NEVER
        heads = self.heads[link]
        if not heads:
            return
        if self.free[link] > tick:
            self._schedule(link, self.free[link])
            return
        best, best_rank, soon, is_blocked = -1, (), NEVER, False
        for place, packet in heads.items():
            if packet.asks > tick:
                soon = min(soon, packet.asks)
                continue
            buffer = packet.legs[packet.hop].buffer
            releases = self.releases[buffer]
            while releases and releases[0] <= tick:
                heappop(releases)
                self.slots[buffer] += 1
            if self.slots[buffer] > 0:
                rank = self._rank(link, place, packet)
                if best < 0 or rank < best_rank:
                    best, best_rank = place, rank
            else:
                is_blocked = True
                if releases:
                    soon = min(soon, edge(releases[0], self.period[link]))
        if best >= 0:
            packet = heads[best]
            if best or not self._start_train(packet.message, tick):
                self._grant(link, best, tick)
            return
        if is_blocked and self.since[link] < 0:
            self.since[link] = tick
        if soon < NEVER:
            self._schedule(link, soon)

    def _rank(self, link: int, place: int, packet: _Packet) -> tuple[int, ...]:
        """Return what the link chooses by: the least is granted."""
        if self.is_oldest:
            return packet.message.entered, packet.message.number, packet.number
        return ((place - self.turn[link]) % self.inputs[link],)

    def _grant(self, link: int, place: int, tick: int) -> None:
        """Send a packet: its wire, its slot, the input it leaves, and where it is next."""
        packet = self.heads[link].pop(place)
        leg = packet.legs[packet.hop]
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
            self._leave_buffer(packet.legs[packet.hop - 1].buffer, packet, tick)
        else:
            self._leave_queue(link, packet, free)
        self._move_on(packet, leg.buffer, tick)
        if self.heads[link]:
            self._schedule(link, free)

    def _record(self, packet: _Packet, tick: int) -> None:
        leg = packet.legs[packet.hop]
        self.hops.append(
            HopTimes(
                message=packet.message.number,
                packet=packet.number,
                hop=packet.hop,
                link=leg.link,
                channel=packet.message.route.channels[packet.hop],
                entered=packet.entered,
                first=packet.first,
                ready=packet.ready,
                granted=tick,
            )
        )

    def _leave_queue(self, link: int, packet: _Packet, free: int) -> None:
        """Take a packet from the queue before its first link."""
        message = packet.message
        message.sent += 1
        self.sent += packet.legs[0].size_bytes
        self.queue_readable[link] = free
        if message.sent == message.packets:
            self.queues[link].popleft()
        self._next_of_queue(link)

    def _leave_buffer(self, buffer: int, packet: _Packet, tick: int) -> None:
        """Take a packet from a buffer; its slot and the FIFO behind it become free later."""
        hop = packet.hop
        before, leg = packet.legs[hop - 1], packet.legs[hop]
        release = tick + leg.tail + before.credit
        heappush(self.releases[buffer], release)
        if self.heads[before.link]:
            self._schedule(before.link, edge(release, before.period))
        self.readable[buffer] = tick + leg.wire
        fifo = self.fifos[buffer]
        fifo.popleft()
        if fifo:
            self._ask(fifo[0], self.place[buffer], tick + leg.wire)

    def _move_on(self, packet: _Packet, buffer: int, tick: int) -> None:
        """Put a packet that was granted into the buffer at the far end, or take it there."""
        leg = packet.legs[packet.hop]
        if packet.hop + 1 == len(packet.legs):
            self._take(packet.message, packet.number, leg.size_bytes, tick + leg.tail + leg.flight)
            heappush(self.releases[buffer], tick + leg.tail + leg.flight + leg.credit)
            return
        packet.hop += 1
        packet.entered = tick + leg.flight
        packet.ready = edge(packet.entered + leg.wait, packet.legs[packet.hop].period)
        fifo = self.fifos[buffer]
        fifo.append(packet)
        if len(fifo) == 1:
            self._ask(packet, self.place[buffer], self.readable[buffer])

    def _take(self, message: _Message, number: int, size_bytes: int, tick: int) -> None:
        """Take a packet whose last flit will be usable at its target in a tick."""
        self.received += size_bytes
        if self.keeps_arrivals:
            self.arrivals[message.number].append(tick)
        if number == message.packets - 1:
            self._arrives(message, tick)

    # Trains

    def _start_train(self, message: _Message, tick: int) -> bool:
        """Send the rest of a message as a train if nobody else is on its way; return whether."""
        left = message.packets - message.sent
        if not self.with_trains or left < FEWEST_PACKETS or message.sent < message.retry:
            return False
        standing = self._standing(message)
        if standing is None:
            message.retry = message.sent + message.patience
            message.patience = min(2 * message.patience, LONGEST_PATIENCE)
            return False
        course = self._course(self._start(message, standing, tick))
        train = _Train(tick, course, standing, message, message.sent)
        for hop, leg in enumerate(message.legs):
            link = leg.link
            self.trains[link], self.wake[link] = train, NEVER
            self.heads[link].clear()
            if hop:
                self.fifos[message.legs[hop - 1].buffer].clear()
            if self.since[link] >= 0:
                self.blocked[link] += edge(tick, leg.period) - self.since[link]
                self.since[link] = -1
        self._announce(train)
        first = message.legs[0].link
        if len(self.queues[first]) > 1:
            self._schedule(first, train.wire_free())
        return True

    def _standing(self, message: _Message) -> list[_Packet] | None:
        """Return the packets on a message's way, the furthest first; None if others are there."""
        route, legs = message.route, message.legs
        if len(self.heads[legs[0].link]) > 1 or len(set(route.links)) < len(legs):
            return None
        if any(self.trains[leg.link] is not None for leg in legs):
            return None
        if self.fifos[legs[-1].buffer]:  # slots of others, which become free who knows when
            return None
        standing: list[_Packet] = []
        for hop in range(len(legs) - 1, 0, -1):
            fifo, heads = self.fifos[legs[hop - 1].buffer], self.heads[legs[hop].link]
            if len(heads) > bool(fifo) or any(each.message.route is not route for each in fifo):
                return None
            standing += fifo
        return standing

    def _start(self, message: _Message, standing: Sequence[_Packet], tick: int) -> Start:
        """Return the state of a message's way, relative to a tick."""
        legs, last = message.legs, message.last
        has_last = last is not legs
        releases = []
        for leg in legs:
            heap = self.releases[leg.buffer]
            while heap and heap[0] <= tick:
                heappop(heap)
                self.slots[leg.buffer] += 1
            releases.append(tuple(sorted(each - tick for each in heap)))
        return Start(
            legs=legs,
            last=last,
            has_last=has_last,
            whole=message.packets - message.sent - has_last,
            free=tuple(max(0, self.free[leg.link] - tick) for leg in legs),
            readable=(0, *(max(0, self.readable[leg.buffer] - tick) for leg in legs[:-1])),
            slots=tuple(self.slots[leg.buffer] for leg in legs),
            releases=tuple(releases),
            standing=tuple(
                Standing(each.hop, max(0, each.ready - tick), each.legs) for each in standing
            ),
            phase=tick % lcm(*(leg.period for leg in legs)),
        )

    def _course(self, start: Start) -> Course:
        """Return the course of a train; one that was seen before is known."""
        key = start.key()
        if key not in self.courses:
            if len(self.courses) >= MOST_COURSES:
                self.courses.clear()
            self.courses[key] = Runner(start).run()
        return self.courses[key]

    def _announce(self, train: _Train) -> None:
        """Say when messages of a train will have arrived, for those that wait for them."""
        times, offset = train.course.granted[-1], train.offset(len(train.message.legs) - 1)
        ends = [
            (place, *train.packet(place))
            for place in [*range(len(train.standing)), offset + len(times) - 1]
            if place >= offset
        ]
        for place, message, number in ends:
            if number == message.packets - 1 and self._gate(message.number) != NO_GATE:
                leg = message.last[-1]
                due = train.start + times[place - offset] + leg.tail + leg.flight
                message.due = due
                self.messages[message.number] = message
                heappush(self.events, (due, COMPLETE, message.number))

    def _settle(self, train: _Train, tick: int) -> None:
        """Turn a train into the packets that it stands for, as they are at the start of a tick.

        What was granted before the tick stands. The other packets are where the last grants have
        put them, and ask for their next links.
        """
        legs = train.message.legs
        offsets = [train.offset(hop) for hop in range(len(legs))]
        counts = [
            offset + bisect_left(granted, tick - train.start)
            for offset, granted in zip(offsets, train.course.granted, strict=True)
        ]
        for leg in legs:
            self.trains[leg.link] = None
        for hop in range(len(legs)):
            if counts[hop] > offsets[hop]:
                self._settle_link(train, hop, offsets[hop], counts[hop])
            self._settle_slots(train, hop, offsets, counts, tick)
        self._settle_arrivals(train, offsets[-1], counts[-1])
        self._settle_queue(train, counts[0], tick)
        for hop in range(1, len(legs)):
            self._settle_fifo(train, hop, offsets, counts, tick)

    def _settle_link(self, train: _Train, hop: int, offset: int, stop: int) -> None:
        """Bring a link up to the last grant of a train: packets from place `offset` to `stop`."""
        course, leg = train.course, train.message.legs[hop]
        link, taken = leg.link, stop - offset
        message, number = train.packet(stop - 1)
        free = train.start + course.granted[hop][taken - 1] + message.legs_of(number)[hop].wire
        self.free[link] = free
        place = 0
        if hop:
            before = train.message.legs[hop - 1].buffer
            self.readable[before], place = free, self.place[before]
        else:
            self.queue_readable[link] = free
        self.turn[link] = (place + 1) % self.inputs[link]
        self.busy[link] += sum(each.flits * n for each, n in self._legs(train, hop, offset, stop))
        self.blocked[link] += course.blocked[hop][taken]
        self.packet_hops += taken

    def _legs(self, train: _Train, hop: int, first: int, stop: int) -> list[tuple[Leg, int]]:
        """Return the legs on a hop of the packets from place `first` to `stop`, with counts."""
        message, count = train.message, len(train.standing)
        found = [(each.legs[hop], 1) for each in train.standing[first:stop]]
        whole = stop - max(first, count)
        if whole > 0:
            has_last = train.first + stop - count == message.packets
            found.append((message.legs[hop], whole - has_last))
            if has_last:
                found.append((message.last[hop], 1))
        return found

    def _settle_slots(
        self, train: _Train, hop: int, offsets: Sequence[int], counts: Sequence[int], tick: int
    ) -> None:
        """Take the slots of a train at the far end of a hop, and give back those that it left."""
        leg, is_last_hop = train.message.legs[hop], hop + 1 == len(offsets)
        buffer, by = leg.buffer, hop if is_last_hop else hop + 1
        self.slots[buffer] -= counts[hop] - offsets[hop]
        heap = self.releases[buffer]
        for place in range(counts[by] - 1, offsets[by] - 1, -1):
            message, number = train.packet(place)
            legs = message.legs_of(number)
            left = train.start + train.course.granted[by][place - offsets[by]] + legs[by].tail
            release = left + leg.credit + (leg.flight if is_last_hop else 0)
            if release <= tick:
                self.slots[buffer] += place - offsets[by] + 1
                break
            heappush(heap, release)
        while heap and heap[0] <= tick:
            heappop(heap)
            self.slots[buffer] += 1

    def _settle_arrivals(self, train: _Train, offset: int, stop: int) -> None:
        """Note the arrivals of the packets of a train that have been granted their last link."""
        legs, times = train.message.legs, train.course.granted[-1]
        self.received += sum(
            leg.size_bytes * n for leg, n in self._legs(train, len(legs) - 1, offset, stop)
        )
        count = len(train.standing)
        for place in range(offset, min(stop, count)):
            self._settle_arrival(train, place, times[place - offset])
        has_last = stop > count and train.packet(stop - 1)[1] == train.message.packets - 1
        if self.keeps_arrivals:
            to_target = train.start + legs[-1].tail + legs[-1].flight
            first = max(0, count - offset)
            self.arrivals[train.message.number].extend(
                time + to_target for time in times[first : stop - offset - has_last]
            )
        if has_last:
            self._settle_arrival(train, stop - 1, times[stop - 1 - offset])
        for place in {*range(count), count + train.message.packets - train.first - 1}:
            message, number = train.packet(place)
            if place >= stop and number == message.packets - 1:
                message.due = -1

    def _settle_arrival(self, train: _Train, place: int, time: int) -> None:
        """Note the arrival of a packet; a message that a gate waits for was announced before."""
        message, number = train.packet(place)
        leg = message.legs_of(number)[-1]
        arrival = train.start + time + leg.tail + leg.flight
        if self.keeps_arrivals:
            self.arrivals[message.number].append(arrival)
        if number == message.packets - 1 and self._gate(message.number) == NO_GATE:
            self._finish(message, arrival)

    def _settle_queue(self, train: _Train, stop: int, tick: int) -> None:
        """Leave those packets of a train in the queue before its first link that stand there."""
        message = train.message
        leg, entered = message.legs[0], stop - len(train.standing)
        self.sent += sum(
            leg.size_bytes * n for leg, n in self._legs(train, 0, len(train.standing), stop)
        )
        message.sent = train.first + entered
        message.retry = message.sent + message.patience
        message.patience = min(2 * message.patience, LONGEST_PATIENCE)
        if message.sent == message.packets:
            self.queues[leg.link].popleft()
        self._next_of_queue(leg.link, tick)
        if message.sent < message.packets:
            self._settle_since(train, 0, entered, tick)

    def _settle_since(self, train: _Train, hop: int, taken: int, tick: int) -> None:
        """Note since when the next packet has waited for a slot."""
        asked = train.start + train.course.asked[hop][taken]
        if asked < tick:
            self.since[train.message.legs[hop].link] = asked

    def _settle_fifo(
        self, train: _Train, hop: int, offsets: Sequence[int], counts: Sequence[int], tick: int
    ) -> None:
        """Put those packets of a train into the buffer before a hop that are there."""
        before, leg = train.message.legs[hop - 1], train.message.legs[hop]
        fifo = self.fifos[before.buffer]
        assert not fifo
        for place in range(counts[hop], counts[hop - 1]):
            if place < len(train.standing) and train.standing[place].hop == hop:
                fifo.append(train.standing[place])
                continue
            message, number = train.packet(place)
            granted = train.course.granted[hop - 1][place - offsets[hop - 1]]
            entered = train.start + granted + before.flight
            legs = message.legs_of(number)
            ready = edge(entered + legs[hop - 1].wait, leg.period)
            fifo.append(_Packet(message, number, legs, hop, entered, ready))
        if fifo:
            self._ask(fifo[0], self.place[before.buffer], self.readable[before.buffer], tick)
            self._settle_since(train, hop, counts[hop] - offsets[hop], tick)
