"""Twin of `event.lane_engine.unit`: a chip's engines, whose lanes read, and write cycles later.

Each instruction has a clock of its own that stands still in a cycle in which a port is refused.
"""

from __future__ import annotations

import numpy as np

from systolic.arrays import Array, Integers
from systolic.hw.units import EngineName
from systolic.isa import Access, LocalGather, OnEngine
from systolic.isa.effects import (
    block,
    is_running,
    keeps,
    lanes,
    moved_access,
    reads_beside,
    reads_per_element,
    reads_per_lane,
    scales_touched,
    steps,
    target_of,
    writes,
)
from systolic.machine.register.context import Context
from systolic.machine.register.lane_engine.plan import Step, steps_of
from systolic.machine.register.lane_engine.rate import GroupRate, group_rate
from systolic.machine.register.ports.ports import Refused, Wanted
from systolic.machine.register.unit import NEVER, Job, Unit
from systolic.machine.values.lanes import OperandValues, compute, results, scales
from systolic.machine.values.places import moved, offset_in, picked
from systolic.trace.words import Words


class LaneJob(Job):
    """An instruction in its lanes.

    program: its name, for messages; is_moved: the first operand moves another access;
    fixed_cycles: before its first step; apart_cycles: from its start to the next one's, at least;
    step: cycles it was not held back since it started; operands: operands of few elements per lane
    first; held: what was read of each, in its place; written: the target, then what is written once
    per lane; scales: what the scales of the target touch; values: results to be written, by the
    step that completed them; scale_values: their scales; begun, wrote: cycles of its start and
    first write.
    """

    def __init__(
        self, index: int, instruction: OnEngine, steps: list[Step], rate: GroupRate, *, program: str
    ) -> None:
        super().__init__(index)
        self.program = program
        self.is_moved = moved_access(instruction) is not None
        self.fixed_cycles, self.apart_cycles = rate.fixed_cycles, rate.apart_cycles
        self.instruction = instruction
        self.steps = steps
        self.lanes = lanes(instruction)
        per_lane = reads_per_lane(instruction) + reads_beside(instruction)
        self.per_lane = len(per_lane)
        self.operands = (*per_lane, *reads_per_element(instruction))
        self.offsets = [access.offsets() for access in self.operands]
        self.held: list[Array | None] = [None] * len(self.operands)
        self.target = target_of(instruction)
        self.target_offsets = self.target.offsets()
        self.written = writes(instruction)
        self.values: dict[int, Array] = {}
        self.scales = scales_touched(instruction)
        self.scale_values: dict[int, list[Array]] = {}
        self.step = 0
        self.begun = 0
        self.wrote = NEVER
        self.is_reading = True

    def take(self, operand: int, part: slice, values: Array) -> None:
        """Hold these elements of an operand, [lanes, read]."""
        held = self.held[operand]
        if held is None:
            shape = self.operands[operand].partitions, self.operands[operand].elements
            held = self.held[operand] = np.empty(shape, values.dtype)
        held[:, part] = values
        if self.is_moved and operand == 0:
            self._move(offset_in(self.program, self.index, self.instruction, values))

    def _move(self, offset: int) -> None:
        """Let what the offset moves lie where it says, now that it has been read."""
        instruction = moved(self.instruction, offset)
        (source,) = reads_per_element(instruction)
        self.offsets[-1], self.target_offsets = source.offsets(), target_of(instruction).offsets()

    def columns(self, operand: int, part: slice) -> Integers:
        """Return which elements of its partitions the operand's elements are, [elements].

        Of what is picked they are of each partition on its own, [partitions, elements].
        """
        if isinstance(self.instruction, LocalGather) and operand == self.per_lane:
            index = self.held[operand - 1]
            assert index is not None
            return picked(self.program, self.index, self.instruction, index, part)
        return self.offsets[operand][part]

    def outputs(self, outputs: slice, kept: Array | None) -> Array:
        """Return these elements of the target, whose operands have been read.

        kept: what the target has there, if the instruction leaves some of it as it is.
        """
        _, made = block(self.instruction)
        first = 0 if is_running(self.instruction) else outputs.start // made
        blocks = slice(first, -(-outputs.stop // made))
        values = compute(self.instruction, self._read(blocks, kept))
        return values[:, outputs.start - first * made : outputs.stop - first * made]

    def scales_of(self, groups: slice) -> list[Array]:
        """Return the scales of some groups of the target, whose operands have been read."""
        return scales(self.instruction, self._read(groups, None))

    def result(self, number: int) -> Array:
        """Return a result of few elements per lane, when all operands have been read."""
        _, made = block(self.instruction)
        whole = slice(0, self.target.elements // made)
        return results(self.instruction, self._read(whole, None))[number]

    def _read(self, blocks: slice, kept: Array | None) -> OperandValues:
        """Return what was read for some blocks of the target."""
        read, made = block(self.instruction)
        held = [values for values in self.held if values is not None]
        per_lane, held = held[: self.per_lane], held[self.per_lane :]
        elements = [values[:, blocks.start * read : blocks.stop * read] for values in held]
        count = (blocks.stop - blocks.start) * made
        return OperandValues(elements, per_lane, blocks.start * made, count, kept)


class LaneEngine(Unit):
    """One engine: jobs in flight, oldest first. Only the youngest few still read."""

    def __init__(self, context: Context, name: EngineName) -> None:
        spec = context.chip.engine(name)
        self._spec = spec
        self._jobs: list[LaneJob] = []
        self._landing: list[tuple[Array, slice, Array, Array]] = []
        self._next_start = 0
        self._held_table: tuple[str, ...] = ()
        self._stalled_in = -1
        super().__init__(context, name, context.chip.period(name), spec)

    def request(self, tick: int) -> None:
        """Let every instruction in flight do its next step, the oldest first."""
        done = False
        for job in self._jobs:
            refused = self._refused(job, tick)
            if refused:
                self._hold_back(job, refused)
            else:
                done |= self._advance(job, tick)
        if done:
            self._jobs = [job for job in self._jobs if job.step < self._steps(job)]

    def _steps(self, job: LaneJob) -> int:
        return job.fixed_cycles + self._spec.latency_cycles + len(job.steps)

    def _land(self) -> None:
        for plane, partitions, columns, values in self._landing:
            plane[partitions, columns] = values
        self._landing.clear()

    def _is_resting(self) -> bool:
        return not self._jobs

    def _can_start(self, cycle: int) -> bool:
        if cycle < self._next_start:
            return False
        reading = [job for job in self._jobs if job.is_reading]
        assert isinstance(self.head, OnEngine)
        if not self._spec.independent_lanes or self._missing_table(self.head):
            return not reading
        wanted = lanes(self.head)
        return not any(job.lanes.meets(wanted) for job in reading)

    def _missing_table(self, instruction: OnEngine) -> tuple[str, ...]:
        """Return the table that must be loaded before an instruction; () if none must."""
        for word in steps(instruction):
            holding = [table for table in self._spec.tables if word in table]
            if holding:
                return () if word in self._held_table else holding[0]
        return ()

    def _make_job(self) -> Job:
        assert isinstance(self.head, OnEngine)
        rate = group_rate(self.head, self._spec, self.context.chip.port_width_bytes)
        steps = steps_of(self.head, rate, self._ports)
        program = self.context.program.name
        return LaneJob(self.head_index, self.head, steps, rate, program=program)

    def _launch(self, job: Job, cycle: int) -> None:
        assert isinstance(job, LaneJob)
        job.begun = cycle
        loading = 0
        if table := self._missing_table(job.instruction):
            self._held_table, loading = table, self._spec.table_cycles
            self.claims.mark("loading", cycle, cycle + loading)
        job.fixed_cycles += loading
        self._next_start = cycle + max(1, job.apart_cycles, loading)
        self._jobs.append(job)

    def _needs(self, job: LaneJob) -> list[Wanted]:
        read = job.step - job.fixed_cycles
        written = read - self._spec.latency_cycles
        wanted = job.steps[read].read_ports if 0 <= read < len(job.steps) else []
        return wanted + job.steps[written].write_ports if written >= 0 else wanted

    def _refused(self, job: LaneJob, tick: int) -> Refused | None:
        """Take the ports of the job's next step, all or none; return the first one refused."""
        needs = self._needs(job)
        ports, name = self._ports, self.name
        for want in needs:
            if refused := ports.excluded(want.port, tick, name) or ports.refused(want, tick, name):
                return refused
        for want in needs:
            ports.use_buffer(want.port, tick + self.period, name)
            ports.take(want, tick, self.period, name, is_engine=True)
        return None

    def _hold_back(self, job: LaneJob, refused: Refused) -> None:
        winner = self._record_stall(job, refused)
        if self._stalled_in != self.now:
            self._stalled_in = self.now
            self.claims.mark(f"stalled by {winner}", self.now, self.now + 1)

    def _advance(self, job: LaneJob, tick: int) -> bool:
        read = job.step - job.fixed_cycles
        job.step += 1
        if 0 <= read < len(job.steps):
            self._read(job, read, tick)
        written = read - self._spec.latency_cycles
        if written < 0:
            return False
        self._write(job, written, tick)
        if written + 1 < len(job.steps):
            return False
        self._finish(job, tick)
        return True

    def _read(self, job: LaneJob, number: int, tick: int) -> None:
        step = job.steps[number]
        if not step.is_behind:
            self.claims.mark("streaming", self.now, self.now + 1)
            job.begin_work(tick)
            job.end_work(tick)
        job.is_reading = number + 1 < len(job.steps) and not job.steps[number + 1].is_behind
        for operand, part in step.reads:
            access, columns = job.operands[operand], job.columns(operand, part)
            plane = self.context.planes.of(access)
            if columns.ndim == 1:
                values = plane[slice(*access.lanes), columns]
            else:
                values = plane[np.arange(*access.lanes)[:, None], columns]
            self._record("read", job, access, tick, columns=columns, values=values)
            job.take(operand, part, values)
        if step.outputs is not None:
            job.values[number] = job.outputs(step.outputs, self._kept(job, step.outputs))
            if step.scales is not None:
                job.scale_values[number] = job.scales_of(step.scales)
        elif step.result is not None:
            result, element = step.result
            job.values[number] = job.result(result)[:, element : element + 1]

    def _kept(self, job: LaneJob, outputs: slice) -> Array | None:
        """Return what the target has in the places of these results, if some of it stays."""
        if not keeps(job.instruction):
            return None
        plane = self.context.planes.of(job.target)
        found: Array = plane[slice(*job.target.lanes), job.target_offsets[outputs]]
        return found

    def _write(self, job: LaneJob, number: int, tick: int) -> None:
        step = job.steps[number]
        if step.outputs is not None:
            access, columns = job.target, job.target_offsets[step.outputs]
        elif step.result is not None:
            result, element = step.result
            access = job.written[1 + result]
            columns = access.offsets()[element : element + 1]
        else:
            return
        if job.wrote == NEVER:
            job.wrote = self.now
        self._land_later(job, access, tick, columns=columns, values=job.values.pop(number))
        if step.scales is not None:
            for part, values in zip(job.scales, job.scale_values.pop(number), strict=True):
                at = part.offsets()[step.scales]
                self._land_later(job, part, tick, columns=at, values=values)

    def _land_later(
        self, job: LaneJob, access: Access, tick: int, *, columns: Array, values: Array
    ) -> None:
        """Let the next cycle see these elements of what an instruction writes."""
        plane = self.context.planes.of(access)
        self._landing.append((plane, slice(*access.lanes), columns, values))
        self._record("write", job, access, tick, columns=columns, values=values)

    def _record(
        self, kind: str, job: LaneJob, access: Access, tick: int, *, columns: Array, values: Array
    ) -> None:
        if not self.context.recorder.wants(kind):
            return
        addresses = np.tile(columns, access.partitions) if columns.ndim == 1 else columns.ravel()
        self.context.recorder.words(
            kind,
            self.name,
            job.index,
            Words(
                ticks=np.full(len(addresses), tick, np.int64),
                partitions=np.repeat(np.arange(*access.lanes), columns.shape[-1]),
                addresses=addresses,
                buffer=access.buffer,
                dtype=access.dtype,
                values=values.reshape(-1),
            ),
        )

    def _finish(self, job: LaneJob, tick: int) -> None:
        recorder = self.context.recorder
        recorder.claim(self.name, "filling", job.begun, job.wrote)
        recorder.claim(self.name, "draining", job.wrote, self.now + 1)
        self._retire(job, tick)
