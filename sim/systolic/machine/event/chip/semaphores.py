"""Semaphores of all programs of a chip: each is at 0 when its program starts."""

from __future__ import annotations

from collections.abc import Sequence

from systolic.isa.joint import JointProgram
from systolic.machine.event.semaphores import Semaphores, posted_in_order
from systolic.machine.event.ticks import TickEnvironment
from systolic.trace.recorder import Recorder


def joint_order(joint: JointProgram) -> list[bool]:
    """Return, by semaphore, whether its posts are surely made in the order of one queue."""
    units: list[set[str]] = [set() for _ in joint.program.semaphores]
    for unit, instruction in zip(joint.units, joint.program.instructions, strict=True):
        for post in instruction.posts:
            units[post.semaphore].add(unit)
    in_order = posted_in_order(joint.program)
    return [each and len(of) == 1 for each, of in zip(in_order, units, strict=True)]


class ChipSemaphores(Semaphores):
    """Posts count for a program that runs, or ran last, when they become visible."""

    def __init__(self, env: TickEnvironment, in_order: Sequence[bool], joint: JointProgram) -> None:
        super().__init__(env, in_order)
        self._joint = joint
        self._begun: dict[int, int] = {}
        self._made: list[tuple[int, int, str, int]] = []

    def begin(self, launch: int, tick: int) -> None:
        """Set the semaphores of a program that starts at `tick` to 0."""
        self._begun[launch] = tick
        of = self._joint.launches[launch]
        for number in range(len(of.program.semaphores)):
            self.reset(of.first_semaphore + number, tick)

    def note(self, made: int, seen: int, unit: str, semaphore: int) -> None:
        """Note a post, to be recorded when it is known for which program it counts."""
        self._made.append((made, seen, unit, semaphore))

    def hand_over(self, recorder: Recorder) -> None:
        """Record the posts that count."""
        for made, seen, unit, semaphore in self._made:
            if self._counts(semaphore, seen):
                recorder.post(made, unit, semaphore)

    def _counts(self, semaphore: int, seen: int) -> bool:
        """Return whether a post visible at a tick counts for the program of its semaphore."""
        launch = self._joint.launch_of_semaphore[semaphore]
        at = self._joint.launches[launch].at
        latest = [
            (tick, number)
            for number, tick in self._begun.items()
            if self._joint.launches[number].at == at and tick <= seen
        ]
        return bool(latest) and max(latest)[1] == launch
