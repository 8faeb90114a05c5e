"""Twin of `register.dma.unit`: a DMA queue, which starts copies and announces their ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import simpy

from systolic.hw.units import dma_queue
from systolic.isa import Access, Buffer, DmaCopy, DmaTranspose, Instruction
from systolic.machine.event.dma.costs import holdings, latency_cycles
from systolic.machine.event.dma.descriptors import source_order
from systolic.machine.event.dma.plan import CopyPlan, likeness
from systolic.machine.event.dma.stream import DmaStream
from systolic.machine.event.ports.stream import Asker
from systolic.machine.event.unit import Context, Unit
from systolic.trace.records import InstructionTimes
from systolic.trace.words import Words

if TYPE_CHECKING:
    from systolic.machine.event.dma.bursts import BurstStream

PLANS_KEPT = 256


class InLine(NamedTuple):
    """A copy that has started, and the tick at which its latency is over."""

    stream: DmaStream | BurstStream
    ready: int


class DmaUnit(Unit):
    """One queue: copies one after the other; where the chip lets more be outstanding, the latencies
    of the next ones run meanwhile.
    """

    def __init__(self, context: Context, number: int, queue: Sequence[int]) -> None:
        spec = context.chip.dma
        super().__init__(context, dma_queue(number), "dma", queue, spec)
        self._number = number
        self._outstanding = spec.outstanding
        self._stream: DmaStream | BurstStream | None = None
        self._line: deque[InLine] = deque()
        self._under_way = 0
        self._ended: simpy.Event | None = None
        self._rank = context.rank("dma")

    def earliest(self, instruction: Instruction) -> int:
        """Return the tick after the last byte of the copy before, or after its start."""
        if self._outstanding > 1:
            return self.head_since + self.period if self.place else 0
        return self._stream.end_tick() + self.period if isinstance(self._stream, DmaStream) else 0

    def _await(self, instruction: Instruction) -> Generator[simpy.Event, Any, bool]:
        # How long bursts take depends on the copies that join them, and which copy is next in line
        # on the one before: the end is known when it comes.
        if self._under_way == self._outstanding:
            self._ended = simpy.Event(self.env)
            yield self._ended
            self._ended = None
        return (yield from super()._await(instruction))

    def _until(self, ready: int | None, instruction: Instruction) -> simpy.Event:
        # While a port is refused to the copy in hand, its end moves on with every cycle.
        held = self._stream.resumed() if self._stream and self._outstanding == 1 else None
        return held or super()._until(ready, instruction)

    def start(self, index: int, instruction: Instruction, *, asks_last: bool) -> None:
        """Begin a copy in the present tick."""
        assert isinstance(instruction, DmaCopy)
        is_dram = Buffer.DRAM in (instruction.source.buffer, instruction.target.buffer)
        latency = latency_cycles(self.chip, instruction)
        stream = self._make(index, instruction, is_dram)
        recorder, values = self.context.recorder, None
        if self.context.values:
            if recorder.wants("read") or recorder.wants("write"):
                values = self.context.memory.read(instruction.source)
            self._copy_values(instruction)
        start, ready = self.env.tick, self.env.tick + latency * self.period
        sources: Any = None
        if isinstance(stream, DmaStream) and self._outstanding == 1:
            sources = self._foretell(stream, instruction, ready)
        else:
            self._under_way += 1
        self.claim("filling", start, ready)
        stream.then(
            lambda: self._finish(index, instruction, stream, start, values=values, sources=sources)
        )
        if self._outstanding == 1:
            self._stream = stream
            self.add_later(stream, latency)
        else:
            self._line.append(InLine(stream, ready))
            self._look_at_line(latency)

    def _copy_values(self, copy: DmaCopy) -> None:
        if isinstance(copy, DmaTranspose):
            self.context.memory.turn(copy.source, copy.target)
        else:
            self.context.memory.move(copy.source, copy.target)

    def _foretell(self, stream: DmaStream, copy: DmaCopy, ready: int) -> Any:
        """Announce the posts of a copy whose end can be told from its start on."""
        delay, posts = self.post_delay, self.chip.dma.posts_per_copy
        stream.begin(ready)
        return self.announce(
            copy.posts, lambda _: lambda: (stream.end_tick() + delay,) * posts, stream.resumed
        )

    def _look_at_line(self, cycles: int) -> None:
        """In that many cycles, begin with the first copy in line if its turn has come."""
        delay = simpy.Timeout(self.env, cycles * self.period)
        delay.callbacks.append(lambda _: self._next_in_line())

    def _next_in_line(self) -> None:
        if self._stream is None and self._line and self._line[0].ready <= self.env.tick:
            self._stream = self._line.popleft().stream
            self.context.arbiter.add(self._stream)

    def _make(self, index: int, copy: DmaCopy, is_dram: bool) -> DmaStream | BurstStream:
        number, channels = self._number, self.context.dram
        held = holdings(self.chip, copy, number)
        asker = Asker(self.name, "dma", index, (self._rank, number), self.period, held)
        if is_dram and channels is not None:
            from systolic.machine.event.dma.bursts import BurstStream, burst_plan

            plan = burst_plan(copy, self.chip, channels.banks)
            near = copy.source if copy.target.buffer is Buffer.DRAM else copy.target
            return BurstStream(self.env, channels, plan, near.lanes, asker, queue=number)
        return DmaStream(self.env, self.chip, self._plan(copy), asker)

    def _plan(self, copy: DmaCopy) -> CopyPlan:
        """Return what the copy moves through which ports: as one before that was alike."""
        plans, key = self.context.copy_plans, likeness(copy, self.chip)
        plan = plans.get(key)
        if plan is None:
            plan = plans[key] = CopyPlan(copy, self.chip)
            if len(plans) > PLANS_KEPT:
                del plans[next(iter(plans))]
        return plan

    def _finish(
        self,
        index: int,
        copy: DmaCopy,
        stream: DmaStream | BurstStream,
        start: int,
        *,
        values: Any,
        sources: Any,
    ) -> None:
        if not isinstance(stream, DmaStream):
            stream.conclude()
        first, done = stream.span()
        self.context.recorder.transfers.add(stream.runs_by_size())
        for run in stream.progress:
            self.claim("streaming", run.tick, run.tick + run.slots * self.period)
        is_foretold = sources is not None
        if not is_foretold:
            seen = (done + self.post_delay,) * self.chip.dma.posts_per_copy
            sources = self.announce(copy.posts, lambda _: lambda: seen)
        self.settle(sources)
        self.finish(InstructionTimes(index, self.name, start, first, done, done), stream)
        for port, cycles in stream.port_cycles.items():
            self.context.recorder.port_cycles[port] += cycles * self.period
        if values is not None:
            order: Any = slice(None)
            if isinstance(copy, DmaTranspose):
                order = source_order(copy)
            moved = values.ravel()[order]
            self._record("read", index, copy.source, stream, moved, order=order)
            self._record("write", index, copy.target, stream, moved)
        if not is_foretold:
            self._free_place()

    def _free_place(self) -> None:
        """Let the next copy start and move, after one whose end could not be foretold."""
        self._under_way -= 1
        if self._ended is not None and not self._ended.triggered:
            self._ended.succeed()
        if self._outstanding > 1:
            self._stream = None
            self._look_at_line(0)

    def _record(
        self,
        kind: str,
        index: int,
        access: Access,
        stream: DmaStream | BurstStream,
        values: Any,
        *,
        order: Any = slice(None),
    ) -> None:
        """Record the words of one side. order: in which its elements move, if not in their own."""
        if not self.context.recorder.wants(kind):
            return
        sizes = stream.sizes // access.element_bytes
        partitions = np.repeat(np.arange(access.partitions) + access.partition, access.elements)
        self.context.recorder.words(
            kind,
            self.name,
            index,
            Words(
                ticks=np.repeat(stream.descriptor_ticks(), sizes),
                partitions=partitions[order],
                addresses=np.tile(access.offsets(), access.partitions)[order],
                buffer=access.buffer,
                dtype=access.dtype,
                values=values,
            ),
        )
