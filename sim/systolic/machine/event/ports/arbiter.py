"""Twin of `register.ports.ports`: decides at the end of a tick which streams advance, how long.

A stream that can meet no other one is let go until its end, and not looked at before. Streams that
may meet are a group, which is decided by itself. As long as no two of them can want the same port,
a decision holds until they do: no event for any number of cycles. Else it holds for a stretch of
constant needs, or, between units of different clocks, for one cycle. Decisions between queues with
equal descriptors repeat in rounds (`rounds`). The outcome is the same as of stepping each cycle.

Of most streams nothing but records follows from their end: they are finished when the arbiter is
called the next time, without an event of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_

import simpy

from systolic.machine.event.ports.edges import edges_that_count, next_edge
from systolic.machine.event.ports.group import PortGroup, may_meet
from systolic.machine.event.ports.hold import Hold
from systolic.machine.event.ports.meeting import NEVER, taken_until
from systolic.machine.event.ports.ports import Need, Needs, Port, mask_of, number_of
from systolic.machine.event.ports.shares import dealt
from systolic.machine.event.ports.stream import Stream, by_rank
from systolic.machine.event.ports.taken import TakenPorts
from systolic.machine.event.ticks import DECIDE, SETTLED, TickEnvironment


class Arbiter:
    """All streams that are under way, and the one place where ports are given.

    is_split: each partition of the state buffer has ports of its own.
    """

    def __init__(self, env: TickEnvironment, *, is_split: bool) -> None:
        self._env = env
        self._is_split = is_split
        self._holds: list[Hold] = []
        self._groups: list[PortGroup] = []
        self._alone: dict[Stream, None] = {}
        """Streams that no other can hinder."""
        self._ends: dict[Stream, int] = {}
        """Streams that were granted all to come, as far as is known, and the tick behind it."""
        self._awaited: dict[Stream, int] = {}
        """Those of them that stand alone and something depends on whose end."""
        self._first_end = NEVER
        self._unforeseen: list[Stream] = []
        """Streams that came alone in this tick, and whose shares of bandwidths are not known."""
        self._holders: list[Stream] = []
        self._holders_changed = False
        self._deciding = False
        self._wake_at: int | None = None
        self._scheduled: set[int] = set()

    def has_partitions(self, port: Port) -> bool:
        """Return whether each partition has a port of its own here."""
        return self._is_split and port.is_of_partitions

    def may_meet(self, one: Stream, other: Stream) -> bool:
        """Return whether no partitions keep two streams apart that share a port."""
        return may_meet(one, other, is_split=self._is_split)

    def is_split_for(self, streams: Sequence[Stream]) -> bool:
        """Return whether state buffers of all these streams have ports of partitions."""
        return self._is_split

    def is_whole_for(self, streams: Sequence[Stream]) -> bool:
        """Return whether state buffers of none of these streams have ports of partitions."""
        return not self._is_split

    def add(self, stream: Stream, *, asks_last: bool = False, hold: Hold | None = None) -> None:
        """Let a stream ask for its first slot in the present tick.

        hold: PSUM ports that follow it, if it is a multiply.
        """
        now = self._env.tick
        if self._first_end <= now:
            self._finish_unseen(now)
        stream.begin(now)
        if asks_last:
            stream.ask_last()
        if stream.holdings:
            self._holders.append(stream)
            self._holders_changed = True
        is_held = self._is_held(stream.mask)
        if hold is not None:
            self._holds = [other for other in self._holds if not other.over(now)]
            self._holds.append(hold)
            stream.leave_sums(hold.mask)
        related, groups = self._related_to(stream)
        if related or is_held or stream.settles_ports:
            self._join(stream, related, groups)
            return
        stream.grant()
        self._alone[stream] = None
        if stream.holdings:
            self._unforeseen.append(stream)
        else:
            self._foresee(stream)
        if stream.holdings or stream.is_awaited:
            self.touch()

    def _related_to(self, stream: Stream) -> tuple[list[Stream], list[PortGroup]]:
        """Return the streams that may depend on one that comes, and the groups of some of them."""
        wide, settles, are_related = stream.wide_mask, stream.settles_ports, self._are_related
        found, groups = list[Stream](), list[PortGroup]()
        for other in self._alone:
            if (wide & other.wide_mask or settles) and are_related(stream, other):
                found.append(other)
        for group in self._groups:
            if wide & group.wide_mask or settles:
                before = len(found)
                for other in group.streams:
                    if (wide & other.wide_mask or settles) and are_related(stream, other):
                        found.append(other)
                if len(found) > before:
                    groups.append(group)
        return found, groups

    def _join(self, stream: Stream, related: list[Stream], groups: list[PortGroup]) -> None:
        """Make a group of a stream that comes and of what may depend on it, to be decided now."""
        for other in related:
            self._alone.pop(other, None)
            self._awaited.pop(other, None)
        for group in groups:
            self._groups.remove(group)
        self._groups.append(PortGroup.joined_by(stream, related, groups, self._env.tick))
        self.touch()

    def touch(self) -> None:
        """Have the present tick decided (again) when all units have acted in it."""
        if not self._deciding:
            self._deciding = True
            self._env.at_end_of_tick(DECIDE).callbacks.append(self._decide)

    def has_made(self, stream: Stream, access: int) -> bool:
        """Return whether an access is made in this tick, whatever else comes in it.

        So it is if the stream stands alone and comes first wherever ports are given.
        """
        if stream.rank[0] or stream not in self._alone:
            return False
        return stream.made(access, self._env.tick)

    def settled(self) -> simpy.Event:
        """Return an event that comes after the present tick has been decided."""
        return self._env.at_end_of_tick(SETTLED)

    def conclude(self) -> None:
        """Finish the streams whose ends nothing waited for; the last one ends the run."""
        last = max(self._ends.values(), default=self._env.tick)
        if last > self._env.tick:
            self._env.skip_to(last)
        self._finish_unseen(last)

    def _decide(self, _: simpy.Event) -> None:
        self._deciding = False
        self._wake_at = self._decide_now()
        while self._wake_at is not None and self._env.skip_to(self._wake_at):
            self._wake_at = self._decide_now()
        if self._wake_at is not None:
            self._wake(self._wake_at)

    def _decide_now(self) -> int | None:
        """Decide the present tick; return when to decide again, if ever."""
        now = self._env.tick
        self._finish_ended(now)
        if self._holders_changed:
            self._share_bandwidths()
        if self._unforeseen:
            self._foresee_unforeseen()
        for group in [group for group in self._groups if group.until <= now]:
            self._decide_group(group, now)
        until = min(self._awaited.values(), default=NEVER)
        for group in self._groups:
            if group.until < until:
                until = group.until
        return until if until < NEVER else None

    def _wake(self, tick: int) -> None:
        """Look again at a tick, unless that is arranged already or overtaken by then."""
        if tick not in self._scheduled:
            self._scheduled.add(tick)
            self._env.at_end_of_tick(DECIDE, tick).callbacks.append(self._woken)

    def _woken(self, event: simpy.Event) -> None:
        self._scheduled.discard(self._env.tick)
        if self._wake_at == self._env.tick and not self._deciding:
            self._decide(event)

    # Ends

    def _foresee(self, stream: Stream) -> None:
        """Note when a stream that was granted all to come is over."""
        end = stream.tick + stream.remaining() * stream.period
        if stream.is_awaited:
            self._awaited[stream] = end
        else:
            self._ends[stream] = end
            self._first_end = min(self._first_end, end)

    def _foresee_unforeseen(self) -> None:
        """Note when the streams are over that came alone and still are, now that shares are known.

        That is noted already of those whose pace has just changed.
        """
        for stream in self._unforeseen:
            if stream in self._alone and not (stream in self._awaited or stream in self._ends):
                self._foresee(stream)
        self._unforeseen.clear()

    def _finish_unseen(self, now: int) -> None:
        """Finish the streams that have ended, of those whose end nothing depends on."""
        for stream in [stream for stream, end in self._ends.items() if end <= now]:
            stream.advance(self._ends.pop(stream))
            self._take_away(stream)
            stream.finish()
        self._first_end = min(self._ends.values(), default=NEVER)

    def _finish_ended(self, now: int) -> None:
        """Bring up to now the streams to be decided, and finish those that have ended."""
        if self._first_end <= now:
            self._finish_unseen(now)
        due = [stream for stream, end in self._awaited.items() if end <= now]
        due += [s for group in self._groups if group.until <= now for s in group.streams]
        ended = []
        for stream in due:
            if stream.tick < now:
                stream.advance(now)
            if stream.done(now):
                ended.append(stream)
        for stream in ended:
            self._take_away(stream)
        for stream in ended:
            stream.finish()

    def _take_away(self, stream: Stream) -> None:
        """Decide no more for a stream that has ended."""
        if stream in self._alone:
            del self._alone[stream]
            self._awaited.pop(stream, None)
        else:
            (group,) = (group for group in self._groups if stream in group.streams)
            group.lose(stream)
            if not group.streams:
                self._groups.remove(group)
            self._ends.pop(stream, None)
        if stream.holdings:
            self._holders.remove(stream)
            self._holders_changed = True

    def _share_bandwidths(self) -> None:
        """Tell each DMA copy, in the order of the queues, which shares it holds of what."""
        self._holders_changed = False
        holders = sorted(self._holders, key=by_rank)
        found = dealt(tuple([stream.holdings for stream in holders]))
        for stream, shares in zip(holders, found, strict=True):
            if stream.set_shares(shares):
                self._change_pace(stream)

    def _change_pace(self, stream: Stream) -> None:
        """Look at a stream again whose pace has changed: it ends at another tick."""
        if stream in self._alone:
            self._foresee(stream)
        for group in self._groups:
            if stream in group.streams:
                group.holds_until(self._env.tick)  # and what repeated does so no more

    # Decisions

    def _are_related(self, one: Stream, other: Stream) -> bool:
        """Return whether what happens to one of two streams may depend on the other."""
        if one.mask_of_sums & other.mask or other.mask_of_sums & one.mask:
            return True  # sums come when the multiply was granted its vectors
        if one.mask & other.mask and self.may_meet(one, other):
            return True
        return one.settles_ports and other.settles_ports

    def _is_held(self, mask: int) -> bool:
        """Return whether sums may take one of the ports of a mask."""
        for hold in self._holds:  # noqa: SIM110 (`any` takes twice as long, and most share none)
            if mask & hold.mask and not hold.over(self._env.tick):
                return True
        return False

    def _decide_group(self, group: PortGroup, now: int) -> None:
        """Decide between the streams of a group, or let them go if they meet none any more."""
        for stream in group.streams:
            self._ends.pop(stream, None)
            if stream.tick < now:
                stream.advance(now)
        parts = [group]
        if group.has_lost:
            parts = group.split()
            self._groups.remove(group)
            self._groups += parts
        for part in parts:
            self._decide_between(part, now)

    def _decide_between(self, group: PortGroup, now: int) -> None:
        """Decide between streams that may meet, or leave it to them."""
        streams = group.streams
        are_held = self._is_held(group.mask)
        are_free = not are_held and len(streams) in (1, len(group.settling))
        are_free = are_free and not group.needs_arbiter
        if group.settling:
            self._let_settle(group.settling, among_themselves=are_free)
        in_rounds = group.has_rounds and not are_free and not are_held
        contest = group.compete(in_rounds=in_rounds)
        if are_free:
            self._let_go(group, now)
            return
        until = contest.settled_until(now) if contest else None
        if until is None:
            until = None if are_held else self._let_pass(group, now)
            if until is None:
                until = self._arbitrate(group, now)
            if contest:
                contest.note(now)
        group.holds_until(until)

    def _let_settle(self, streams: Iterable[Stream], *, among_themselves: bool) -> None:
        """Tell the streams that may settle which of them has a port whether they do so.

        Those of DRAM copies with bursts may. They do as long as they meet no other stream, nor sums
        that hold a port; else the arbiter decides between all of them.
        """
        for stream in streams:
            stream.settle_ports(among_themselves=among_themselves)

    def _let_go(self, group: PortGroup, now: int) -> None:
        """Let streams advance that no other can hinder, each from its present cycle on."""
        for stream in group.streams:
            if stream.tick == now:
                stream.grant()
        first = group.streams[0]
        if first.granted and not first.settles_ports:  # how far those come depends on one another
            self._groups.remove(group)
            self._alone[first] = None
            self._foresee(first)
        else:
            group.holds_until(min(_end_of(stream) for stream in group.streams))

    def _let_pass(self, group: PortGroup, now: int) -> int | None:
        """Let all streams of a group advance until two of them meet, as far as that is known.

        Returns when to decide again; None if two may meet now, or that is not known. Most streams
        that may meet never do.
        """
        streams = group.streams
        if not (group.has_course and self.is_split_for(streams)):
            return None
        for s in streams:
            if not (s.granted or s.tick == now):
                return None
        until = group.first_meeting(streams, now, NEVER)
        if until <= now:
            return None
        for stream in streams:
            if stream.tick == now:
                stream.grant()
            if stream.is_awaited:
                until = min(until, _end_of(stream))
            else:
                self._foresee(stream)
        return until

    def _arbitrate(self, group: PortGroup, now: int) -> int:
        """Decide this tick among streams that may meet; return when to decide again."""
        contended = group.streams
        holds = [hold for hold in self._holds if hold.mask & group.mask]
        ready = _in_line([s for s in contended if s.tick == now], now)
        is_for_now = any(not s.granted and s.tick > now for s in contended)
        refused, changes = self._grant_or_refuse(ready, self._in_use(contended, holds, now), now)
        last = [now + s.period for s in ready if s.asks_last_at == now]
        changes += last  # in the next cycle they have another place in the line
        is_for_now |= bool(last)
        changes += [_end_of(s) for s in group.settling if s.granted]
        # Only now is it known whether the multiplies go on.
        of_holds = [t for hold in holds if (t := hold.state(now)[1]) is not None]
        changes += of_holds
        if len(ready) < len(contended) or len({s.period for s in contended}) > 1:
            if group.contests or group.settling or not self.is_whole_for(contended):
                changes += [next_edge(s, now) for s in contended]
            else:
                held = reduce(or_, (hold.mask for hold in holds if hold.state(now)[0]), 0)
                return min([*edges_that_count(contended, now, held), *of_holds, *last])
            is_for_now |= bool(refused)
        soon = min(changes)
        if is_for_now or not (group.has_course and self.is_split_for(contended)):
            return soon
        return self._lasting_until(group, refused, holds, now=now, soon=soon)

    def _in_use(self, contended: list[Stream], holds: list[Hold], now: int) -> TakenPorts:
        """Return the ports that sums have now, and streams in a cycle that is not over."""
        taken = TakenPorts(self.has_partitions)
        for hold in holds:
            taken.take_hold(hold, now)
        for stream in contended:
            if stream.tick > now and stream.granted:
                taken.take(stream, stream.needs_in_progress())
        return taken

    def _grant_or_refuse(
        self, ready: list[Stream], taken: TakenPorts, now: int
    ) -> tuple[dict[Stream, Needs], list[int]]:
        """Decide stream by stream; return what was refused, and when needs change."""
        refused: dict[Stream, Needs] = {}
        changes: list[int] = []
        for stream in ready:
            needs, slots = stream.needs()
            if lost := taken.first_refused(stream, needs):
                stream.refuse(lost)
                refused[stream] = needs
                if (same := stream.patience()) is not None:
                    changes.append(now + same * stream.period)
            else:
                stream.grant()
                taken.take(stream, needs)
                changes.append(now + slots * stream.period)
        return refused, changes

    def _lasting_until(
        self,
        group: PortGroup,
        refused: dict[Stream, Needs],
        holds: list[Hold],
        *,
        now: int,
        soon: int,
    ) -> int:
        """Return until when a decision lasts that holds until `soon` at least.

        It may last until two streams meet, or, if one was refused, until one that was granted ends.
        """
        granted = [s for s in group.streams if s not in refused]
        waits = [now + n * s.period for s in refused if (n := s.patience()) is not None]
        ends = [_end_of(s) for s in granted if refused or s.is_awaited]
        until = min([*waits, *ends], default=NEVER)
        if until > soon:
            wanted_in_vain = {need for needs in refused.values() for need in needs}
            undisturbed = self._undisturbed_until(
                group, granted, wanted_in_vain, holds, now=now, ends=until
            )
            until = max(soon, undisturbed)
        else:
            until = soon
        if not refused:
            for stream in granted:
                if not stream.is_awaited:
                    self._foresee(stream)
        return until

    def _undisturbed_until(
        self,
        group: PortGroup,
        granted: list[Stream],
        refused: set[Need],
        holds: list[Hold],
        *,
        now: int,
        ends: int,
    ) -> int:
        """Return a tick, `ends` at the latest, until which nothing decided now changes.

        Until then no stream that was granted can be refused, and ports that other streams wanted
        in vain stay taken by the same streams. refused: the needs for these ports.
        """
        until = ends
        for hold in holds:
            held, change = hold.state(now)
            if held and any(hold.mask & mask for mask in _masks(granted, refused)):
                return now
            until = min(until, change or NEVER)
        until = group.first_meeting(granted, now, until)
        for need in refused:
            port = 1 << number_of(need.port)
            for stream in granted:
                if until > now and stream.mask & port:
                    until = min(until, _taken_alike_until(stream, need, now, until))
        return until


def _end_of(stream: Stream) -> int:
    """Return when a stream is over if nothing more is refused; if it is held, its next cycle."""
    return stream.tick + stream.remaining() * stream.period if stream.granted else stream.tick


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


def _in_line(ready: list[Stream], now: int) -> list[Stream]:
    """Return streams in the order in which they are decided: first those that do not ask last."""
    if now in [s.asks_last_at for s in ready]:
        ready.sort(key=lambda s: s.asks_last_at == now)
    return ready
