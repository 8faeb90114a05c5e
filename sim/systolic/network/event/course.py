"""The course of a train: the times of packets of one route that meet nobody.

On a route that nobody else uses the times of all packets follow from the state of its links: packet
after packet, link after link, a grant is the latest of three times: the packet asks, the wire is
free, a slot is free. If the state comes back the same but for a shift in time, the rest is that
stretch of packets over and over. Times are relative to the start of the train, so that a state that
was seen before costs nothing.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from systolic.network.event.legs import Legs, edge

FEWEST_PACKETS = 16
"""Fewer packets are not worth a train."""
LOOKED_AT = 4096
"""Packets after which the state is not compared any more."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A packet of the route that is under way: the link that it asks for next, and from when on."""

    hop: int
    ready: int
    legs: Legs


@dataclass(eq=False, slots=True)
class Start:
    """The state of a route when a train starts, relative to that time; nothing is before 0.

    free: by hop, when the wire is free. readable: by hop, when the FIFO before it may be read.
    slots: by hop, the free slots at its far end; releases: when taken ones become free, in order.
    standing: packets under way, the first the furthest. whole: packets that enter with the legs
    `legs`. has_last: whether a packet with the legs `last` follows. phase: the tick of the start,
    as the clocks of the route see it.
    """

    legs: Legs
    last: Legs
    has_last: bool
    whole: int
    free: tuple[int, ...]
    readable: tuple[int, ...]
    slots: tuple[int, ...]
    releases: tuple[tuple[int, ...], ...]
    standing: tuple[Standing, ...]
    phase: int

    def key(self) -> object:
        """Return what the course depends on; legs, which are made once, stand for themselves."""
        return (
            id(self.legs),
            id(self.last),
            self.whole,
            self.free,
            self.readable,
            self.slots,
            self.releases,
            tuple((each.hop, each.ready, id(each.legs)) for each in self.standing),
            self.phase,
        )


@dataclass(slots=True)
class TrainCourse:
    """The times of a train. By hop: when each packet that takes it asks (with the wire free), and
    when it is granted; the first entries are the packets that stood before that hop or earlier.

    blocked: by hop, before each packet, the ticks for which earlier ones waited for a slot alone.
    flits: by hop, of all packets. end: when all slots at the last hop are free again.
    """

    asked: list[list[int]]
    granted: list[list[int]]
    blocked: list[list[int]] = field(default_factory=list)
    flits: list[int] = field(default_factory=list)
    received_bytes: int = 0
    end: int = 0


class Runner:
    """Computes the course of one train."""

    def __init__(self, start: Start) -> None:
        self.start, self.hops = start, len(start.legs)
        self.free, self.readable = list(start.free), list(start.readable)
        self.slots = list(start.slots)
        self.releases = [list(each) for each in start.releases]
        self.course = TrainCourse([[] for _ in start.legs], [[] for _ in start.legs])

    def run(self) -> TrainCourse:
        """Return the course of all packets."""
        start = self.start
        for each in start.standing:
            self._packet(each.legs, each.hop, each.ready)
        self._whole_packets(start.whole)
        if start.has_last:
            self._packet(start.last, 0, 0)
        self._sum_up()
        return self.course

    def _sum_up(self) -> None:
        """Note what the whole train comes to."""
        start, course = self.start, self.course
        course.end = max(self.releases[-1])
        own = (*(each.legs for each in start.standing), *((start.last,) * start.has_last))
        for hop, leg in enumerate(start.legs):
            taken = sum(each.legs[hop].flits for each in start.standing if each.hop <= hop)
            last = start.last[hop].flits if start.has_last else 0
            course.flits.append(taken + start.whole * leg.flits + last)
        course.received_bytes = start.whole * start.legs[-1].size_bytes
        course.received_bytes += sum(legs[-1].size_bytes for legs in own)
        for asked, granted in zip(self.course.asked, self.course.granted, strict=True):
            total, sums = 0, [0]
            for ask, grant in zip(asked, granted, strict=True):
                total += grant - ask
                sums.append(total)
            self.course.blocked.append(sums)

    def _packet(self, legs: Legs, hop: int, ready: int) -> None:
        """Send a packet from a hop on; a packet that enters comes by no buffer."""
        phase, comes_by = self.start.phase, hop > 0
        for place in range(hop, self.hops):
            leg = legs[place]
            asked = max(ready, self.free[place], self.readable[place])
            asked = edge(asked + phase, leg.period) - phase
            granted = self._with_slot(place, asked, leg.period)
            self.course.asked[place].append(asked)
            self.course.granted[place].append(granted)
            self.free[place] = self.readable[place] = granted + leg.wire
            if comes_by:
                release = granted + leg.tail + legs[place - 1].credit
                heapq.heappush(self.releases[place - 1], release)
            ready, comes_by = granted + leg.flight + leg.wait, True
        last = legs[-1]
        heapq.heappush(self.releases[-1], granted + last.tail + last.flight + last.credit)

    def _with_slot(self, place: int, asked: int, period: int) -> int:
        """Take a slot; return when it is there, for a packet that asks in tick `asked`."""
        releases = self.releases[place]
        while releases and releases[0] <= asked:
            heapq.heappop(releases)
            self.slots[place] += 1
        if self.slots[place]:
            self.slots[place] -= 1
            return asked
        phase = self.start.phase
        return max(asked, edge(heapq.heappop(releases) + phase, period) - phase)

    def _whole_packets(self, count: int) -> None:
        """Send packets that enter; once the state repeats, repeat the times of that stretch."""
        legs, seen = self.start.legs, dict[object, int]()
        for number in range(count):
            self._packet(legs, 0, 0)
            left = count - number - 1
            if not left or number >= LOOKED_AT:
                continue
            state = self._state()
            if state in seen:
                stretch = number - seen[state]
                done = left // stretch * stretch
                self._repeat(stretch, done)
                for _ in range(left - done):
                    self._packet(legs, 0, 0)
                return
            seen[state] = number

    def _state(self) -> object:
        """Return the state as seen from the last packet that entered: what still matters of it."""
        now = self.course.granted[0][-1]
        cycle = self.start.phase + now
        return (
            tuple(max(0, each - now) for each in self.free),
            tuple(max(0, each - now) for each in self.readable),
            tuple(
                slots + sum(each <= now for each in releases)
                for slots, releases in zip(self.slots, self.releases, strict=True)
            ),
            tuple(
                tuple(sorted(each - now for each in releases if each > now))
                for releases in self.releases
            ),
            tuple(cycle % leg.period for leg in self.start.legs),
        )

    def _repeat(self, stretch: int, count: int) -> None:
        """Add packets with the times of the last stretch, shifted once for each stretch."""
        if not count:
            return
        granted = self.course.granted[0]
        shift = granted[-1] - granted[-1 - stretch]
        rounds = count // stretch
        for times in (*self.course.asked, *self.course.granted):
            pattern = times[-stretch:]
            times += [each + n * shift for n in range(1, rounds + 1) for each in pattern]
        moved = rounds * shift
        self.free = [each + moved for each in self.free]
        self.readable = [each + moved for each in self.readable]
        self.releases = [[each + moved for each in releases] for releases in self.releases]
