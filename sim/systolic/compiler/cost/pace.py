"""An estimate of how long drafts take, for choosing between plans of one graph.

Every unit goes through its queue, and a draft begins when the drafts that it needs are done. Copies
share what their bytes pass, the DMA engines and the channels of DRAM: those have one copy after
another, in the order in which the copies begin. This is no bound and no machine: no cycle is lost
at ports, and copies of several queues do not close one another's rows in DRAM.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from systolic.compiler.cost.dma import CopyTime, engine_pool, time_of
from systolic.compiler.ir.drafts import Draft
from systolic.hw.formulas.timing import load_reads, result_cycles
from systolic.hw.spec import Chip
from systolic.hw.units import unit_of
from systolic.isa import Command, DmaCopy, Instruction, LoadWeights, MatMul, OnEngine
from systolic.isa.effects import elements_taken, results_per_lane
from systolic.isa.engines import pace_of
from systolic.isa.streaming import streaming


def estimated_ticks(drafts: Sequence[Draft], chip: Chip) -> int:
    """Return about how many ticks the drafts take."""
    pace = _Timetable(chip, drafts)
    while pace.heads:
        pace.step()
    return pace.last


def done_ticks(drafts: Sequence[Draft], chip: Chip) -> dict[int, int]:
    """Return about when each draft is done, by its place, if all DMA queues move all the time.

    Then each has a part of DRAM's rate, where DRAM has one rate.
    """
    pace = _Timetable(chip, drafts, crowded=True)
    while pace.heads:
        pace.step()
    return pace.done


def array_ticks(drafts: Sequence[Draft], chip: Chip) -> int:
    """Return how many ticks the array takes vectors; no order of these drafts takes less."""
    work = (draft.instruction for draft in drafts)
    cycles = sum(_streaming_cycles(chip, each) for each in work if isinstance(each, MatMul))
    return cycles * chip.period("pe_array")


def _streaming_cycles(chip: Chip, multiply: MatMul) -> int:
    """Return the cycles for which a multiply keeps the array from the next."""
    array, moving = chip.pe_array, multiply.moving
    vectors = max(moving.elements, min(array.min_vectors, multiply.result.partitions))
    return vectors * streaming(multiply, array).vector_cycles


class _Head(NamedTuple):
    """The first draft of a queue: when it can begin, its number, and when its needs are done."""

    begin: int
    step: int
    ready: int
    queue: str


@dataclass(slots=True)
class _Timetable:
    """The ticks in which each draft so far is done, and in which each queue can take the next.

    waiting: the drafts of each queue that have not begun. heads: the first of each, where it is
    known when it can begin: a heap. lacking: by a draft that must be done before, the queues whose
    first draft waits for it. looked: by queue, how many needs of its first draft are done, and by
    when: they are not looked at again. seen: the ticks from when a draft of a queue is done to when
    others see it. shared: until when each engine of DMA and each channel of DRAM is busy.
    """

    chip: Chip
    drafts: Sequence[Draft]
    waiting: dict[str, deque[int]] = field(default_factory=dict)
    heads: list[_Head] = field(default_factory=list)
    lacking: dict[int, list[str]] = field(default_factory=dict)
    looked: dict[str, tuple[int, int]] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    free: dict[str, int] = field(default_factory=dict)
    shared: dict[tuple[str, int], float] = field(default_factory=dict)
    crowded: bool = False
    last: int = 0
    loaded: int = 0
    may_load: int = 0

    def __post_init__(self) -> None:
        for step, draft in enumerate(self.drafts):
            self.waiting.setdefault(draft.instruction.queue, deque()).append(step)
        for queue in self.waiting:
            unit = unit_of(queue)
            self.seen[queue] = self.chip.post_cycles(unit) * self.chip.period(unit)
        for queue in self.waiting:
            self._look_at_head(queue)

    def step(self) -> None:
        """Let the draft go that can begin first; of the heads of all queues one always can."""
        _, step, ready, queue = heappop(self.heads)
        waiting = self.waiting[queue]
        waiting.popleft()
        done = self.done[step] = self._done(self.drafts[step].instruction, ready)
        if done > self.last:
            self.last = done
        if waiting:
            self._look_at_head(queue)
        for other in self.lacking.pop(step, ()):
            self._look_at_head(other)

    def _look_at_head(self, queue: str) -> None:
        """Note when all that the first draft of a queue needs is done, or what has not begun.

        When its queue is free is known as well: the drafts before it, which alone take it, have
        begun.
        """
        step, all_done, seen = self.waiting[queue][0], self.done, self.seen
        before, ready = self.looked.pop(queue, (0, 0))
        needs = self.drafts[step].needs
        for place, (needed, by, *_) in enumerate(needs[before:] if before else needs, before):
            done = all_done.get(needed)
            if done is None:
                self.lacking.setdefault(needed, []).append(queue)
                self.looked[queue] = place, ready
                return
            if done + seen[by] > ready:
                ready = done + seen[by]
        heappush(self.heads, _Head(max(ready, self.free.get(queue, 0)), step, ready, queue))

    def _done(self, instruction: Instruction, ready: int) -> int:
        assert not isinstance(instruction, Command)
        match instruction:
            case LoadWeights():
                return self._load(instruction, ready)
            case MatMul():
                return self._multiply(instruction, ready)
            case DmaCopy():
                return self._copy(instruction, ready)
            case OnEngine():
                return self._engine(instruction, ready)

    def _load(self, load: LoadWeights, ready: int) -> int:
        period = self.chip.period("pe_array")
        weights = load.weights
        reads = load_reads(self.chip, weights.partitions, weights.elements, weights.dtype)
        self.loaded = max(ready, self.may_load, self.loaded) + reads * period
        return self.loaded

    def _multiply(self, multiply: MatMul, ready: int) -> int:
        array, period = self.chip.pe_array, self.chip.period("pe_array")
        first = max(ready, self.loaded, self.free.get("pe_array", 0))
        end = first + _streaming_cycles(self.chip, multiply) * period
        self.free["pe_array"] = end
        drained = (array.rows + array.cols) * period if array.weight_buffer == "serial" else 0
        self.may_load = first if array.weight_buffer == "double" else end + drained
        return end + result_cycles(self.chip, multiply.result.partitions) * period

    def _engine(self, work: OnEngine, ready: int) -> int:
        engine = self.chip.engine(work.engine)
        pace, period = pace_of(work, engine, self.chip), self.chip.period(work.engine)
        reads = pace.fixed_cycles + pace.cycles_for(elements_taken(work))
        end = max(ready, self.free.get(work.engine, 0)) + reads * period
        self.free[work.engine] = end
        behind = sum(access.elements for access in results_per_lane(work))
        return end + (engine.latency_cycles + behind) * period

    def _copy(self, copy: DmaCopy, ready: int) -> int:
        time, period = time_of(self.chip, copy), self.chip.period("dma")
        begin = max(ready, self.free.get(copy.queue, 0))
        moves = begin + time.latency * period
        end = moves + time.moving * period
        if self.crowded and time.channels and self.chip.dram.organisation is None:
            end += round(self._crowded_cycles(copy) * period)
        for share, cycles in self._shares(copy, time):
            self.shared[share] = max(self.shared.get(share, 0), moves) + cycles * period
            end = max(end, round(self.shared[share]))
        hidden = time.latency * period if self.chip.dma.outstanding > 1 else 0
        self.free[copy.queue] = max(begin, end - hidden)
        return end

    def _crowded_cycles(self, copy: DmaCopy) -> float:
        """Return how much longer a copy moves bytes if all queues share DRAM's rate."""
        alone = min(self.chip.dram.bytes_per_cycle, self.chip.dma.queue_bytes_per_cycle)
        together = self.chip.dram.bytes_per_cycle / self.chip.dma.useful_queues
        size = copy.source.size_bytes
        return max(0.0, size / together - size / alone)

    def _shares(self, copy: DmaCopy, time: CopyTime) -> list[tuple[tuple[str, int], float]]:
        """Return what a copy shares with others, and the DMA cycles that it keeps that busy."""
        engine = engine_pool(self.chip, copy.dma_queue)
        channels = [(("channel", n), cycles) for n, cycles in enumerate(time.channels)]
        return [(("engine", engine), time.engine), *channels]
