"""Twin of `event.semaphores`: posts made, posts visible, and units asleep until a count."""

from __future__ import annotations

import heapq
from typing import Protocol

from systolic.hw.spec import Chip
from systolic.hw.units import unit_of
from systolic.trace.recorder import Recorder


class Sleeper(Protocol):
    """What can wait for a semaphore."""

    def wake(self) -> None:
        """Look again at the head of the queue."""


class Semaphores:
    """Visible counts by number; `version` changes whenever a count does. Times in ticks."""

    def __init__(self, count: int, chip: Chip, recorder: Recorder) -> None:
        self.visible = [0] * count
        self.pending: list[tuple[int, int]] = []
        self.version = 0
        self._cycles, self._own_cycles = chip.semaphore_cycles, chip.handoff_cycles
        self._recorder = recorder
        self._sleepers: dict[int, list[tuple[int, Sleeper]]] = {}

    def post(self, tick: int, unit: str, period: int, semaphore: int) -> None:
        """Add 1, visible that many cycles of the posting unit later."""
        self._recorder.post(tick, unit, semaphore)
        cycles = self._own_cycles.get(unit_of(unit), self._cycles)
        heapq.heappush(self.pending, (tick + cycles * period, semaphore))

    def advance(self, tick: int) -> None:
        """Make visible what is due by `tick`, and wake those whose value is reached."""
        while self.pending and self.pending[0][0] <= tick:
            _, semaphore = heapq.heappop(self.pending)
            self.visible[semaphore] += 1
            self.version += 1
            if semaphore in self._sleepers:
                self._wake(semaphore)

    def sleep(self, semaphore: int, value: int, sleeper: Sleeper) -> None:
        """Wake the sleeper as soon as `value` posts are visible."""
        self._sleepers.setdefault(semaphore, []).append((value, sleeper))

    def _wake(self, semaphore: int) -> None:
        count = self.visible[semaphore]
        waiting = self._sleepers.pop(semaphore)
        for value, sleeper in waiting:
            if value <= count:
                sleeper.wake()
        rest = [entry for entry in waiting if entry[0] > count]
        if rest:
            self._sleepers[semaphore] = rest
