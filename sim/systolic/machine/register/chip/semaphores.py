"""Semaphores of all launches of a chip, and the ways of posts between cores."""

from __future__ import annotations

import heapq
from typing import NamedTuple

from systolic.hw.spec.places import ChipPlace, joined
from systolic.hw.units import unit_of
from systolic.isa.joint import JointProgram
from systolic.machine.register.semaphores import Semaphores, Sleeper
from systolic.trace.recorder import Recorder

NOT_YET = 1 << 62


class _OnItsWay(NamedTuple):
    """A post: the tick from which it is visible, its semaphore, when and where it was made."""

    due: int
    semaphore: int
    made: int
    unit: str


class ChipSemaphores:
    """Visible counts by number, of all launches. Times in ticks.

    started: by launch, the tick of its first cycle. A post counts for the launch that runs, or ran
    last, when it becomes visible; only such a post is recorded.
    """

    def __init__(self, joint: JointProgram, recorder: Recorder) -> None:
        self.visible = [0] * len(joint.program.semaphores)
        self.pending: list[_OnItsWay] = []
        self.version = 0
        self.started = [NOT_YET] * len(joint.launches)
        self._joint, self._recorder = joint, recorder
        self._sleepers: dict[int, list[tuple[int, Sleeper]]] = {}

    def send(self, unit: str, tick: int, delay: int, poster: ChipPlace, semaphore: int) -> None:
        """Add 1, visible `delay` ticks and the hops from the poster's place after `tick`."""
        hops = self._joint.hops(poster, semaphore)
        way = hops * self._joint.chip.post_hop_ticks
        heapq.heappush(self.pending, _OnItsWay(tick + delay + way, semaphore, tick, unit))

    def advance(self, tick: int) -> None:
        """Make visible what is due by `tick`, and wake those whose value is reached."""
        while self.pending and self.pending[0].due <= tick:
            due, semaphore, made, unit = heapq.heappop(self.pending)
            if not self._counts(semaphore, due):
                continue
            self._recorder.post(made, unit, semaphore)
            self.visible[semaphore] += 1
            self.version += 1
            waiting = self._sleepers.pop(semaphore, [])
            for value, sleeper in waiting:
                if value <= self.visible[semaphore]:
                    sleeper.wake()
                else:
                    self.sleep(semaphore, value, sleeper)

    def _counts(self, semaphore: int, due: int) -> bool:
        mine = self._joint.launch_of_semaphore[semaphore]
        at = self._joint.launches[mine].at
        begun = [
            (self.started[number], number)
            for number, launch in enumerate(self._joint.launches)
            if launch.at == at and self.started[number] <= due
        ]
        return bool(begun) and max(begun)[1] == mine

    def sleep(self, semaphore: int, value: int, sleeper: Sleeper) -> None:
        """Wake the sleeper as soon as `value` posts are visible."""
        self._sleepers.setdefault(semaphore, []).append((value, sleeper))


class PlacedSemaphores(Semaphores):
    """The semaphores of the chip as the units of one place see and post them.

    cycles: from a post to its being visible, in cycles of the poster; own_cycles: of some units.
    """

    def __init__(
        self,
        whole: ChipSemaphores,
        place: ChipPlace,
        cycles: int,
        own_cycles: dict[str, int],
    ) -> None:
        self._whole, self._place = whole, place
        self._cycles, self._own_cycles = cycles, own_cycles
        self.visible = whole.visible

    @property
    def version(self) -> int:  # type: ignore[override]
        """Return a number that changes whenever a count does."""
        return self._whole.version

    def post(self, tick: int, unit: str, period: int, semaphore: int) -> None:
        """Add 1; it is visible after the posting unit's cycles, and the hops."""
        cycles = self._own_cycles.get(unit_of(unit), self._cycles)
        name = joined(self._place, unit)
        self._whole.send(name, tick, cycles * period, self._place, semaphore)

    def sleep(self, semaphore: int, value: int, sleeper: Sleeper) -> None:
        """Wake the sleeper as soon as `value` posts are visible."""
        self._whole.sleep(semaphore, value, sleeper)
