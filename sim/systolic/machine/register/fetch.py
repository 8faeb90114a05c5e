"""Twin of `event.fetch`: path, pipeline and buffers of the instructions, cycle by cycle.

A cycle of fetch comes before all units of its tick: it sees the slots as the ticks before left
them, and the units see what has arrived.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from systolic.hw.spec import Chip, Fetch
from systolic.isa import Program, instruction_bytes
from systolic.trace.recorder import Recorder
from systolic.trace.records import FetchTimes


class Supply(Protocol):
    """What hands instructions to queues. label: of a queue whose head is not there."""

    label: str

    def has_head(self, queue: str) -> bool:
        """Return whether the head of a queue may start."""

    def start_head(self, queue: str) -> None:
        """Note that the head of a queue starts in this cycle."""


class FetchBuffer:
    """A queue's buffer: instructions that lie in it (`arrived`), and that are on their way."""

    def __init__(self, instructions: list[int], slots: int) -> None:
        self.arrived = 0
        self._coming = 0
        self._slots = slots
        self._rest = deque(instructions)

    @property
    def is_complete(self) -> bool:
        """Return whether the last instruction of the queue has been sent on its way."""
        return not self._rest

    @property
    def can_take(self) -> bool:
        """Return whether an instruction is left, and a slot is free for it."""
        return bool(self._rest) and self._coming + self.arrived < self._slots

    def send(self) -> int:
        """Send the next instruction on its way; return its index."""
        self._coming += 1
        return self._rest.popleft()

    def land(self) -> None:
        """Let an instruction arrive."""
        self._coming -= 1
        self.arrived += 1

    def start(self) -> None:
        """Give up the slot of the head."""
        self.arrived -= 1


@dataclass(slots=True)
class _OnItsWay:
    """An instruction whose fetch has begun at tick `begin`, and the cycles that it still needs."""

    left: int
    index: int
    begin: int
    buffer: FetchBuffer


class Fetcher:
    """One path that serves the buffers in turn, and the pipeline behind it.

    path: cycles for which the path is still held; pipeline: instructions on the way, oldest first;
    turn: the place of the buffer that is asked first; label: of a queue whose head is not there.
    """

    label = "waiting for fetch"

    def __init__(self, chip: Chip, spec: Fetch, program: Program, recorder: Recorder) -> None:
        self.period = chip.fetch_period
        self._spec, self._program, self._recorder = spec, program, recorder
        queues = program.queues()
        self._buffers = {
            name: FetchBuffer(queues[name], spec.buffer_instructions)
            for name in chip.units
            if name in queues
        }
        self._order = list(self._buffers.values())
        self._path = 0
        self._pipeline: list[_OnItsWay] = []
        self._turn = 0

    @property
    def is_at_work(self) -> bool:
        """Return whether an instruction is still to be fetched or on its way."""
        return bool(self._pipeline) or not all(buffer.is_complete for buffer in self._order)

    def has_head(self, queue: str) -> bool:
        """Return whether the bytes of the queue's head lie in its buffer."""
        return self._buffers[queue].arrived > 0

    def start_head(self, queue: str) -> None:
        """Take the head, which starts in this cycle, out of the buffer."""
        self._buffers[queue].start()

    def step(self, tick: int) -> None:
        """Do a cycle: what has arrived is there, and a free path takes the next instruction."""
        for coming in self._pipeline:
            coming.left -= 1
        while self._pipeline and self._pipeline[0].left == 0:
            self._land(self._pipeline.pop(0), tick)
        if self._path:
            self._path -= 1
        if not self._path:
            self._begin_next(tick)

    def _land(self, coming: _OnItsWay, tick: int) -> None:
        coming.buffer.land()
        queue = self._program.instructions[coming.index].queue
        self._recorder.fetches.append(FetchTimes(coming.begin, coming.index, queue, tick))

    def _begin_next(self, tick: int) -> None:
        for _ in self._order:
            buffer = self._order[self._turn]
            self._turn = (self._turn + 1) % len(self._order)
            if buffer.can_take:
                self._begin(buffer, tick)
                return

    def _begin(self, buffer: FetchBuffer, tick: int) -> None:
        index = buffer.send()
        size = instruction_bytes(self._program.instructions[index])
        whole, part = divmod(size, self._spec.bytes_per_cycle)
        self._path = whole + (part > 0)
        self._pipeline.append(
            _OnItsWay(self._path + self._spec.latency_cycles, index, tick, buffer)
        )
