"""Decisions that repeat: queues whose descriptors are alike contend in rounds.

Queues that work through equal descriptors want the same ports again and again. When all of them are
as they were at an earlier decision (as far in a descriptor, and at the same place in their pace),
what was decided since then would be decided again, and again. That is a round. It is decided once;
the streams repeat it without the arbiter until one of them comes to descriptors of another kind.

So it is within one long descriptor: two queues that each move in every other cycle may refuse each
other the whole time. Such a descriptor is compared without the bytes moved, and a round ends before
the descriptor does.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from itertools import pairwise
from typing import NamedTuple

from systolic.machine.event.ports.stream import Lost, RoundPart, Stream

MOST_DECISIONS = 1 << 12
"""The most decisions that a contest remembers; a longer round is not found."""

FEWEST_DECISIONS = 2
"""Nothing is remembered of fewer decisions: most contests are over by then without a round."""


class _Decision(NamedTuple):
    """What was decided of each stream in a tick: what it lost, or None; and how far it was."""

    tick: int
    lost: tuple[Lost | None, ...]
    places: tuple[int, ...]


class Contest:
    """Streams of one clock that meet each other and no other stream, and what was decided so far.

    The streams move at their present paces.
    """

    def __init__(self, streams: Collection[Stream]) -> None:
        self.streams = frozenset(streams)
        self._ranked = sorted(streams, key=lambda s: s.rank)
        self._paces = self._present_paces()
        self._decisions: list[_Decision] = []
        self._seen: dict[Hashable, int] = {}
        self._until, self._before = 0, FEWEST_DECISIONS
        self._state_at: tuple[int, Hashable] = -1, None
        """The last state asked for, and when: it is asked again when a decision is noted."""

    def is_of(self, streams: Collection[Stream]) -> bool:
        """Return whether it is the contest of these streams as they are now."""
        return self.streams == {*streams} and self._paces == self._present_paces()

    def _present_paces(self) -> list[Hashable]:
        return [stream.pace_in_use() for stream in self._ranked]

    def settled_until(self, now: int) -> int | None:
        """Return the tick until which a round settles all; None if `now` has to be decided."""
        if now < self._until:
            return self._until
        if self._until:
            self.dissolve()
        if self._before:
            return None
        state = self._state(now)
        self._state_at = now, state
        if state is None or state not in self._seen:
            return None
        first = self._seen[state]
        is_again = self._decisions[first].tick == now  # a tick may be decided twice
        times = 0 if is_again else self._times(first)
        if not times:
            return None
        self._until = now + times * (now - self._decisions[first].tick)
        for number, stream in enumerate(self._ranked):
            parts = tuple(self._parts(first, number, now))
            stream.follow(
                parts if len(parts) > 1 else (RoundPart(self._until - now, parts[0].lost),)
            )
        return self._until

    def note(self, now: int) -> None:
        """Remember what has been decided in this tick."""
        if self._before:
            self._before -= 1
            return
        if any(stream.tick != now for stream in self._ranked):
            return  # between two cycles of the streams: they go on as decided before
        asked_at, state = self._state_at
        if asked_at != now:
            state = self._state(now)
        if state is None or len(self._decisions) == MOST_DECISIONS:
            self._forget()
            return
        if self._decisions and self._decisions[-1].tick == now:
            self._decisions.pop()
        self._seen[state] = len(self._decisions)
        lost = tuple(None if s.granted else s.refusals[-1].lost for s in self._ranked)
        self._decisions.append(_Decision(now, lost, tuple(s.place() for s in self._ranked)))

    def dissolve(self) -> None:
        """Let the arbiter decide again, and forget what it has decided."""
        for stream in self._ranked:
            stream.follow(())
        self._until = 0
        self._forget()

    def _forget(self) -> None:
        self._decisions.clear()
        self._seen.clear()

    def _state(self, now: int) -> Hashable:
        """Return all that decisions from now on depend on; None if that never comes again."""
        if any(stream.tick != now or stream.asks_last_at == now for stream in self._ranked):
            return None
        states = tuple(stream.state() for stream in self._ranked)
        return None if None in states else states

    def _times(self, first: int) -> int:
        """Return how often the decisions since then repeat, while the streams' needs stay alike."""
        places = self._decisions[first].places
        return min(
            (stream.alike_ahead() - 1) // (stream.place() - place)
            for stream, place in zip(self._ranked, places, strict=True)
            if stream.place() > place
        )

    def _parts(self, first: int, number: int, now: int) -> Iterator[RoundPart]:
        """Yield what was decided of a stream since then; equal neighbours are one part."""
        ticks = [decision.tick for decision in self._decisions[first:]]
        cycles, lost = 0, self._decisions[first].lost[number]
        stretches = zip(self._decisions[first:], pairwise([*ticks, now]), strict=True)
        for decision, (begin, end) in stretches:
            if decision.lost[number] != lost:
                yield RoundPart(cycles, lost)
                cycles, lost = 0, decision.lost[number]
            cycles += (end - begin) // self._ranked[number].period
        yield RoundPart(cycles, lost)


def contest_of(streams: Collection[Stream], known: Collection[Contest]) -> Contest:
    """Return the contest of some streams: a known one if it still is; others dissolve."""
    found = next((contest for contest in known if contest.is_of(streams)), None)
    for contest in known:
        if contest is not found:
            contest.dissolve()
    return found or Contest(streams)
