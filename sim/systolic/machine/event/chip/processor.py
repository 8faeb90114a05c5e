"""A management processor: commands one after the other, and the copies that it hands to queues."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import simpy

from systolic.hw.spec import Processor
from systolic.hw.spec.multi_core import CommandKind
from systolic.isa import Instruction
from systolic.isa.instruction import Command, DmaCopy, DmaMove
from systolic.machine.event.fetch import Supply
from systolic.machine.event.ticks import TickEnvironment
from systolic.machine.event.unit import Context, Process, Unit
from systolic.trace.records import InstructionTimes


class CopySupply(Supply):
    """The copies that a processor has put into its queues, and from when each is there."""

    def __init__(self, env: TickEnvironment, name: str) -> None:
        self.name = name
        self._env = env
        self._there: dict[str, deque[int]] = {}
        self._news: dict[str, simpy.Event] = {}

    def head(self, queue: str) -> int | None:
        """Return the tick from which the queue's head may start; None if it is not there."""
        there = self._there.get(queue)
        return there[0] if there else None

    def news(self, queue: str) -> simpy.Event:
        """Return an event that comes when a copy is put into the queue."""
        self._news[queue] = simpy.Event(self._env)
        return self._news[queue]

    def started(self, queue: str) -> None:
        """Note that the queue's head starts in the present tick."""
        self._there[queue].popleft()

    def put(self, queue: str, tick: int) -> None:
        """Put the next copy into its queue, to start at `tick` or later."""
        self._there.setdefault(queue, deque()).append(tick)
        if (event := self._news.pop(queue, None)) is not None:
            event.succeed()


class Starter(Protocol):
    """Starts cores."""

    def awaited(self, command: Command) -> str:
        """Return what keeps the core from being started, whose end is not known; "" if nothing."""

    def news(self, command: Command) -> simpy.Event | None:
        """Return an event before which the core cannot be started; None if that is not known."""

    def stopped(self, command: Command) -> tuple[int, int]:
        """Return the ticks from which the core has stopped, and from which it has its code."""

    def ask(self, command: Command) -> simpy.Event:
        """Ask to start a core in the present tick; return an event at which that is decided."""

    def has_won(self, command: Command) -> bool:
        """Return whether the core is this processor's to start."""

    def start(self, by: int, tick: int) -> None:
        """Start the program of a command (by its number) at a tick."""

    def code_put(self, at: str) -> None:
        """Note that a copy to the code of a core stands in its queue."""


class ProcessorUnit(Unit):
    """Runs the commands of a processor, the copies among them, in the order of its program."""

    def __init__(
        self,
        context: Context,
        spec: Processor,
        queue: Sequence[int],
        *,
        period: int,
        place: str,
        supply: CopySupply,
        starter: Starter,
        on_stop: Callable[[Sequence[int]], None],
    ) -> None:
        super().__init__(context, place, "dma", queue, context.chip.dma)
        self.period = period
        self._spec, self._supply, self._starter, self._on_stop = spec, supply, starter, on_stop
        self._post_ticks = spec.semaphore_cycles * period
        self._awaits_bytes = ""

    def earliest(self, instruction: Instruction) -> int:
        """Return the present tick: the command before is done."""
        return self.env.tick

    def start(self, index: int, instruction: Instruction, *, asks_last: bool) -> None:
        """Begin nothing: commands are carried out by `process`."""

    def process(self) -> Process:
        """Carry out the commands."""
        instructions = self.context.program.instructions
        for place, index in enumerate(self.queue):
            self.place = place
            instruction = instructions[index]
            if isinstance(instruction, Command):
                yield from self._carry_out(index, instruction)
                if instruction.word == "stop":
                    self._on_stop(self.queue[place + 1 :])
                    break
            else:
                yield from self._put(index, instruction)
        self.place = len(self.queue)

    def _put(self, index: int, copy: Instruction) -> Process:
        assert isinstance(copy, DmaCopy)
        yield from self._spend("copy")
        self._starter_notes(copy)
        self._supply.put(copy.queue, self.env.tick)

    def _starter_notes(self, copy: DmaCopy) -> None:
        if isinstance(copy, DmaMove) and copy.brings_code:
            self._starter.code_put(copy.target_at.removesuffix(".code"))

    def _carry_out(self, index: int, command: Command) -> Process:
        if command.waits:
            yield from self._await(command)
            self._claim_waiting(command)
            for wait in command.waits:
                recorder = self.context.recorder
                recorder.wait(self.env.tick, self.name, wait.semaphore, wait.value)
        elif command.word == "start":
            yield from self._await_core(command)
        begun = self.env.tick
        done = begun + self._spec.cycles_of(command.word) * self.period
        last = done - self.period
        seen = last + self.post_delay
        sources = self.announce(command.posts, lambda _: lambda: (seen,))
        if command.word == "start":
            self._starter.start(index, done + self._spec.start_cycles * self.period)
        if command.word == "notify":
            self.context.recorder.notifications.append((last, self.name))
        yield from self._spend(command.word)
        self.settle(sources)
        self.context.recorder.times.append(
            InstructionTimes(index, self.name, begun, begun, last, last)
        )
        self.context.retire(index, done)

    def _await_core(self, command: Command) -> Process:
        """Wait until the core of a start has stopped, and its code has come."""
        while True:
            if (news := self._starter.news(command)) is not None:
                awaited = self._starter.awaited(command)
                yield news
                if self._starter.awaited(command) != awaited:
                    is_core = awaited == command.at
                    end = self._starter.stopped(command)[0 if is_core else 1]
                    self._claim_until(awaited, self.align(end))
                continue
            stopped, there = self._starter.stopped(command)
            self._claim_until(command.at, self.align(stopped))
            self._claim_until(f"{command.at}.code", self.align(there))
            ready = self.align(max(stopped, there, self.env.tick))
            if ready > self.env.tick:
                yield simpy.Timeout(self.env, ready - self.env.tick)
                continue
            yield self._starter.ask(command)
            # A copy to its code may have been put into a queue in this very tick.
            if self._starter.has_won(command) and self._starter.news(command) is None:
                return

    def _claim_until(self, name: str, tick: int) -> None:
        """Say that it has waited until a tick for what has that name."""
        if tick > self.head_since:
            self.claim(f"waiting for {name}", self.head_since, tick)
            self.head_since = tick

    def _spend(self, kind: CommandKind) -> Process:
        """Let the cycles of a command pass."""
        begun = self.env.tick
        yield simpy.Timeout(self.env, self._spec.cycles_of(kind) * self.period)
        self.claim("streaming", begun, self.env.tick)
        self.head_since = self._decoded = self.env.tick
