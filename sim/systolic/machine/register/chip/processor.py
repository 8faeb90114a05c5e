"""A management processor: commands one after the other, each at an edge of its clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from systolic.hw.spec.multi_core import CommandKind, Processor
from systolic.hw.spec.places import ChipPlace, place_of
from systolic.isa import DmaCopy
from systolic.isa.instruction import Command, DmaMove
from systolic.isa.instruction.on_dma import CODE
from systolic.isa.joint import JointProgram
from systolic.isa.launches import Launch
from systolic.machine.register.chip.queue import ChipQueue
from systolic.machine.register.chip.semaphores import ChipSemaphores
from systolic.trace.recorder import Recorder
from systolic.trace.records import InstructionTimes


class Cores(Protocol):
    """The cores of a chip, as a processor sees them."""

    def blocked_by(self, place: ChipPlace, tick: int) -> str:
        """Return what keeps a core from being started: itself, its code, "" if nothing does."""

    def bring_code(self, at: str, index: int) -> None:
        """Note that a copy to the code of a core stands in its queue."""

    def start(self, by: tuple[ChipPlace, int], tick: int) -> None:
        """Start the program of a command at a tick."""


class FedSupply:
    """How many copies a processor has put into each of its queues that have not yet started."""

    def __init__(self, place: ChipPlace) -> None:
        self.label = f"waiting for {place}"
        self._there: Counter[str] = Counter()

    def has_head(self, queue: str) -> bool:
        """Return whether the head of a queue has been put there."""
        return self._there[queue] > 0

    def start_head(self, queue: str) -> None:
        """Note that the head of a queue starts in this cycle."""
        self._there[queue] -= 1

    def put(self, queue: str) -> None:
        """Put the next copy into a queue."""
        self._there[queue] += 1


@dataclass
class _UnderWay:
    """A command that has begun, the tick at which it is done, and what is to be done then."""

    done: int
    then: Callable[[int], None]


def _nothing(_: int) -> None:
    """Do nothing when a command is done."""


class ManagementProcessor:
    """Runs the program of one launch, at edges of its clock from tick 0 on.

    place: of the processor; end: the tick at which its last command was done; retired: commands
    done or left out behind a `stop`; fed: copies put into queues.
    """

    def __init__(
        self,
        joint: JointProgram,
        launch: Launch,
        spec: Processor,
        *,
        queues: dict[str, ChipQueue],
        supply: FedSupply,
        semaphores: ChipSemaphores,
        recorder: Recorder,
        cores: Cores,
    ) -> None:
        self.place, self.end, self.retired = launch.section.place, 0, 0
        self.period = joint.chip.period_of(spec.clock)
        self._joint, self._launch, self._spec = joint, launch, spec
        self._queues, self._semaphores, self._recorder = queues, semaphores, recorder
        self._supply = supply
        self._cores = cores
        first, count = launch.first_instruction, len(launch.program.instructions)
        self._rest = list(range(first, first + count))
        self._current: _UnderWay | None = None
        self._since = 0
        self._label = ""
        self.fed = 0

    @property
    def is_over(self) -> bool:
        """Return whether its program has ended."""
        return not self._rest and self._current is None

    @property
    def is_blocked(self) -> bool:
        """Return whether it waits for something else."""
        return self._current is None and bool(self._rest)

    def conclude(self, tick: int) -> None:
        """End the command that is done by now."""
        if self._current is not None and tick >= self._current.done:
            done, self._current = self._current, None
            self.end = max(self.end, done.done)
            done.then(tick)
            self._since = tick

    def begin(self, tick: int) -> None:
        """Begin the next command if the one before is done, and nothing keeps it from it."""
        if self._current is None and self._rest and self._may_begin(tick):
            self._begin(self._rest.pop(0), tick)

    def what_for(self) -> str:
        """Return what the next command waits for, for a message about a deadlock."""
        index = self._rest[0]
        return f"{self.place}: command {index - self._launch.first_instruction} {self._label}"

    def _may_begin(self, tick: int) -> bool:
        label = self._waiting_for(self._joint.program.instructions[self._rest[0]], tick)
        if label != self._label or not label:
            self._close(tick)
            self._label = label
        return not label

    def _close(self, tick: int) -> None:
        """Claim what the command has waited for until now."""
        if self._label:
            first, stop = self._since // self.period, tick // self.period
            self._recorder.claim(str(self.place), self._label, first, stop)
        self._since = tick

    def _waiting_for(self, instruction: object, tick: int) -> str:
        """Return the label of a command that has to wait in this cycle, "" if it has not."""
        if not isinstance(instruction, Command):
            return ""
        for wait in instruction.waits:
            if self._semaphores.visible[wait.semaphore] < wait.value:
                return f"waiting for {self._joint.posters[wait.semaphore]}"
        if instruction.word == "start":
            core = place_of(instruction.at)
            assert core is not None
            if blocker := self._cores.blocked_by(core, tick):
                return f"waiting for {blocker}"
        return ""

    def _begin(self, index: int, tick: int) -> None:
        instruction = self._joint.program.instructions[index]
        kind: CommandKind = instruction.word if isinstance(instruction, Command) else "copy"
        cycles = self._spec.cycles_of(kind)
        done = tick + cycles * self.period
        last = tick + max(0, cycles - 1) * self.period
        name = str(self.place)
        self._recorder.claim(name, "streaming", tick // self.period, done // self.period)
        self._label = ""
        if isinstance(instruction, Command):
            self.retired += 1
            for wait in instruction.waits:
                self._recorder.wait(tick, name, wait.semaphore, wait.value)
            self._recorder.times.append(InstructionTimes(index, name, tick, tick, last, last))
            delay = self._spec.semaphore_cycles * self.period
            for post in instruction.posts:
                self._semaphores.send(name, last, delay, self.place, post.semaphore)
            if instruction.word == "notify":
                self._recorder.notifications.append((last, name))
            self._current = _UnderWay(done, _nothing)
            if instruction.word == "start":
                by = self.place, index - self._launch.first_instruction
                self._cores.start(by, done + self._spec.start_cycles * self.period)
            elif instruction.word == "stop":
                self.retired += len(self._rest)
                self._rest.clear()
            return
        assert isinstance(instruction, DmaCopy)
        self.fed += 1
        self._current = _UnderWay(done, lambda _: self._hand_over(index, instruction))

    def _hand_over(self, index: int, copy: DmaCopy) -> None:
        """Put a copy into its queue."""
        self._supply.put(copy.queue)
        self._queues[copy.queue].wake()
        if isinstance(copy, DmaMove) and copy.brings_code:
            self._cores.bring_code(copy.target_at.removesuffix(f".{CODE}"), index)
