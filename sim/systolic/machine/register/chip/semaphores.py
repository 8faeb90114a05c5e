"""Semaphores of all launches of a chip, and the ways of posts between cores."""

from __future__ import annotations

import heapq

from systolic.hw.places import Place
from systolic.hw.units import unit_of
from systolic.isa.joint import JointProgram
from systolic.machine.register.semaphores import Semaphores, Sleeper
from systolic.trace.recorder import Recorder

NOT_YET = 1 << 62


class ChipSemaphores:
    """Visible counts by number, of all launches. Times in ticks.

    started: by launch, the tick of its first cycle; a post that becomes visible before is lost.
    """

    def __init__(self, joint: JointProgram) -> None:
        self.visible = [0] * len(joint.program.semaphores)
        self.pending: list[tuple[int, int]] = []
        self.version = 0
        self.started = [NOT_YET] * len(joint.launches)
        self._joint = joint
        self._sleepers: dict[int, list[tuple[int, Sleeper]]] = {}

    def send(self, tick: int, delay: int, poster: Place, semaphore: int) -> None:
        """Add 1, visible `delay` ticks and the hops from the poster's place after `tick`."""
        hops = self._joint.hops(poster, semaphore)
        way = hops * self._joint.chip.post_hop_ticks
        heapq.heappush(self.pending, (tick + delay + way, semaphore))

    def advance(self, tick: int) -> None:
        """Make visible what is due by `tick`, and wake those whose value is reached."""
        while self.pending and self.pending[0][0] <= tick:
            due, semaphore = heapq.heappop(self.pending)
            if due < self.started[self._joint.launch_of_semaphore[semaphore]]:
                continue
            self.visible[semaphore] += 1
            self.version += 1
            waiting = self._sleepers.pop(semaphore, [])
            for value, sleeper in waiting:
                if value <= self.visible[semaphore]:
                    sleeper.wake()
                else:
                    self.sleep(semaphore, value, sleeper)

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
        place: Place,
        cycles: int,
        own_cycles: dict[str, int],
        recorder: Recorder,
    ) -> None:
        self._whole, self._place, self._recorder = whole, place, recorder
        self._cycles, self._own_cycles = cycles, own_cycles
        self.visible = whole.visible

    @property
    def version(self) -> int:  # type: ignore[override]
        """Return a number that changes whenever a count does."""
        return self._whole.version

    def post(self, tick: int, unit: str, period: int, semaphore: int) -> None:
        """Add 1, visible so many cycles of the posting unit, and the hops, later."""
        self._recorder.post(tick, unit, semaphore)
        cycles = self._own_cycles.get(unit_of(unit), self._cycles)
        self._whole.send(tick, cycles * period, self._place, semaphore)

    def sleep(self, semaphore: int, value: int, sleeper: Sleeper) -> None:
        """Wake the sleeper as soon as `value` posts are visible."""
        self._whole.sleep(semaphore, value, sleeper)
