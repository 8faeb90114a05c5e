"""The activation and the pooling engine of the event engine: lanes that read, and write later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sim.hw.datatypes import data_type
from sim.isa import Access, Buffer, Copy, Instruction, Memset
from sim.machine.event.ports import Stretch, group_stretches, merge
from sim.machine.event.stream import Stream
from sim.machine.event.unit import Context, Process, Unit
from sim.machine.memory import cast
from sim.trace.record import InstructionTimes


class _UnderWay(NamedTuple):
    """An instruction that holds lanes first <= lane < stop until access `last_read`."""

    first: int
    stop: int
    stream: Stream
    last_read: int


class EngineUnit(Unit):
    """One lane per partition; instructions on disjoint lanes overlap if the chip says so."""

    def __init__(self, context: Context, name: str, queue: Sequence[int]) -> None:
        spec = getattr(context.chip, name)
        super().__init__(context, name, name, queue, spec.dispatch_cycles)
        self._spec = spec
        self._under_way: list[_UnderWay] = []
        self._last_start = -1
        self._rank = context.chip.port_priority.index(name)

    def earliest(self, instruction: Instruction) -> int:
        """Return the first tick at which its lanes are free and the interval has passed."""
        assert isinstance(instruction, Copy | Memset)
        if self._last_start < 0:
            return 0
        interval = max(1, self._spec.min_interval_cycles)
        tick: int = self._last_start + interval * self.period
        now = self.env.tick
        first, stop = _lanes(instruction)
        still = []
        for other in self._under_way:
            free = other.stream.tick_of(other.last_read) + self.period
            if free > now:
                still.append(other)
            if not self._spec.independent_lanes or (first < other.stop and other.first < stop):
                tick = max(tick, free)
        self._under_way = still
        return tick

    def start(self, index: int, instruction: Instruction, *, asks_last: bool) -> None:
        """Begin a copy or a fill in the present tick."""
        assert isinstance(instruction, Copy | Memset)
        now = self.env.tick
        self._last_start = now
        stream, reads = self._stream(index, instruction)
        stream.begin(now + self._spec.fixed_cycles * self.period)
        self._under_way.append(_UnderWay(*_lanes(instruction), stream, reads - 1))
        values = self._move(instruction) if self.context.values else None
        last = stream.timeline.slots - 1
        sources = self.announce(instruction.posts, lambda _: (stream.tick_of(last),))
        self.env.process(self._execute(index, instruction, stream, reads, values, sources))

    def _stream(self, index: int, instruction: Copy | Memset) -> tuple[Stream, int]:
        rate, latency = self._spec.elements_per_cycle, self._spec.latency_cycles
        reads = -(-instruction.target.elements // rate)
        slots = reads + latency
        first: list[Stretch] = []
        if isinstance(instruction, Copy):
            first = self._stretches(instruction.source, "read", 0)
        timeline = merge(first, self._stretches(instruction.target, "write", latency), slots)
        stream = Stream(
            self.env,
            unit=self.name,
            client=self.name,
            instruction=index,
            rank=(self._rank, index),
            period=self.period,
            timeline=timeline,
        )
        return stream, reads

    def _stretches(self, access: Access, direction: str, shift: int) -> list[Stretch]:
        spec = self.chip.state_buffer if access.buffer is Buffer.STATE else self.chip.result_buffer
        return group_stretches(
            access, self._spec.elements_per_cycle, spec.bank_bytes, direction, shift
        )

    def _move(self, instruction: Copy | Memset) -> tuple[Any, Any]:
        memory, target = self.context.memory, instruction.target
        if isinstance(instruction, Memset):
            dtype = data_type(target.dtype).numpy
            source = None
            result = np.full((target.partitions, target.elements), instruction.value, dtype)
        else:
            source = memory.read(instruction.source)
            result = cast(source, target.dtype)
        memory.write(target, result)
        return source, result

    def _execute(
        self,
        index: int,
        instruction: Copy | Memset,
        stream: Stream,
        reads: int,
        values: tuple[Any, Any] | None,
        sources: Any,
    ) -> Process:
        start = self.env.tick
        if self._spec.fixed_cycles:
            yield self.env.timeout(self._spec.fixed_cycles * self.period)
        self.context.arbiter.add(stream)
        yield stream.finished
        ticks = stream.ticks()
        latency = self._spec.latency_cycles
        done = int(ticks[-1])
        self._claim_streaming(stream, reads)
        self.claim("filling", start, int(ticks[latency]), index)
        self.claim("draining", int(ticks[latency]), done + self.period, index)
        self.settle(sources)
        last_read = int(ticks[reads - 1])
        self.finish(
            InstructionTimes(index, self.name, start, int(ticks[0]), last_read, done), stream
        )
        if values:
            if isinstance(instruction, Copy):
                self._record("read", index, instruction.source, ticks[:reads], values[0])
            self._record("write", index, instruction.target, ticks[latency:], values[1])

    def _claim_streaming(self, stream: Stream, reads: int) -> None:
        for run in stream.progress:
            slots = min(run.slot + run.slots, reads) - run.slot
            self.claim("streaming", run.tick, run.tick + slots * self.period)

    def _record(
        self, kind: str, index: int, access: Access, ticks: npt.NDArray[np.int64], values: Any
    ) -> None:
        if not self.context.recorder.wants(kind):
            return
        lanes, elements = access.partitions, access.elements
        group = np.arange(elements) // self._spec.elements_per_cycle
        when = np.broadcast_to(ticks[group][None, :], (lanes, elements))
        partitions = np.broadcast_to(
            np.arange(lanes)[:, None] + access.partition, (lanes, elements)
        )
        addresses = np.broadcast_to(access.offsets()[None, :], (lanes, elements))
        self.context.recorder.words(
            kind, self.name, index, when.ravel(), partitions.ravel(), addresses.ravel(),
            access.dtype, np.ascontiguousarray(values).ravel(),
        )  # fmt: skip


def _lanes(instruction: Copy | Memset) -> tuple[int, int]:
    access = instruction.source if isinstance(instruction, Copy) else instruction.target
    return access.partition, access.partition + access.partitions
