"""Slack: how much later an instruction could come as a whole without the run being longer.

Every cause of every start counts, not only the last. Refused ports and shared bandwidth count as
they were: a shift that would change them may cost more, or less. Not here: the path (`path`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from systolic.critical_path.causes import SEMAPHORE, Causes
from systolic.critical_path.points import Lives
from systolic.isa import DmaCopy

NEVER = 1 << 62
POSTS, FETCHES, STARTS = range(3)
"""Kinds of nodes. Of nodes at one tick, starts are gone through first, the last start first."""


def slacks(causes: Causes) -> dict[int, int]:
    """Return the slack of every instruction, in ticks."""
    return _Slack(causes.lives, causes).all()


@dataclass(slots=True)
class _Slack:
    """The graph of causes, gone through from the end of the run to its beginning.

    slack: of instructions, as far as known. fetch: of the fetches. seen: by semaphore and count,
    the latest tick at which that count may be seen. after: by instruction, the instructions that
    wait for it, each with the ticks from when it let them start to their start. fetched_after: the
    same of a fetch.
    """

    lives: Lives
    causes: Causes
    slack: dict[int, int] = field(default_factory=dict)
    fetch: dict[int, int] = field(default_factory=dict)
    seen: dict[tuple[int, int], int] = field(default_factory=dict)
    after: defaultdict[int, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    fetched_after: dict[int, tuple[int, int]] = field(default_factory=dict)

    def all(self) -> dict[int, int]:
        """Return the slack of every instruction."""
        lives = self.lives
        for index in lives.times:
            self._note_causes(index)
        posted: dict[int, list[int]] = defaultdict(list)
        latest = [NEVER] * len(lives.program.semaphores)
        for _, kind, place, number in sorted(self._nodes(), reverse=True):
            if kind == POSTS:
                latest[number] = min(latest[number], self.seen.get((number, place), NEVER))
                made = self.causes.posts[number][place]
                posted[made.point.instruction].append(latest[number] - made.visible)
            elif kind == FETCHES:
                self._settle_fetch(number)
            else:
                self._settle_start(number, posted.pop(number, []))
        return self.slack

    def _settle_start(self, index: int, found: list[int]) -> None:
        """Note the slack of an instruction; found: the slack of its posts."""
        found.append(self.lives.trace.ticks - self.lives.end(index).tick)
        found += [self.slack[after] + ticks for after, ticks in self.after[index]]
        if index in self.fetched_after:
            fetched, ticks = self.fetched_after[index]
            found.append(self.fetch[fetched] + ticks)
        self.slack[index] = min(found)
        self._settle_waits(index)

    def _nodes(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (tick, kind, place, instruction or semaphore) of starts, fetches and posts."""
        for queue in self.lives.queues.values():
            for place, index in enumerate(queue):
                yield self.lives.times[index].start, STARTS, place, index
        for number, posts in enumerate(self.causes.posts):
            for place, made in enumerate(posts):
                yield made.visible, POSTS, place, number
        for index, fetch in self.lives.fetches.items():
            yield fetch.begin, FETCHES, 0, index

    def _note_causes(self, index: int) -> None:
        could = self.causes.could_start(index)
        for cause in self.causes.of(index):
            if cause.point is not None and cause.reason != SEMAPHORE:
                self.after[cause.point.instruction].append((index, could - cause.tick))
        end = self.causes.end_before(index)
        if end is not None and isinstance(self.lives.instruction(index), DmaCopy):
            self.after[end.instruction].append((index, self.lives.begin(index) - end.tick))
        if index in self.lives.fetches and (start := self.causes.slot_given(index)) is not None:
            free = self.causes.fetch_cycle_after(start.tick, index)
            begin = self.lives.fetches[index].begin
            self.fetched_after[start.instruction] = index, begin - free

    def _settle_waits(self, index: int) -> None:
        """Note how late the counts may be seen that the instruction waited for."""
        latest = self.causes.could_start(index) + self.slack[index]
        for wait in self.lives.instruction(index).waits:
            key = wait.semaphore, wait.value - 1
            self.seen[key] = min(self.seen.get(key, NEVER), latest)

    def _settle_fetch(self, index: int) -> None:
        fetch, could = self.lives.fetches[index], self.causes.could_start(index)
        found = could - fetch.arrival + self.slack[index]
        behind = self.causes.fetch_after(index)
        if behind is not None:
            gap = self.lives.fetches[behind].begin - self.causes.path_free(index)
            found = min(found, gap + self.fetch[behind])
        self.fetch[index] = found
