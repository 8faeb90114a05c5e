"""Twin of `register.lane_engine.unit`: a chip's engines, whose lanes read, and write later."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from systolic.arrays import Array, Integers
from systolic.hw.units import EngineName
from systolic.isa import Access, Instruction, LocalGather, OnEngine
from systolic.isa.effects import (
    keeps,
    moved_access,
    reads_beside,
    reads_per_element,
    reads_per_lane,
    results_per_lane,
    scales_touched,
    steps,
    target_of,
)
from systolic.machine.event.lane_engine.plan import (
    BankNumbers,
    LanePlan,
    Moves,
    form_of,
    likeness,
    moves_of,
    plan_of,
)
from systolic.machine.event.ports.stream import Asker, Stream
from systolic.machine.event.unit import Context, Unit
from systolic.machine.values.lanes import OperandValues, compute_all
from systolic.machine.values.places import moved, offset_in, picked
from systolic.spans import Interval
from systolic.trace.records import InstructionTimes
from systolic.trace.words import Words

PLANS_KEPT = 256
NO_TABLE: frozenset[str] = frozenset()
"""What an engine can look up before it has loaded a table."""


class _UnderWay(NamedTuple):
    """An instruction that holds its lanes until access `last_read`."""

    lanes: Interval
    stream: Stream
    last_read: int


class _Moved(NamedTuple):
    """What was read or written: where, and the values, [partitions, elements].

    columns: which elements of each partition, if they are not the same in all, or not in order.
    """

    access: Access
    values: Array
    columns: Integers | None = None


class EngineUnit(Unit):
    """One lane per partition; instructions on disjoint lanes overlap if the chip says so."""

    def __init__(self, context: Context, name: EngineName, queue: Sequence[int]) -> None:
        spec = context.chip.engine(name)
        super().__init__(context, name, name, queue, spec)
        self._spec = spec
        self._under_way: list[_UnderWay] = []
        self._plans: dict[Hashable, LanePlan] = {}
        self._head: tuple[OnEngine, LanePlan] | None = None
        """The instruction asked for last, which is asked for again and again, and its plan."""
        self._forms: dict[Hashable, tuple[BankNumbers, LanePlan]] = {}
        self._last_start, self._interval = -1, 1
        self._table = NO_TABLE
        self._loaded = 0
        self._rank = context.rank(name)

    def earliest(self, instruction: Instruction) -> int:
        """Return the first tick at which its lanes are free and the interval has passed."""
        assert isinstance(instruction, OnEngine)
        if self._last_start < 0:
            return 0
        tick: int = max(self._last_start + self._interval * self.period, self._loaded)
        now = self.env.tick
        wanted = self._plan(instruction).lanes
        alone = not self._spec.independent_lanes or self._table_for(instruction) != self._table
        still = []
        for other in self._under_way:
            free = other.stream.tick_of(other.last_read) + self.period
            if free > now:
                still.append(other)
            if alone or other.lanes.meets(wanted):
                tick = max(tick, free)
        self._under_way = still
        return tick

    def start(self, index: int, instruction: Instruction, *, asks_last: bool) -> None:
        """Begin an instruction in the present tick."""
        assert isinstance(instruction, OnEngine)
        now = self.env.tick
        self._last_start = now
        plan = self._plan(instruction)
        self._interval = plan.interval_cycles
        fixed_cycles = plan.fixed_cycles + self._load_table(index, instruction)
        stream = self._stream(index, plan)
        stream.begin(now + fixed_cycles * self.period)
        self._under_way.append(_UnderWay(plan.lanes, stream, plan.steps - 1))
        values = self._compute(index, instruction) if self.context.values else None
        last = stream.timeline.slots - 1
        delay = self.post_delay
        sources = self.announce(
            instruction.posts, lambda _: lambda: (stream.tick_of(last) + delay,)
        )
        stream.then(
            lambda: self._finish(
                index, plan, stream, now, of=instruction, values=values, sources=sources
            )
        )
        self.add_later(stream, fixed_cycles)

    def _table_for(self, instruction: OnEngine) -> frozenset[str]:
        """Return the table that the instruction needs: the present one if it needs no other."""
        if not self._spec.tables:
            return self._table
        anywhere = frozenset[str]().union(*self._spec.tables)
        words = steps(instruction)
        looked_up = next((word for word in words if word in anywhere), "")
        if not looked_up or looked_up in self._table:
            return self._table
        return next(frozenset(table) for table in self._spec.tables if looked_up in table)

    def _load_table(self, index: int, instruction: OnEngine) -> int:
        """Load the table of an instruction that starts now; return the cycles that takes."""
        table = self._table_for(instruction)
        if table == self._table:
            return 0
        self._table, now, cycles = table, self.env.tick, self._spec.table_cycles
        self._loaded = now + cycles * self.period
        self.claim("loading", now, self._loaded, index)
        return cycles

    def _plan(self, instruction: OnEngine) -> LanePlan:
        """Return when the instruction moves what it moves: as one before that was alike."""
        if self._head is not None and self._head[0] is instruction:
            return self._head[1]
        key = likeness(instruction, self.chip)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._new_plan(instruction)
            if len(self._plans) > PLANS_KEPT:
                del self._plans[next(iter(self._plans))]
        self._head = instruction, plan
        return plan

    def _new_plan(self, instruction: OnEngine) -> LanePlan:
        """Return a plan, moved from other banks if an instruction of its form was planned."""
        form = form_of(instruction, self.chip)
        if form is not None and form.what in self._forms:
            banks, plan = self._forms[form.what]
            return plan.in_banks(banks, form.banks)
        plan = plan_of(instruction, self._spec, self.chip)
        if form is not None:
            self._forms[form.what] = form.banks, plan
            if len(self._forms) > PLANS_KEPT:
                del self._forms[next(iter(self._forms))]
        return plan

    def _stream(self, index: int, plan: LanePlan) -> Stream:
        asker = Asker(self.name, self.local, index, (self._rank, index), self.period)
        return self.stream(asker, plan.timeline)

    def _compute(self, index: int, instruction: OnEngine) -> tuple[_Moved, ...]:
        """Do the arithmetic and store it; return what was moved, in the order of the plan."""
        memory = self.context.memory
        few = reads_per_lane(instruction) + reads_beside(instruction)
        per_lane = [memory.read(access) for access in few]
        if moved_access(instruction) is not None:
            offset = offset_in(self.context.program.name, index, instruction, per_lane[0])
            instruction = moved(instruction, offset)
        target = target_of(instruction)
        if isinstance(instruction, LocalGather):
            columns = picked(self.context.program.name, index, instruction, per_lane[-1])
            source = instruction.source
            read = [_Moved(source, memory.pick(source, columns), columns)]
        else:
            read = [_Moved(a, memory.read(a)) for a in reads_per_element(instruction)]
        elements = [each.values for each in read]
        kept = memory.read(target) if keeps(instruction) else None
        operands = OperandValues(elements, per_lane, 0, target.elements, kept)
        made = compute_all(instruction, operands)
        written = target, *scales_touched(instruction), *results_per_lane(instruction)
        for access, values in zip(written, made, strict=True):
            memory.write(access, values)
        return *map(_Moved, few, per_lane), *read, *map(_Moved, written, made)

    def _finish(
        self,
        index: int,
        plan: LanePlan,
        stream: Stream,
        start: int,
        *,
        of: OnEngine,
        values: tuple[_Moved, ...] | None,
        sources: Any,
    ) -> None:
        first, last = stream.tick_of(0), stream.tick_of(plan.steps - 1)
        wrote, done = stream.tick_of(plan.first_write), stream.tick_of(plan.timeline.slots - 1)
        self._claim_streaming(stream, plan.steps)
        self.claim_filling(start, wrote, stream, plan.steps, index)
        self.claim("draining", wrote, done + self.period, index)
        self.settle(sources)
        self.finish(InstructionTimes(index, self.name, start, first, last, done), stream)
        if values and self.context.recorder.kinds:
            everything = moves_of(of, self._spec, self.chip)
            for moves, moved in zip(everything, values, strict=True):
                self._record(index, moves, stream, moved)

    def _claim_streaming(self, stream: Stream, steps: int) -> None:
        for run in stream.progress:
            slots = min(run.slot + run.slots, steps) - run.slot
            self.claim("streaming", run.tick, run.tick + slots * self.period)

    def _record(self, index: int, moves: Moves, stream: Stream, moved: _Moved) -> None:
        if not self.context.recorder.wants(moves.direction):
            return
        access = moved.access
        shape = moved.values.shape
        # Of the slots that move something only: a latency makes any number of others.
        when = np.broadcast_to(stream.ticks_at(moves.slots())[None, :], shape)
        partitions = np.broadcast_to(np.arange(shape[0])[:, None] + access.partition, shape)
        columns = access.offsets()[None, :] if moved.columns is None else moved.columns
        addresses = np.broadcast_to(columns, shape)
        self.context.recorder.words(
            moves.direction,
            self.name,
            index,
            Words(
                ticks=when.ravel(),
                partitions=partitions.ravel(),
                addresses=addresses.ravel(),
                buffer=access.buffer,
                dtype=access.dtype,
                values=np.ascontiguousarray(moved.values).ravel(),
            ),
        )
