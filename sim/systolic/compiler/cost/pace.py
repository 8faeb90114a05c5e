"""An estimate of how long drafts take, for choosing between plans of one graph.

Every unit goes through its queue, and a draft begins when the drafts that it needs are done. This
is no bound and no machine: no cycle is lost at ports, and of the contention in DRAM only this
counts, that the bytes of all queues have to pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from systolic.compiler.cost.dma import copy_cycles
from systolic.compiler.ir.drafts import Draft
from systolic.hw.formulas.dram import dram_rate
from systolic.hw.formulas.timing import load_reads, result_cycles
from systolic.hw.spec import Chip
from systolic.isa import Buffer, DmaCopy, Instruction, LoadWeights, MatMul, OnEngine
from systolic.isa.effects import writes
from systolic.isa.engines import pace_of


def estimated_ticks(drafts: Sequence[Draft], chip: Chip) -> int:
    """Return about how many ticks the drafts take."""
    pace = _Timetable(chip)
    for draft in drafts:
        pace.add(draft)
    return max(pace.last, pace.dram_ticks)


@dataclass(slots=True)
class _Timetable:
    """The ticks in which each draft so far is done, and in which each queue can take the next."""

    chip: Chip
    done: list[int] = field(default_factory=list)
    free: dict[str, int] = field(default_factory=dict)
    last: int = 0
    dram_bytes: int = 0
    loaded: int = 0
    may_load: int = 0

    @property
    def dram_ticks(self) -> int:
        """Return the ticks in which all queues together move the bytes from and to DRAM."""
        rate = dram_rate(self.chip, self.chip.dma.queues)
        return self.dram_bytes * self.chip.period("dma") // rate

    def add(self, draft: Draft) -> None:
        """Note a draft, which begins when all that it needs is done and its unit can take it."""
        seen = self.chip.semaphore_cycles * self.chip.period("pe_array")
        ready = max((self.done[ref.step] + seen for ref in draft.needs), default=0)
        done = self._done(draft.instruction, ready)
        self.done.append(done)
        self.last = max(self.last, done)

    def _done(self, instruction: Instruction, ready: int) -> int:
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
        moving = multiply.moving
        first = max(ready, self.loaded, self.free.get("pe_array", 0))
        end = first + moving.elements * array.cycles_per_vector[moving.dtype] * period
        self.free["pe_array"] = end
        drained = (array.rows + array.cols) * period if array.weight_buffer == "serial" else 0
        self.may_load = first if array.weight_buffer == "double" else end + drained
        return end + result_cycles(self.chip, multiply.result.partitions) * period

    def _engine(self, work: OnEngine, ready: int) -> int:
        engine = self.chip.engine(work.engine)
        pace, period = pace_of(work, engine, self.chip), self.chip.period(work.engine)
        (target,) = writes(work)
        reads = pace.fixed_cycles + pace.cycles_for(target.elements)
        end = max(ready, self.free.get(work.engine, 0)) + reads * period
        self.free[work.engine] = end
        return end + engine.latency_cycles * period

    def _copy(self, copy: DmaCopy, ready: int) -> int:
        cycles = copy_cycles(self.chip, copy.source, copy.target)
        end = max(ready, self.free.get(copy.queue, 0)) + cycles * self.chip.period("dma")
        self.free[copy.queue] = end
        if Buffer.DRAM in (copy.source.buffer, copy.target.buffer):
            self.dram_bytes += copy.source.size_bytes
        return end
