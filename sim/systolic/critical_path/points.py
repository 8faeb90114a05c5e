"""Points in the life of an instruction, from which others go on; and what it did up to a point.

Times are ticks. Everything is derived from the records of a finished run, so a run that is not
explained pays nothing. Not here: which point an instruction waited for (`causes`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.critical_path.streamed import streamed
from systolic.hw.formulas.timing import dma_latency_cycles, result_depth, right_cycles
from systolic.hw.spec import Chip
from systolic.hw.units import kind_of
from systolic.isa import (
    Access,
    Buffer,
    Command,
    DmaCopy,
    Instruction,
    LoadWeights,
    MatMul,
    OnEngine,
    Program,
)
from systolic.isa.effects import reads, writes
from systolic.isa.engines import pace_of
from systolic.isa.streaming import Streaming
from systolic.trace.records import FetchTimes, InstructionTimes, Stall, Trace


class Point(NamedTuple):
    """An instruction has come so far that others may go on.

    tick: the end of the cycle that brought it there. streamed: until when it moved operands on the
    way; from there to `tick` results were on their way, or nothing more was needed. refused: the
    cycles before `tick` in which another waited for a port that the instruction had, or None.
    """

    instruction: int
    tick: int
    streamed: int
    refused: Stall | None = None


class Stint(NamedTuple):
    """An instruction did one thing, by its label, from tick `first` to before tick `stop`.

    stall: the record, if a port was refused.
    """

    first: int
    stop: int
    reason: str
    stall: Stall | None = None


@dataclass(frozen=True, eq=False)
class Lives:
    """What the instructions of a finished run did, each looked up by its index."""

    chip: Chip
    program: Program
    trace: Trace

    def chip_of(self, index: int) -> Chip:
        """Return the hardware that an instruction runs on: the core, if there are several."""
        return self.chip

    def chip_with(self, buffer: str) -> Chip:
        """Return the core that has a buffer, by its name."""
        return self.chip

    def local(self, unit: str) -> str:
        """Return the name of a unit in its core."""
        return unit

    def latency_ticks(self, index: int) -> int:
        """Return the ticks from the start of a copy until it may move its first descriptor."""
        copy = self.instruction(index)
        assert isinstance(copy, DmaCopy)
        outside = Buffer.DRAM in (copy.source.buffer, copy.target.buffer)
        return dma_latency_cycles(self.chip, dram=outside) * self.period(index)

    def hop_ticks(self, index: int, semaphore: int) -> int:
        """Return the ticks that a post takes longer than within a core."""
        return 0

    def touched(self, index: int, *, is_read: bool) -> list[tuple[str, Access]]:
        """Return what an instruction reads or writes, with the names of the buffers."""
        instruction = self.instruction(index)
        accesses = reads(instruction) if is_read else writes(instruction)
        return [(access.buffer, access) for access in accesses]

    @cached_property
    def times(self) -> dict[int, InstructionTimes]:
        """Return when each instruction did what."""
        return {each.instruction: each for each in self.trace.times}

    @cached_property
    def stalls(self) -> dict[int, list[Stall]]:
        """Return the refused ports of each instruction, in order of time."""
        found: defaultdict[int, list[Stall]] = defaultdict(list)
        for stall in self.trace.stalls:
            found[stall.instruction].append(stall)
        return dict(found)

    @cached_property
    def fetches(self) -> dict[int, FetchTimes]:
        """Return when each instruction was fetched."""
        return {each.instruction: each for each in self.trace.fetches}

    @cached_property
    def streaming(self) -> dict[int, Streaming]:
        """Return how the vectors of each multiply were streamed."""
        return streamed(self.program, self.chip, self.trace)

    @cached_property
    def queues(self) -> dict[str, list[int]]:
        """Return the instructions of each queue, in order."""
        return self.program.queues()

    @cached_property
    def _copies(self) -> dict[int, int]:
        """Return the tick at which each copy begins with its first descriptor."""
        found = {}
        for queue, indices in self.queues.items():
            free = 0
            for index in indices if kind_of(self.local(queue)) == "dma" else ():
                found[index] = max(self.ready(index), free)
                free = self.end(index).tick
        return found

    def instruction(self, index: int) -> Instruction:
        """Return an instruction."""
        return self.program.instructions[index]

    def period(self, index: int) -> int:
        """Return the ticks of a cycle of an instruction's unit."""
        return self.trace.periods[self.times[index].unit]

    # -- points ------------------------------------------------------------------------------------

    def start(self, index: int) -> Point:
        """Return the start of an instruction, before it has done anything."""
        start = self.times[index].start
        return Point(index, start, start)

    def first(self, index: int) -> Point:
        """Return the point just before the first operand moves."""
        first = self.times[index].first
        return Point(index, first, first)

    def last(self, index: int, *, before: bool = False, cycles: int = 1) -> Point:
        """Return the point some cycles behind the last operand, or just before it."""
        last, period = self.times[index].last, self.period(index)
        if before:
            return Point(index, last, last)
        stop = last + cycles * period
        return Point(index, stop, stop)

    def held(self, index: int, stall: Stall) -> Point:
        """Return the point at which an instruction gave up a port that was refused to another."""
        tick = stall.tick + stall.cycles * self.trace.periods[stall.unit]
        return Point(index, tick, min(self.times[index].last + self.period(index), tick), stall)

    def drained(self, index: int, cycles: int) -> Point:
        """Return the point some cycles behind the last operand, on the way through the array."""
        last, period = self.times[index].last, self.period(index)
        return Point(index, last + cycles * period, min(last + period, last + cycles * period))

    def end(self, index: int) -> Point:
        """Return the end of an instruction: the cycle of its last write is over."""
        times, period = self.times[index], self.period(index)
        return Point(index, times.done + period, times.last + period)

    def results(self, index: int, on: str) -> list[Point]:
        """Return when an instruction makes the posts on an event: done, every row or partition."""
        instruction = self.instruction(index)
        if isinstance(instruction, DmaCopy):
            return [self.end(index)] * self.chip_of(index).dma.posts_per_copy
        if on == "done" or not isinstance(instruction, MatMul):
            return [self.end(index)]
        chip = self.chip_of(index)
        period, array = self.period(index), chip.pe_array
        depth, columns = result_depth(chip), instruction.result.lanes
        if on == "partition":
            last = self.times[index].last
            behind = [(depth + right_cycles(array, c) + 1) * period for c in range(*columns)]
            return [Point(index, last + ticks, last + period) for ticks in behind]
        behind_row = (depth + right_cycles(array, columns.stop - 1) + 1) * period
        return [
            Point(index, tick + behind_row, tick + period)
            for tick in self._injections(index, instruction).tolist()
        ]

    def _injections(self, index: int, multiply: MatMul) -> npt.NDArray[np.int64]:
        """Return the tick of every vector of the last pass: refused cycles shift what follows."""
        vectors = multiply.vectors
        spacing, passes = self.streaming[index]
        period, start = self.period(index), self.times[index].start
        slots = np.arange(vectors * passes, dtype=np.int64) * spacing
        ticks = start + slots * period
        for stall in self.stalls.get(index, ()):
            ticks[ticks >= stall.tick] += stall.cycles * period
        return ticks[-vectors:]

    # -- what it did -------------------------------------------------------------------------------

    def ready(self, index: int) -> int:
        """Return the tick at which the latency of a copy is over."""
        return self.times[index].start + self.latency_ticks(index)

    def begin(self, index: int) -> int:
        """Return the tick at which a copy begins with its first descriptor."""
        return self._copies[index]

    def stints(self, point: Point) -> Iterator[Stint]:
        """Yield what an instruction did up to a point, without gaps, the earliest first.

        A copy in line behind another of its queue begins with its first descriptor; every other
        instruction begins with its start.
        """
        first = self.times[point.instruction].start
        for each in self._plain(point, first):
            yield from _without(each, self.stalls.get(point.instruction, ()), self.trace.periods)

    def _plain(self, point: Point, first: int) -> Iterator[Stint]:
        """Yield the stints as if no port had been refused."""
        index, instruction = point.instruction, self.instruction(point.instruction)
        match instruction:
            case LoadWeights():
                parts = [("loading", point.tick)]
            case MatMul():
                parts = [("streaming", point.streamed), ("draining", point.tick)]
            case DmaCopy():
                ready, begin = self.ready(index), self.begin(index)
                first = begin if begin > ready else first
                parts = [("latency", begin), ("moving", point.tick)]
            case OnEngine():
                chip = self.chip_of(index)
                fixed = pace_of(instruction, chip.engine(instruction.engine), chip)
                read = first + fixed.fixed_cycles * self.period(index)
                parts = [("fixed cycles", read), ("streaming", point.streamed)]
                parts.append(("draining", point.tick))
            case Command():
                parts = [("command", point.tick)]
        for reason, stop in parts:
            stop = min(stop, point.tick)
            if stop > first:
                yield Stint(first, stop, reason)
                first = stop


def _without(stint: Stint, stalls: Sequence[Stall], periods: dict[str, int]) -> Iterator[Stint]:
    """Yield a stint with the refused cycles cut out of it, and these as stints of their own."""
    first = stint.first
    for stall in stalls:
        stop = stall.tick + stall.cycles * periods[stall.unit]
        low, high = max(first, stall.tick), min(stop, stint.stop)
        if low < high:
            if first < low:
                yield stint._replace(first=first, stop=low)
            yield Stint(low, high, f"stalled by {stall.winner}", stall)
            first = high
    if first < stint.stop:
        yield stint._replace(first=first)
