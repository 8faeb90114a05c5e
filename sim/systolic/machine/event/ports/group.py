"""Streams that may meet at a port, directly or through others, and how long a decision holds.

What happens in a group depends on no other group. So a group is decided again when it changes, or
when what was decided of it is over, however many decisions others need.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import combinations
from typing import NamedTuple

from systolic.machine.event.ports.course import Course, PlacedCourse
from systolic.machine.event.ports.meeting import first_meeting
from systolic.machine.event.ports.rounds import Contest, contest_of
from systolic.machine.event.ports.stream import Stream, by_rank


class _Meeting(NamedTuple):
    """The first tick at which two courses use one port."""

    one: PlacedCourse
    other: PlacedCourse
    tick: int


UNKNOWN = _Meeting(PlacedCourse(Course({}), 0), PlacedCourse(Course({}), 0), -1)


class PortGroup:
    """Streams that may meet, and what is known of them.

    streams: by their ranks. until: the tick from which on they are to be decided again. has_lost: a
    stream has left, so that others may meet no more; it is split before it is decided again. mask,
    wide_mask: of all its streams. has_course, has_rounds: all its streams have. settling: those
    that settle ports.
    contests: what was decided of some of them so far (`rounds`).
    """

    def __init__(self, streams: list[Stream], until: int, parts: Iterable[PortGroup] = ()) -> None:
        self.streams, self.until = sorted(streams, key=by_rank), until
        self.has_lost = False
        self.mask = self.wide_mask = 0
        self.has_course = self.has_rounds = True
        self.settling: list[Stream] = []
        for stream in streams:
            self.mask |= stream.mask
            self.wide_mask |= stream.wide_mask
            self.has_course &= stream.has_course
            self.has_rounds &= stream.has_rounds
            if stream.settles_ports:
                self.settling.append(stream)
        self.contests: list[Contest] = []
        self._meetings: dict[tuple[Stream, Stream], _Meeting] = {}
        """Of all pairs that share a port, in the order of their ranks."""
        known: dict[tuple[Stream, Stream], _Meeting] = {}
        for part in parts:
            self.contests += [
                each for each in part.contests if not each.streams.isdisjoint(streams)
            ]
            known |= part._meetings
        for pair in combinations(self.streams, 2):
            if pair[0].mask & pair[1].mask:
                self._meetings[pair] = known.get(pair, UNKNOWN)

    def lose(self, stream: Stream) -> None:
        """Take out a stream that has ended."""
        self.streams.remove(stream)
        self.has_lost = True
        self._meetings = {p: met for p, met in self._meetings.items() if stream not in p}

    def holds_until(self, tick: int) -> None:
        """Note that what was decided of it holds until a tick."""
        self.until = tick

    def compete(self, *, in_rounds: bool) -> Contest | None:
        """Return the contest of its streams if they are decided in rounds; others dissolve."""
        known, self.contests = self.contests, []
        if in_rounds:
            self.contests = [contest_of(self.streams, known)]
            return self.contests[0]
        for contest in known:
            contest.dissolve()
        return None

    def split(self, are_related: Callable[[Stream, Stream], bool]) -> list[PortGroup]:
        """Return the groups into which it falls without the streams that have left."""
        parts: list[list[Stream]] = []
        for stream in self.streams:
            met = [part for part in parts if any(are_related(stream, other) for other in part)]
            parts = [part for part in parts if part not in met]
            parts.append([*(other for part in met for other in part), stream])
        return [PortGroup(part, self.until, [self]) for part in parts]

    def first_meeting(self, streams: Collection[Stream], now: int, until: int) -> int:
        """Return when two of some of its streams meet first, if nothing refuses them.

        `until` is the latest tick that is asked for.
        """
        placed = {stream: stream.course() for stream in streams}
        for pair, known in self._meetings.items():
            one, other = pair
            if until <= now or one not in placed or other not in placed:
                continue
            mine, its = placed[one], placed[other]
            if known.tick <= now or known.one is not mine or known.other is not its:
                known = _Meeting(mine, its, first_meeting(mine, its, now))
                self._meetings[pair] = known
            if known.tick < until:
                until = known.tick
        return until


def may_meet(one: Stream, other: Stream, *, is_split: bool) -> bool:
    """Return whether no partitions keep two streams apart that share a port.

    Partitions do between instructions of one unit, and everywhere in a state buffer that is split.
    """
    if (one.unit, one.client) != (other.unit, other.client):
        if not is_split:
            return True
        return any(
            a.meets(b) or (a.port == b.port and not a.port.is_of_partitions)
            for a in one.reach()
            for b in other.reach()
        )
    if not any(a.meets(b) for a in one.reach() for b in other.reach()):
        return False  # most pairs: lanes of their own from first to last
    return any(
        a.meets(b)
        for mine in one.timeline
        for theirs in other.timeline
        for a in mine.needs
        for b in theirs.needs
    )
