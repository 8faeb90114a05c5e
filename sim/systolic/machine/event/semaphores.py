"""Twin of `register.semaphores`: posts made, and posts announced before they are final.

An announced post can only move later (its stream may be refused a port), never earlier; so a
waiter may sleep until the announced tick and look again. While the stream of the only one is held,
that tick moves on with every cycle: a waiter then sleeps until the stream goes on.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

import simpy

from systolic.isa import Command, DmaCopy, LoadWeights, MatMul, OnEngine, Program, Wait
from systolic.machine.event.ticks import TickEnvironment

PostTicks = Callable[[], Sequence[int]]
"""Returns the ticks, ascending, at which posts become visible, as far as known."""

UNORDERED = "engines"
"""What posts in no order."""

Resumed = Callable[[], simpy.Event | None]
"""Returns an event that comes when what makes a post goes on; None if nothing holds it."""


def posted_in_order(program: Program) -> list[bool]:
    """Return, by semaphore, whether no post is announced that is made before one announced already.

    That is proved of three kinds of posters, if a semaphore has but one of them:

    * a DMA queue. The bytes of a copy move behind the bytes of the copy before (contract, section
    6).
    * the array's loads on one tile. A load starts behind the last read of the one before.
    * its multiplies on one tile, all with results of one width, all when done or all row by row. A
      vector enters behind those before it, and reaches a given column after the same time.

    Nothing of the kind is true of an engine. Its next instruction starts behind the last *read* of
    the one before, whose writes come later: behind a block, behind values that are read beside the
    source, behind the target (`indices`), or since their port is refused.
    """
    posters: list[set[tuple[object, ...]]] = [set() for _ in program.semaphores]
    for instruction in program.instructions:
        for post in instruction.posts:
            match instruction:
                case LoadWeights():
                    kind: tuple[object, ...] = ("loads", instruction.tile)
                case MatMul():
                    width = instruction.result.partitions
                    kind = ("multiplies", post.on, width, instruction.tile)
                case DmaCopy() | Command():
                    kind = ("copies", instruction.queue)
                case OnEngine():
                    kind = (UNORDERED,)
                case _:
                    assert_never(instruction)
            posters[post.semaphore].add(kind)
    return [
        len(kinds) == 1 and not any(UNORDERED in k or "partition" in k for k in kinds)
        for kinds in posters
    ]


class _Semaphore:
    """Posts of one semaphore: final ones, and sources still under way."""

    def __init__(self, env: TickEnvironment) -> None:
        self.final: list[int] = []
        self.sources: list[PostTicks] = []
        self.held: dict[PostTicks, Resumed] = {}
        self.changed = simpy.Event(env)
        self.since = 0

    def tick_of(self, value: int) -> int | None:
        """Return the tick at which the count reaches `value`; None if not announced."""
        if value <= 0:
            return 0
        if not self.sources:
            return self.final[value - 1] if len(self.final) >= value else None
        pending = self._pending()
        if not pending or (len(self.final) >= value and self.final[value - 1] <= pending[0]):
            return self.final[value - 1] if len(self.final) >= value else None
        if not self.final:
            return pending[value - 1] if value <= len(pending) else None
        before = bisect_right(self.final, pending[0])
        if before == len(self.final):
            place = value - before - 1
            return pending[place] if place < len(pending) else None
        everything = sorted([*self.final, *pending])
        return everything[value - 1] if value <= len(everything) else None

    def _pending(self) -> Sequence[int]:
        """Return the ticks, ascending, of what is announced and not final."""
        if len(self.sources) == 1 and not self.since:
            return self.sources[0]()
        since = self.since
        return sorted([t for source in self.sources for t in source() if t >= since])


class Semaphores:
    """All semaphores of a program."""

    def __init__(self, env: TickEnvironment, in_order: Sequence[bool]) -> None:
        self._env = env
        self._semaphores = [_Semaphore(env) for _ in in_order]
        self._in_order = in_order

    def announce(self, semaphore: int, source: PostTicks, resumed: Resumed | None = None) -> None:
        """Make known that `source` will post; its ticks may still move later.

        resumed: says whether what posts is held, if all it posts is made when it is over.
        """
        state = self._semaphores[semaphore]
        state.sources.append(source)
        if resumed is not None:
            state.held[source] = resumed
        self._wake(semaphore)

    def settle(self, semaphore: int, source: PostTicks, ticks: Iterable[int]) -> None:
        """Take over the ticks of an announced source, which are final now."""
        state = self._semaphores[semaphore]
        state.sources.remove(source)
        state.held.pop(source, None)
        for tick in ticks:
            if tick >= state.since:
                insort(state.final, tick)

    def reset(self, semaphore: int, tick: int) -> None:
        """Set a semaphore to 0 at a tick: posts visible before it count no more."""
        state = self._semaphores[semaphore]
        state.since = tick
        state.final = [each for each in state.final if each >= tick]

    def tick_of(self, wait: Wait) -> int | None:
        """Return the tick from which the wait is satisfied, as now known; None if unknown."""
        state, value = self._semaphores[wait.semaphore], wait.value
        if not state.sources and 0 < value <= len(state.final):  # most waits, when asked last
            return state.final[value - 1]
        return state.tick_of(value)

    def resumed(self, wait: Wait) -> simpy.Event | None:
        """Return an event before which the wait is not satisfied by what is announced.

        None if the tick from which it is satisfied does not depend on a stream that is held.
        """
        state = self._semaphores[wait.semaphore]
        if len(state.sources) != 1 or wait.value <= len(state.final):
            return None
        resumed = state.held.get(state.sources[0])
        return resumed() if resumed else None

    def may_come_sooner(self, semaphore: int) -> bool:
        """Return whether a post announced later may be made before one announced now."""
        return not self._in_order[semaphore]

    def changed(self, semaphore: int) -> simpy.Event:
        """Return an event that comes when another post is announced."""
        return self._semaphores[semaphore].changed

    def count(self, semaphore: int, tick: int) -> int:
        """Return the posts visible at `tick`."""
        state = self._semaphores[semaphore]
        pending = [t for source in state.sources for t in source() if state.since <= t <= tick]
        return bisect_right(state.final, tick) + len(pending)

    def _wake(self, semaphore: int) -> None:
        state = self._semaphores[semaphore]
        if state.changed.callbacks:
            state.changed.succeed()
            state.changed = simpy.Event(self._env)
