"""Twin of `register.fetch`: one path, a buffer for each queue, and few events for each fetch.

When the fetch of an instruction begins, the tick from which it may start is known. So a queue
sleeps until the fetch of its head has begun, and the path until it is free or, if no queue has
room, until an instruction starts. Nothing happens in the cycles between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Sequence
from typing import Any

import simpy

from systolic.hw.spec import Chip
from systolic.isa import Program, instruction_bytes
from systolic.machine.event.ticks import TickEnvironment
from systolic.trace.recorder import Recorder
from systolic.trace.records import FetchTimes


class Supply(ABC):
    """What hands instructions to queues: their fetch, or a processor. name: for labels."""

    name: str

    @abstractmethod
    def head(self, queue: str) -> int | None:
        """Return the tick from which the queue's head may start; None if not yet decided."""

    @abstractmethod
    def news(self, queue: str) -> simpy.Event:
        """Return an event that comes when that is decided of the queue's head."""

    @abstractmethod
    def started(self, queue: str) -> None:
        """Note that the queue's head starts in the present tick."""


class FetchBuffer:
    """A queue's buffer: instructions not yet fetched, free slots, and from when each may start."""

    def __init__(self, env: TickEnvironment, instructions: Sequence[int], slots: int) -> None:
        self._env = env
        self._unfetched, self._slots = deque(instructions), slots
        self._arrivals: deque[int] = deque()
        self._news: simpy.Event | None = None

    @property
    def is_complete(self) -> bool:
        """Return whether the fetch of the queue's last instruction has begun."""
        return not self._unfetched

    @property
    def can_take(self) -> bool:
        """Return whether an instruction is left, and a slot is free for it."""
        return bool(self._unfetched) and self._slots > 0

    @property
    def head(self) -> int | None:
        """Return the tick from which the head has its bytes; None if its fetch has not begun."""
        return self._arrivals[0] if self._arrivals else None

    @property
    def next_instruction(self) -> int:
        """Return the index of the next instruction to be fetched."""
        return self._unfetched[0]

    def news(self) -> simpy.Event:
        """Return an event that comes when the fetch of the head has begun."""
        self._news = simpy.Event(self._env)
        return self._news

    def fetch(self, arrival: int) -> None:
        """Begin the next fetch; its bytes are there from tick `arrival` on."""
        self._unfetched.popleft()
        self._slots -= 1
        self._arrivals.append(arrival)
        if self._news is not None:
            self._news.succeed()
            self._news = None

    def start(self) -> None:
        """Take out the head, whose slot is not yet free."""
        self._arrivals.popleft()

    def free(self) -> None:
        """Make a slot free."""
        self._slots += 1


class InstructionFetch(Supply):
    """The path, and the buffers of all queues that have instructions, in unit order.

    queues: the instructions of each, by its name. place: stands before that name in records.
    before: what comes before the first instruction of the program in their numbers.
    """

    name = "fetch"
    """What a queue waits for whose bytes are not there."""

    def __init__(
        self,
        env: TickEnvironment,
        chip: Chip,
        program: Program,
        recorder: Recorder,
        *,
        queues: dict[str, list[int]],
        place: str = "",
        before: int = 0,
    ) -> None:
        assert chip.fetch is not None
        self._env, self._spec, self._program = env, chip.fetch, program
        self._recorder, self._place, self._before = recorder, place, before
        self._period = chip.fetch_period
        self._buffers = {
            name: FetchBuffer(env, queues[name], chip.fetch.buffer_instructions)
            for name in chip.units
            if name in queues
        }
        self._turns = deque(self._buffers)
        self._freed: deque[tuple[int, FetchBuffer]] = deque()
        self._start: simpy.Event | None = None

    def head(self, queue: str) -> int | None:
        """Return the tick from which the queue's head has its bytes; None if not yet decided."""
        return self._buffers[queue].head

    def news(self, queue: str) -> simpy.Event:
        """Return an event that comes when the fetch of the queue's head has begun."""
        return self._buffers[queue].news()

    def started(self, queue: str) -> None:
        """Note that the queue's head starts in the present tick."""
        buffer = self._buffers[queue]
        buffer.start()
        self._freed.append((self._env.tick, buffer))
        if self._start is not None:
            self._start.succeed()
            self._start = None

    def process(self) -> Generator[simpy.Event, Any, None]:
        """Fetch every instruction of the queues."""
        if late := self._env.tick % self._period:
            yield simpy.Timeout(self._env, self._period - late)
        while not all(buffer.is_complete for buffer in self._buffers.values()):
            self._take_freed()
            buffer = self._next()
            if buffer is not None:
                yield simpy.Timeout(self._env, self._fetch(buffer))
                continue
            if not self._freed:  # else an instruction starts in this very tick
                self._start = simpy.Event(self._env)
                yield self._start
            yield simpy.Timeout(self._env, self._period - self._env.tick % self._period)

    def _take_freed(self) -> None:
        """Make the slots of instructions that started before the present tick free."""
        while self._freed and self._freed[0][0] < self._env.tick:
            self._freed.popleft()[1].free()

    def _next(self) -> FetchBuffer | None:
        """Return the first buffer behind the last one served that can take an instruction."""
        for turn, name in enumerate(self._turns):
            buffer = self._buffers[name]
            if buffer.can_take:
                self._turns.rotate(-turn - 1)
                return buffer
        return None

    def _fetch(self, buffer: FetchBuffer) -> int:
        """Begin a fetch; return the ticks for which it holds the path."""
        now, index = self._env.tick, buffer.next_instruction
        instruction = self._program.instructions[index - self._before]
        held = -(-instruction_bytes(instruction) // self._spec.bytes_per_cycle) * self._period
        arrival = now + held + self._spec.latency_cycles * self._period
        buffer.fetch(arrival)
        queue = self._place + instruction.queue
        self._recorder.fetches.append(FetchTimes(now, index, queue, arrival))
        return held
