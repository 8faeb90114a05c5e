"""Twin of `event.lane_engine.unit`: a chip's engines, whose lanes read, and write cycles later.

Each instruction has a clock of its own that stands still in a cycle in which a port is refused.
"""

from __future__ import annotations

import numpy as np

from systolic.arrays import Array
from systolic.hw.units import EngineName
from systolic.isa import Access, OnEngine
from systolic.isa.effects import lanes, reads_per_element, reads_per_lane, window, writes
from systolic.machine.register.context import Context
from systolic.machine.register.lane_engine.plan import Step, steps_of
from systolic.machine.register.lane_engine.rate import group_rate
from systolic.machine.register.ports.ports import Refused, Wanted
from systolic.machine.register.unit import NEVER, Job, Unit
from systolic.machine.values.lanes import OperandValues, compute
from systolic.trace.words import Words


class LaneJob(Job):
    """An instruction in its lanes.

    fixed_cycles: before its first step; step: cycles it was not held back since it started;
    operands: those of one element per lane first; held: what was read of each and not yet used;
    values: results to be written, by the step that completed them; begun, wrote: cycles of its
    start and first write.
    """

    def __init__(
        self, index: int, instruction: OnEngine, steps: list[Step], fixed_cycles: int
    ) -> None:
        super().__init__(index)
        self.fixed_cycles = fixed_cycles
        self.instruction = instruction
        self.steps = steps
        self.lanes = lanes(instruction)
        per_lane = reads_per_lane(instruction)
        self.per_lane = len(per_lane)
        self.operands = (*per_lane, *reads_per_element(instruction))
        self.offsets = [access.offsets() for access in self.operands]
        self.held: list[Array] = [np.zeros((0, 0))] * len(self.operands)
        (self.target,) = writes(instruction)
        self.target_offsets = self.target.offsets()
        self.values: dict[int, Array] = {}
        self.step = 0
        self.begun = 0
        self.wrote = NEVER
        self.is_reading = True

    def take(self, operand: int, values: Array) -> None:
        """Hold elements [lanes, read] of an operand until all that belongs to them is there."""
        held = self.held[operand]
        self.held[operand] = np.concatenate([held, values], axis=1) if held.size else values

    def results(self, outputs: slice) -> Array:
        """Return these elements of the target, whose operands have been read."""
        count = outputs.stop - outputs.start
        reach = count * window(self.instruction)
        per_lane, held = self.held[: self.per_lane], self.held[self.per_lane :]
        elements = [values[:, :reach] for values in held]
        self.held[self.per_lane :] = [values[:, reach:] for values in held]
        return compute(self.instruction, OperandValues(elements, per_lane, outputs.start, count))


class LaneEngine(Unit):
    """One engine: jobs in flight, oldest first. Only the youngest few still read."""

    def __init__(self, context: Context, name: EngineName) -> None:
        spec = context.chip.engine(name)
        self._spec = spec
        self._jobs: list[LaneJob] = []
        self._landing: list[tuple[Array, slice, Array, Array]] = []
        self._last_start = -NEVER
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
        if cycle < self._last_start + max(1, self._spec.min_interval_cycles):
            return False
        reading = [job for job in self._jobs if job.is_reading]
        if not self._spec.independent_lanes:
            return not reading
        assert isinstance(self.head, OnEngine)
        wanted = lanes(self.head)
        return not any(job.lanes.meets(wanted) for job in reading)

    def _make_job(self) -> Job:
        assert isinstance(self.head, OnEngine)
        rate = group_rate(self.head, self._spec, self.context.chip.port_width_bytes)
        steps = steps_of(self.head, rate, self._ports)
        return LaneJob(self.head_index, self.head, steps, rate.fixed_cycles)

    def _launch(self, job: Job, cycle: int) -> None:
        assert isinstance(job, LaneJob)
        job.begun = self._last_start = cycle
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
            if refused := ports.refused(want, tick, name):
                return refused
        for want in needs:
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
        self.claims.mark("streaming", self.now, self.now + 1)
        job.begin_work(tick)
        job.end_work(tick)
        job.is_reading = number + 1 < len(job.steps)
        step = job.steps[number]
        for operand, part in step.reads:
            access, columns = job.operands[operand], job.offsets[operand][part]
            values = self.context.planes.of(access)[slice(*access.lanes), columns]
            self._record("read", job, access, tick, columns=columns, values=values)
            job.take(operand, values)
        if step.outputs is not None:
            job.values[number] = job.results(step.outputs)

    def _write(self, job: LaneJob, number: int, tick: int) -> None:
        outputs = job.steps[number].outputs
        if outputs is None:
            return
        if job.wrote == NEVER:
            job.wrote = self.now
        columns, values = job.target_offsets[outputs], job.values.pop(number)
        plane = self.context.planes.of(job.target)
        self._landing.append((plane, slice(*job.target.lanes), columns, values))
        self._record("write", job, job.target, tick, columns=columns, values=values)

    def _record(
        self, kind: str, job: LaneJob, access: Access, tick: int, *, columns: Array, values: Array
    ) -> None:
        if not self.context.recorder.wants(kind):
            return
        addresses = np.tile(columns, access.partitions)
        self.context.recorder.words(
            kind,
            self.name,
            job.index,
            Words(
                ticks=np.full(len(addresses), tick, np.int64),
                partitions=np.repeat(np.arange(*access.lanes), len(columns)),
                addresses=addresses,
                dtype=access.dtype,
                values=values.reshape(-1),
            ),
        )

    def _finish(self, job: LaneJob, tick: int) -> None:
        recorder = self.context.recorder
        recorder.claim(self.name, "filling", job.begun, job.wrote)
        recorder.claim(self.name, "draining", job.wrote, self.now + 1)
        self._retire(job, tick)
