"""Trains: what is left of a message is sent by one event, if nobody else is on its way.

A train stands for its packets until somebody asks for one of its links. Then it is settled: what
was granted before that tick stands, and the other packets are where those grants have put them. So
a train is never visible in a result.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop, heappush
from math import lcm

from systolic.network.event.course import Runner, Standing, Start, TrainCourse
from systolic.network.event.legs import Leg, edge
from systolic.network.event.links import NEVER, Links, Message, Packet, Train
from systolic.network.network import Network
from systolic.network.traffic import NO_GATE, Traffic

MOST_COURSES = 512
"""Courses of trains that are remembered; then all are forgotten."""


class TrainLinks(Links):
    """Links with trains. courses: of trains seen before."""

    def __init__(
        self, network: Network, traffic: Traffic, *, arrivals: bool, fewest_packets: int
    ) -> None:
        super().__init__(network, traffic, hops=False, arrivals=arrivals)
        self.fewest_packets = fewest_packets
        self.courses: dict[object, TrainCourse] = {}

    def start_train(self, message: Message, tick: int) -> bool:
        """Send the rest of a message as a train if nobody else is on its way; return whether."""
        left = message.packets - message.sent
        if left < self.fewest_packets or message.sent < message.retry:
            return False
        standing = self._standing(message)
        if standing is None:
            message.try_later()
            return False
        course = self._course(self._start(message, standing, tick))
        train = Train(tick, course, standing, message, message.sent)
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
            self.schedule(first, train.wire_free())
        return True

    def _standing(self, message: Message) -> list[Packet] | None:
        """Return the packets on a message's way, the furthest first; None if others are there."""
        route, legs = message.route, message.legs
        if len(self.heads[legs[0].link]) > 1 or len(set(route.links)) < len(legs):
            return None
        if any(self.trains[leg.link] is not None for leg in legs):
            return None
        if self.fifos[legs[-1].buffer]:  # slots of others, which become free who knows when
            return None
        standing: list[Packet] = []
        for hop in range(len(legs) - 1, 0, -1):
            fifo, heads = self.fifos[legs[hop - 1].buffer], self.heads[legs[hop].link]
            if len(heads) > bool(fifo) or any(each.message.route is not route for each in fifo):
                return None
            standing += fifo
        return standing

    def _start(self, message: Message, standing: Sequence[Packet], tick: int) -> Start:
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

    def _course(self, start: Start) -> TrainCourse:
        """Return the course of a train; one that was seen before is known."""
        key = start.key()
        if key not in self.courses:
            if len(self.courses) >= MOST_COURSES:
                self.courses.clear()
            self.courses[key] = Runner(start).run()
        return self.courses[key]

    def _announce(self, train: Train) -> None:
        """Say when messages of a train will have arrived, for those that wait for them."""
        times, offset = train.course.granted[-1], train.offset(len(train.message.legs) - 1)
        ends = [
            (place, *train.packet(place))
            for place in [*range(len(train.standing)), offset + len(times) - 1]
            if place >= offset
        ]
        for place, message, number in ends:
            if number == message.packets - 1 and self.gate(message.number) != NO_GATE:
                leg = message.last[-1]
                self.announce(message, train.start + times[place - offset] + leg.tail + leg.flight)

    def settle(self, link: int, tick: int) -> None:
        """Turn a train that a link is part of into its packets, as they are before a tick."""
        train = self.trains[link]
        if train is not None:
            self._settle(train, tick)

    def settle_all(self) -> None:
        """Settle what is left when no event is."""
        for link in range(len(self.trains)):
            self.settle(link, NEVER)

    def wire_free_after_train(self, link: int) -> int | None:
        """Return when the wire of a link is free, if a train that began there is on it."""
        train = self.trains[link]
        if train is None or train.message is not self.queues[link][0]:
            return None
        return train.wire_free()

    def _settle(self, train: Train, tick: int) -> None:
        """Turn a train into the packets that it stands for, as they are at the start of a tick.

        What was granted before the tick stands. The other packets are where the last grants have
        put them, and ask for their next links.
        """
        if tick >= train.start + train.course.end:
            self._settle_past(train, tick)
            return
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

    def _settle_past(self, train: Train, tick: int) -> None:
        """Settle a train that has left all its links."""
        message, course = train.message, train.course
        place, behind = 0, len(train.standing)
        for hop, leg in enumerate(message.legs):
            link, last = leg.link, message.last[hop]
            self.trains[link] = None
            free = self.free[link] = train.start + course.granted[hop][-1] + last.wire
            self.turn[link] = (place + 1) % self.inputs[link]
            if hop:
                self.readable[message.legs[hop - 1].buffer] = free
            else:
                self.queue_readable[link] = free
            self.busy[link] += course.flits[hop]
            self.blocked[link] += course.blocked[hop][-1]
            self.packet_hops += len(course.granted[hop])
            place = self.place[leg.buffer]
            if behind:  # those that stood in this buffer have left it
                stood = behind
                behind = train.offset(hop + 1)
                self.slots[leg.buffer] += stood - behind
        offset = train.offset(len(message.legs) - 1) if train.standing else 0
        if self.keeps_arrivals or train.standing:
            self._settle_arrivals(train, offset, offset + len(course.granted[-1]))
        else:
            self.received += course.received_bytes
            self._settle_arrival(train, message.packets - train.first - 1, course.granted[-1][-1])
        self._settle_queue(train, len(train.standing) + message.packets - train.first, tick)

    def _settle_link(self, train: Train, hop: int, offset: int, stop: int) -> None:
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

    def _legs(self, train: Train, hop: int, first: int, stop: int) -> list[tuple[Leg, int]]:
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
        self, train: Train, hop: int, offsets: Sequence[int], counts: Sequence[int], tick: int
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

    def _settle_arrivals(self, train: Train, offset: int, stop: int) -> None:
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
                message.put_off()

    def _settle_arrival(self, train: Train, place: int, time: int) -> None:
        """Note the arrival of a packet; a message that a gate waits for was announced before."""
        message, number = train.packet(place)
        leg = message.legs_of(number)[-1]
        arrival = train.start + time + leg.tail + leg.flight
        if self.keeps_arrivals:
            self.arrivals[message.number].append(arrival)
        if number == message.packets - 1 and self.gate(message.number) == NO_GATE:
            self.finish(arrival)

    def _settle_queue(self, train: Train, stop: int, tick: int) -> None:
        """Leave those packets of a train in the queue before its first link that stand there."""
        message = train.message
        leg, entered = message.legs[0], stop - len(train.standing)
        self.sent += sum(
            leg.size_bytes * n for leg, n in self._legs(train, 0, len(train.standing), stop)
        )
        message.sent = train.first + entered
        message.try_later()
        if message.sent == message.packets:
            self.queues[leg.link].popleft()
        self.next_of_queue(leg.link, tick)
        if message.sent < message.packets:
            self._settle_since(train, 0, entered, tick)

    def _settle_since(self, train: Train, hop: int, taken: int, tick: int) -> None:
        """Note since when the next packet has waited for a slot."""
        asked = train.start + train.course.asked[hop][taken]
        if asked < tick:
            self.since[train.message.legs[hop].link] = asked

    def _settle_fifo(
        self, train: Train, hop: int, offsets: Sequence[int], counts: Sequence[int], tick: int
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
            fifo.append(Packet(message, number, legs, hop, legs[hop], entered, ready))
        if fifo:
            self.ask(fifo[0], self.place[before.buffer], self.readable[before.buffer], tick)
            self._settle_since(train, hop, counts[hop] - offsets[hop], tick)
