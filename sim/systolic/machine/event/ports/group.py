"""Streams that may meet at a port, directly or through others, and how long a decision holds.

What happens in a group depends on no other group. So a group is decided again when it changes, or
when what was decided of it is over, however many decisions others need.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from systolic.machine.event.ports.course import PlacedCourse
from systolic.machine.event.ports.meeting import first_meeting
from systolic.machine.event.ports.rounds import Contest, contest_of
from systolic.machine.event.ports.stream import Stream, by_rank


class _Link:
    """Two streams that may depend on one another, and when they first meet, as far as is known.

    shares_port: they may both use one. tick: the first at which their courses, `mine` and `its`,
    use one port.
    """

    def __init__(self, one: Stream, other: Stream) -> None:
        self.one, self.other = one, other
        self.shares_port = bool(one.mask & other.mask)
        self.mine: PlacedCourse | None = None
        self.its: PlacedCourse | None = None
        self.tick = -1

    def meeting(self, mine: PlacedCourse, its: PlacedCourse, now: int) -> int:
        """Return the first tick, not before `now`, at which these courses use one port."""
        if self.tick <= now or self.mine is not mine or self.its is not its:
            self.mine, self.its = mine, its
            self.tick = first_meeting(mine, its, now)
        return self.tick


_Links = dict[Stream, dict[Stream, _Link]]


class PortGroup:
    """Streams that may meet, and what is known of them.

    streams: by their ranks. until: the tick from which on they are to be decided again. has_lost: a
    stream has left, so that others may meet no more; it is split before it is decided again. mask,
    wide_mask: of all its streams. has_course, has_rounds: all its streams have; rounds are of one
    clock. settling: those that settle ports. needs_arbiter: one of them does not.
    contests: what was decided of some of them so far (`rounds`).

    Args:
        links: by stream, its pairs with streams where one may depend on the other.

    """

    def __init__(self, links: _Links, until: int, contests: Iterable[Contest] = ()) -> None:
        self.streams, self.until = sorted(links, key=by_rank), until
        self.has_lost = False
        self.mask = self.wide_mask = 0
        self.has_course = self.has_rounds = True
        self.needs_arbiter = False
        self.settling: list[Stream] = []
        for stream in self.streams:
            self.mask |= stream.mask
            self.wide_mask |= stream.wide_mask
            self.has_course &= stream.has_course
            self.has_rounds &= stream.has_rounds and stream.period == self.streams[0].period
            self.needs_arbiter |= stream.needs_arbiter
            if stream.settles_ports:
                self.settling.append(stream)
        self.contests = [each for each in contests if not each.streams.isdisjoint(links)]
        self._links = links

    @classmethod
    def joined_by(
        cls, stream: Stream, related: Iterable[Stream], groups: Iterable[PortGroup], now: int
    ) -> PortGroup:
        """Return the group of a stream that comes, to be decided now.

        related: what may depend on it, streams that stand alone and streams of the groups, which
        become one by it.
        """
        links: _Links = {}
        contests: list[Contest] = []
        for group in groups:
            links.update(group._links)
            contests += group.contests
        mine = links[stream] = {}
        for other in related:
            mine[other] = links.setdefault(other, {})[stream] = _Link(stream, other)
        return cls(links, now, contests)

    def lose(self, stream: Stream) -> None:
        """Take out a stream that has ended."""
        self.streams.remove(stream)
        self.has_lost = True
        for other in self._links.pop(stream):
            del self._links[other][stream]

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

    def split(self) -> list[PortGroup]:
        """Return the groups into which it falls without the streams that have left."""
        rest, parts = dict.fromkeys(self.streams), list[PortGroup]()
        while rest:
            part: _Links = {}
            reached = [next(iter(rest))]
            while reached:
                stream = reached.pop()
                if stream in rest:
                    del rest[stream]
                    part[stream] = self._links[stream]
                    reached += part[stream]
            parts.append(PortGroup(part, self.until, self.contests))
        return parts

    def first_meeting(self, streams: Collection[Stream], now: int, until: int) -> int:
        """Return when two of some of its streams meet first, if nothing refuses them.

        `until` is the latest tick that is asked for.
        """
        placed = {stream: stream.course() for stream in streams}
        for one, mine in placed.items():
            for other, link in self._links[one].items():
                if until <= now:
                    return until
                if link.one is one and link.shares_port and other in placed:
                    tick = link.meeting(mine, placed[other], now)
                    if tick < until:
                        until = tick
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
