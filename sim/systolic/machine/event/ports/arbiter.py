"""Twin of `register.ports.ports`: decides at the end of a tick which streams advance, how long.

A stream that can meet no other one is let go until its end, and not looked at before.
As long as no two streams can want the same port, a decision holds until one of them ends: one
event for any number of cycles. Where they can, a decision holds for a stretch of constant needs,
or, between units of different clocks, for one cycle. Decisions between queues with equal
descriptors repeat in rounds (`rounds`). The outcome is that of stepping each cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import combinations
from operator import or_
from typing import NamedTuple

import simpy

from systolic.isa import Buffer
from systolic.machine.event.ports.beats import Beats, stretch
from systolic.machine.event.ports.edges import edges_that_count, next_edge
from systolic.machine.event.ports.meeting import NEVER, Course, first_meeting, taken_until
from systolic.machine.event.ports.ports import Need, Needs, Port, mask_of
from systolic.machine.event.ports.rounds import Contest, contests_of
from systolic.machine.event.ports.stream import Granted, Lost, ShareOfBytes, Stream
from systolic.machine.event.ticks import DECIDE, SETTLED, TickEnvironment

Taken = dict[Port, list[tuple[Need, str, str]]]


class Hold:
    """Ports of PSUM that sums in flight take; they follow a multiply and are never refused.

    silent: accesses of the multiply, from its first on, whose vectors leave no sums.
    """

    client = "moving"

    def __init__(
        self, stream: Stream, needs: tuple[Need, ...], behind: int, width: int, *, silent: int = 0
    ) -> None:
        self._stream, self.needs, self.mask = stream, needs, mask_of(needs)
        self._silent = silent
        self._behind, self._width = behind, width
        self._end: int | None = None
        self._over = 0

    def uses(self) -> Iterator[Beats]:
        """Yield when the ports are held, as far as known, in the order of time."""
        return filter(None, map(self._behind_run, self._stream.runs()))

    def _behind_run(self, run: Granted) -> Beats | None:
        """Return when the ports are held by the sums of a run; None if it leaves none."""
        stream, width = self._stream, self._width
        step, period = stream.spacing, stream.period
        first = max(-(-run.slot // step), self._silent)
        count = min(-(-(run.slot + run.slots) // step), stream.timeline.slots) - first
        if count <= 0:
            return None
        begin = run.tick + (first * step - run.slot + self._behind) * period
        if step <= width:
            return stretch(begin, begin + ((count - 1) * step + width) * period)
        return Beats(begin, width * period, step * period, count)

    def state(self, tick: int) -> tuple[bool, int | None]:
        """Return whether the ports are held at `tick`, and the tick at which that may change.

        To be asked in the order of time: runs whose sums have left are not looked at again.
        """
        last = max(0, len(self._stream.progress) - 1)
        for number, run in enumerate(self._stream.runs(self._over), self._over):
            uses = self._behind_run(run)
            if uses and (near := uses.near(tick)):
                self._over = min(number, last)
                first, stop = near
                return (True, stop) if first <= tick else (False, first)
        self._over = last
        return False, None

    def over(self, tick: int) -> bool:
        """Return whether nothing will be held from `tick` on."""
        if not self._stream.done(tick):
            return False
        if self._end is None:
            self._end = max((uses.stop for uses in self.uses()), default=0)
        return self._end <= tick


class _Meeting(NamedTuple):
    """The first tick at which two courses use one port."""

    one: Course
    other: Course
    tick: int

    def of(self, one: Course, other: Course) -> bool:
        """Return whether it is the meeting of these courses."""
        return self.one is one and self.other is other


class Arbiter:
    """All streams that are under way, and the one place where ports are given.

    is_split: each partition of the state buffer has ports of its own.
    """

    def __init__(self, env: TickEnvironment, *, is_split: bool) -> None:
        self._env = env
        self._is_split = is_split
        self._streams: list[Stream] = []
        self._settling: list[Stream] = []
        self._holds: list[Hold] = []
        self._meetings: dict[tuple[Stream, Stream], _Meeting] = {}
        self._deciding = False
        self._wake_at: int | None = None
        self._advanced_at = -1
        self._scheduled: set[int] = set()
        self._holders_changed = False
        self._contended: set[Stream] | None = None
        self._contests: list[Contest] = []
        self._free_until: dict[Stream, int] = {}
        """Streams that no other can hinder, and until when. They are not looked at before."""

    def add(self, stream: Stream, *, asks_last: bool = False) -> None:
        """Let a stream ask for its first slot in the present tick."""
        stream.begin(self._env.tick)
        if asks_last:
            stream.ask_last()
        if stream.holdings:
            self._holders_changed = True
        if self._shares_ports(stream):
            self._contended = None
        self._streams.append(stream)
        if stream.settles_ports:
            self._settling.append(stream)
        self.touch()

    def hold(self, hold: Hold) -> None:
        """Register PSUM ports that follow a multiply."""
        if any(hold.mask & stream.mask for stream in self._streams):
            self._contended = None
        self._forget_holds()
        self._holds.append(hold)

    def _forget_holds(self) -> None:
        """Forget the ports of sums that have left."""
        now = self._env.tick
        self._holds = [hold for hold in self._holds if not hold.over(now)]

    def _shares_ports(self, stream: Stream) -> bool:
        """Return whether a stream may need a port of other streams, or of sums."""
        mask = stream.mask
        if any(mask & other.mask for other in self._streams):
            return True
        return any(mask & hold.mask for hold in self._holds)

    def touch(self) -> None:
        """Have the present tick decided (again) when all units have acted in it."""
        if not self._deciding:
            self._deciding = True
            self._env.at_end_of_tick(DECIDE).callbacks.append(self._decide)

    def settled(self) -> simpy.Event:
        """Return an event that comes after the present tick has been decided."""
        self.touch()
        return self._env.at_end_of_tick(SETTLED)

    def _decide(self, _: simpy.Event) -> None:
        self._deciding = False
        self._wake_at = self._decide_now()
        while self._wake_at is not None and self._env.skip_to(self._wake_at):
            self._wake_at = self._decide_now()
        if self._wake_at is not None:
            self._wake(self._wake_at)

    def _decide_now(self) -> int | None:
        """Decide the present tick; return when to decide again, if ever."""
        self.advance()
        now = self._env.tick
        if self._holders_changed:
            self._share_bandwidths()
        if self._contended is None or self._settling:
            self._forget_holds()
            self._contended = self._find_contended()  # those that settle are to be told each time
            self._contests = contests_of(self._find_contests(self._contended), self._contests)
            for stream in self._contended:
                self._look_at(stream, now)
        contended, free = self._contended, self._free_until
        for stream in self._streams:
            if stream not in free and stream not in contended:
                self._let_go(stream, now)
        if not contended and not self._settling:
            return min(free.values(), default=None)
        return self._decide_between(contended, now)

    def _decide_between(self, contended: set[Stream], now: int) -> int | None:
        """Decide between streams that may meet, or settle that; return when to decide again."""
        settled, changes = self._settled_in_rounds(now)
        if open_ones := contended - settled:
            changes.append(self._arbitrate(open_ones, now))
            for contest in self._contests:
                if not contest.streams <= settled:
                    contest.note(now)
        changes += self._free_until.values()
        for stream in self._settling:
            if stream not in settled and (stream.granted or stream not in contended):
                ahead = stream.remaining() * stream.period if stream.granted else 0
                changes.append(stream.tick + ahead)
        return min(changes, default=None)

    def _let_go(self, stream: Stream, now: int) -> None:
        """Let a stream advance that no other can hinder, from its present cycle on."""
        if stream.tick == now:
            stream.grant()
        if not stream.settles_ports:  # how far those come depends on one another
            ahead = stream.remaining() * stream.period if stream.granted else 0
            self._free_until[stream] = stream.tick + ahead

    def _look_at(self, stream: Stream, now: int) -> None:
        """Bring a stream up to now that was free and is so no more, or not as long."""
        if self._free_until.pop(stream, now) > now:
            stream.advance(now)

    def _settled_in_rounds(self, now: int) -> tuple[set[Stream], list[int]]:
        """Return the streams of contests that rounds settle, and until when each does."""
        settled: set[Stream] = set()
        until: list[int] = []
        for contest in self._contests:
            if (stop := contest.settled_until(now)) is not None:
                settled |= contest.streams
                until.append(stop)
        return settled, until

    def _share_bandwidths(self) -> None:
        """Tell each DMA copy, in the order of the queues, which shares it holds of what."""
        self._holders_changed = False
        holders = sorted([s for s in self._streams if s.holdings], key=lambda s: s.rank)
        total = dict[str, int]()
        for stream in holders:
            for pool, held in stream.holdings:
                total[pool] = total.get(pool, 0) + held
        dealt = dict.fromkeys(total, 0)
        for stream in holders:
            shares = dict[str, ShareOfBytes]()
            for pool, held in stream.holdings:
                shares[pool] = ShareOfBytes(dealt[pool], held, total[pool])
                dealt[pool] += held
            if stream.set_shares(shares):
                self._free_until.pop(stream, None)  # it ends at another tick
                if self._contended:
                    self._contended = None  # what repeated does so no more

    def _wake(self, tick: int) -> None:
        """Look again at a tick, unless that is arranged already or overtaken by then."""
        if tick not in self._scheduled:
            self._scheduled.add(tick)
            self._env.at_end_of_tick(DECIDE, tick).callbacks.append(self._woken)

    def _woken(self, event: simpy.Event) -> None:
        self._scheduled.discard(self._env.tick)
        if self._wake_at == self._env.tick and not self._deciding:
            self._decide(event)

    def advance(self) -> None:
        """Bring all streams up to now, and finish the streams that are at their end."""
        now, free, ended = self._env.tick, self._free_until, list[Stream]()
        if now == self._advanced_at:
            return  # nothing has moved since the decision before
        self._advanced_at = now
        for stream in [each for each in self._streams if free.get(each, now) <= now]:
            free.pop(stream, None)
            if stream.tick < now:
                stream.advance(now)
            if stream.done(now):
                ended.append(stream)
        if ended:
            self._take_away({*ended})
        for stream in ended:
            stream.finish()

    def _take_away(self, ended: set[Stream]) -> None:
        """Decide no more for streams that have ended."""
        self._streams = [stream for stream in self._streams if stream not in ended]
        if self._contended and not self._contended.isdisjoint(ended):
            self._contended = None
        elif self._contended and self._holds:
            before = self._holds
            self._forget_holds()
            if len(self._holds) < len(before):
                self._contended = None
        if self._settling:
            self._settling = [stream for stream in self._settling if stream not in ended]
        if self._meetings:
            self._forget_meetings(ended)
        self._holders_changed |= any(stream.holdings for stream in ended)

    def _forget_meetings(self, ended: set[Stream]) -> None:
        kept = {pair: met for pair, met in self._meetings.items() if ended.isdisjoint(pair)}
        self._meetings = kept

    def _find_contests(self, contended: set[Stream]) -> list[frozenset[Stream]]:
        """Return the groups of contended streams that meet only each other, and in rounds."""
        held = 0
        for hold in self._holds:
            held |= hold.mask
        return [
            group
            for group in _groups(contended, is_split=self._is_split)
            if all(s.has_rounds and not s.mask & held for s in group)
        ]

    def _find_contended(self) -> set[Stream]:
        once = twice = held = 0
        for stream in self._streams:
            twice |= once & stream.mask
            once |= stream.mask
        for hold in self._holds:
            held |= hold.mask
        contended = {s for s in self._streams if s.mask & held} if once & held else set()
        if twice:
            shared = [stream for stream in self._streams if stream.mask & twice]
            contended |= _meeting(shared, contended, is_split=self._is_split)
        elif contended:
            _settle_ports(self._streams, contended)
        return contended

    def _arbitrate(self, contended: set[Stream], now: int) -> int:
        """Decide this tick among streams that may meet; return when to decide again."""
        taken: Taken = {}
        wanted = 0
        for stream in contended:
            wanted |= stream.mask
        holds = [hold for hold in self._holds if hold.mask & wanted]
        for hold in holds:
            _take_hold(taken, hold, now)
        changes: list[int] = []
        is_for_now = False
        refused: dict[Stream, Needs] = {}
        for stream in contended:
            if stream.tick > now and stream.granted:
                _take(taken, stream, stream.needs_in_progress())
            is_for_now |= not stream.granted and stream.tick > now
        ready = [s for s in contended if s.tick == now]
        for stream in sorted(ready, key=lambda s: (s.asks_last_at == now, s.rank)):
            needs, slots = stream.needs()
            if lost := self._first_refused(taken, stream, needs):
                stream.refuse(lost)
                refused[stream] = needs
                if (same := stream.patience()) is not None:
                    changes.append(now + same * stream.period)
            else:
                stream.grant()
                _take(taken, stream, needs)
                changes.append(now + slots * stream.period)
            if stream.asks_last_at == now:
                changes.append(now + stream.period)
                is_for_now = True  # in the next cycle it has another place in the line
        # Only now is it known whether the multiplies go on.
        of_holds = [t for hold in holds if (t := hold.state(now)[1]) is not None]
        changes += of_holds
        if len({s.period for s in contended}) > 1 or len(ready) < len(contended):
            if self._is_split or self._contests or any(s.settles_ports for s in contended):
                changes += [next_edge(s, now) for s in contended]
            else:
                held = reduce(or_, (hold.mask for hold in holds if hold.state(now)[0]), 0)
                last = [now + s.period for s in ready if s.asks_last_at == now]
                return min([*edges_that_count(contended, now, held), *of_holds, *last])
            is_for_now |= bool(refused)
        soon = min(changes)
        if is_for_now or not self._is_split or not all(s.has_course for s in contended):
            return soon
        # A decision may last beyond `soon`: until a stream that was granted ends at the longest.
        granted = [s for s in contended if s not in refused]
        waits = [now + n * s.period for s in refused if (n := s.patience()) is not None]
        ends = min([*waits, *(s.tick + s.remaining() * s.period for s in granted)], default=soon)
        if ends <= soon:
            return soon
        wanted_in_vain = {need for needs in refused.values() for need in needs}
        return max(soon, self._undisturbed_until(granted, wanted_in_vain, holds, now, ends))

    def _undisturbed_until(
        self, granted: list[Stream], refused: set[Need], holds: list[Hold], now: int, ends: int
    ) -> int:
        """Return a tick, `ends` at the latest, until which nothing decided now changes.

        Until then none of the streams that were granted can be refused, and what others wanted in
        vain stays taken by the same streams. refused: the needs of those.
        """
        until = ends
        for hold in holds:
            held, change = hold.state(now)
            if held and any(hold.mask & mask for mask in _masks(granted, refused)):
                return now
            until = min(until, change or NEVER)
        for one, other in combinations(sorted(granted, key=lambda s: s.rank), 2):
            if until > now and one.mask & other.mask:
                until = min(until, self._meeting(one, other, now))
        for stream in granted if refused else ():
            for need in refused:
                if until > now and stream.mask & mask_of((need,)):
                    until = min(until, _taken_alike_until(stream, need, now, until))
        return until

    def _meeting(self, one: Stream, other: Stream, now: int) -> int:
        """Return when two streams meet first, as known since it was asked last, or found now."""
        a, b, known = one.course(), other.course(), self._meetings.get((one, other))
        if known and known.of(a, b) and known.tick > now:
            return known.tick
        found = _Meeting(a, b, first_meeting(a, b, now))
        self._meetings[one, other] = found
        return found.tick

    def _first_refused(self, taken: Taken, stream: Stream, needs: Needs) -> Lost | None:
        """Return the first need that another has; of partitions of their own the lowest."""
        for need in needs:
            if self._is_split and need.port.is_of_partitions:
                met = [(o.first, c) for o, _, c in taken.get(need.port, ()) if need.meets(o)]
                if met:
                    first, client = min(met)
                    return Lost(need.port, client, max(need.first, first))
                continue
            for other, unit, client in taken.get(need.port, ()):
                in_flight = unit == "pe_array" and need.port.buffer == Buffer.RESULT
                mine = (unit, client) == (stream.unit, stream.client)
                own_lane = mine and not need.meets(other)
                if not (own_lane or (in_flight and unit == stream.unit)):
                    return Lost(need.port, client)
        return None


def _masks(streams: Iterable[Stream], needs: Iterable[Need]) -> Iterator[int]:
    """Yield the ports of streams and of needs as masks."""
    yield from (stream.mask for stream in streams)
    yield mask_of(tuple(needs))


def _taken_alike_until(stream: Stream, need: Need, now: int, until: int) -> int:
    """Return until when a stream, granted now, keeps what is needed from others, or leaves it.

    `until` is the latest tick asked for. `now` is returned where that cannot be told.
    """
    if not need.port.is_of_partitions:
        return now
    taken, change = taken_until(stream.course(), need, now, until)
    return now if taken and not stream.course_is_exact else change


def _groups(contended: set[Stream], *, is_split: bool) -> list[frozenset[Stream]]:
    """Return streams that may meet, directly or through others, as one group each."""
    groups: list[frozenset[Stream]] = []
    for stream in contended if any(stream.has_rounds for stream in contended) else ():
        met = [g for g in groups if any(_may_meet(stream, s, is_split=is_split) for s in g)]
        groups = [*(g for g in groups if g not in met), frozenset([stream]).union(*met)]
    return groups


def _take(taken: Taken, stream: Stream, needs: tuple[Need, ...]) -> None:
    for need in needs:
        taken.setdefault(need.port, []).append((need, stream.unit, stream.client))


def _take_hold(taken: Taken, hold: Hold, now: int) -> None:
    if hold.state(now)[0]:
        for need in hold.needs:
            taken.setdefault(need.port, []).append((need, "pe_array", hold.client))


def _meeting(shared: list[Stream], contended: set[Stream], *, is_split: bool) -> set[Stream]:
    """Return the streams between which the arbiter must decide.

    Some streams, those of DRAM copies with bursts, settle among themselves which of them has a
    port. The arbiter leaves that to them while they meet no other stream. When one of them may also
    meet a stream of another kind, say an engine's, the arbiter decides between all of them.
    """
    pairs = [pair for pair in combinations(shared, 2) if _may_meet(*pair, is_split=is_split)]
    own = {s for s in shared if s.settles_ports}
    found = contended.union(*(pair for pair in pairs if not own.issuperset(pair)))
    among_themselves = _settle_ports([*own, *contended], found)
    return found if among_themselves else found.union(*pairs)


def _settle_ports(streams: Iterable[Stream], contended: set[Stream]) -> bool:
    """Say whether streams that may settle among themselves which has a port do so, and tell them.

    They do as long as they meet no other stream, nor sums that hold a port.
    """
    own = {stream for stream in streams if stream.settles_ports}
    among_themselves = own.isdisjoint(contended)
    for stream in own:
        stream.settle_ports(among_themselves=among_themselves)
    return among_themselves


def _may_meet(one: Stream, other: Stream, *, is_split: bool) -> bool:
    """Return whether two streams share a port and no partitions keep them apart there.

    Partitions do between instructions of one unit, and everywhere in a state buffer that is split.
    """
    if not one.mask & other.mask:
        return False
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
