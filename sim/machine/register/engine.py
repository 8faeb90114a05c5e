"""The activation and the pooling engine: lanes that read, and write some cycles later.

Each instruction has a clock of its own that stands still in a cycle in which a port is refused.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sim.hw.spec import Engine
from sim.isa import Access, Copy, Memset
from sim.machine.memory import cast
from sim.machine.register.context import Context
from sim.machine.register.ports import Lanes, PortTuple
from sim.machine.register.unit import NEVER, Job, Unit

Array = npt.NDArray[Any]


def _lanes(access: Access) -> Lanes:
    return access.partition, access.partition + access.partitions


class LaneJob(Job):
    """A Copy or Memset in its lanes.

    step: cycles it was not held back since it started; groups: element groups to read; begun,
    wrote: cycles of its start and first write.
    """

    def __init__(self, index: int, instruction: Copy | Memset, rate: int) -> None:
        super().__init__(index)
        self.target = instruction.target
        self.source = instruction.source if isinstance(instruction, Copy) else None
        self.value = instruction.value if isinstance(instruction, Memset) else 0
        self.rate = rate
        self.groups = -(-self.target.elements // rate)
        self.lanes = _lanes(self.source or self.target)
        self.target_lanes = _lanes(self.target)
        self.reads: list[PortTuple] = []
        self.writes: list[PortTuple] = []
        self.source_offsets = self.source.offsets() if self.source else np.zeros(0, np.int64)
        self.target_offsets = self.target.offsets()
        self.values: dict[int, Array] = {}
        self.step = 0
        self.begun = 0
        self.wrote = NEVER
        self.is_reading = True


class LaneEngine(Unit):
    """One engine: jobs in flight, oldest first. Only the youngest few still read."""

    def __init__(self, context: Context, name: Literal["activation", "pooling"]) -> None:
        spec: Engine = getattr(context.chip, name)
        self._spec = spec
        self._jobs: list[LaneJob] = []
        self._landing: list[tuple[Array, slice, Array, Array]] = []
        self._last_start = -NEVER
        self._stalled_in = -1
        super().__init__(context, name, context.chip.period(name), spec.dispatch_cycles)

    def request(self, tick: int) -> None:
        """Let every instruction in flight do its next step, the oldest first."""
        done = False
        for job in self._jobs:
            refused = self._refused(job, tick)
            if refused >= 0:
                self._hold_back(job, refused)
            else:
                done |= self._advance(job, tick)
        if done:
            self._jobs = [job for job in self._jobs if job.step < self._steps(job)]

    def _steps(self, job: LaneJob) -> int:
        return self._spec.fixed_cycles + self._spec.latency_cycles + job.groups

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
        head = self.head
        assert isinstance(head, Copy | Memset)
        low, high = _lanes(head.source if isinstance(head, Copy) else head.target)
        return not any(job.lanes[0] < high and low < job.lanes[1] for job in reading)

    def _make_job(self) -> Job:
        head = self.head
        assert isinstance(head, Copy | Memset)
        rate = self._spec.elements_per_cycle
        job = LaneJob(self.head_index, head, rate)
        if job.source is not None:
            job.reads = self._ports.of_groups(job.source, "read", rate)
        job.writes = self._ports.of_groups(job.target, "write", rate)
        return job

    def _launch(self, job: Job, cycle: int) -> None:
        assert isinstance(job, LaneJob)
        job.begun = self._last_start = cycle
        self._jobs.append(job)

    def _needs(self, job: LaneJob) -> tuple[PortTuple, PortTuple]:
        group = job.step - self._spec.fixed_cycles
        written = group - self._spec.latency_cycles
        reads = job.reads[group] if job.reads and 0 <= group < job.groups else ()
        return reads, job.writes[written] if 0 <= written < job.groups else ()

    def _refused(self, job: LaneJob, tick: int) -> int:
        """Take the ports of the job's next step, all or none; return the first one refused."""
        reads, writes = self._needs(job)
        ports, name = self._ports, self.name
        for port in reads:
            if ports.is_taken(port, tick, name, job.lanes):
                return port
        for port in writes:
            if ports.is_taken(port, tick, name, job.target_lanes):
                return port
        for port in reads:
            ports.take_lanes(port, tick, self.period, name, name, job.lanes)
        for port in writes:
            ports.take_lanes(port, tick, self.period, name, name, job.target_lanes)
        return -1

    def _hold_back(self, job: LaneJob, port: int) -> None:
        winner = self._record_stall(job, port)
        if self._stalled_in != self.now:
            self._stalled_in = self.now
            self.claims.mark(f"stalled by {winner}", self.now, self.now + 1)

    def _advance(self, job: LaneJob, tick: int) -> bool:
        group = job.step - self._spec.fixed_cycles
        job.step += 1
        if 0 <= group < job.groups:
            self._read(job, group, tick)
        written = group - self._spec.latency_cycles
        if written < 0:
            return False
        self._write(job, written, tick)
        if written + 1 < job.groups:
            return False
        self._finish(job, tick)
        return True

    def _read(self, job: LaneJob, group: int, tick: int) -> None:
        self.claims.mark("streaming", self.now, self.now + 1)
        if job.first < 0:
            job.first = tick
        job.last = tick
        job.is_reading = group + 1 < job.groups
        if job.source is None:
            width = len(job.target_offsets[group * job.rate : (group + 1) * job.rate])
            value = cast(np.asarray(job.value), job.target.dtype)
            job.values[group] = np.full((job.target.partitions, width), value)
            return
        columns = job.source_offsets[group * job.rate : (group + 1) * job.rate]
        read = self.context.planes.of(job.source)[slice(*job.lanes), columns]
        self._record("read", job, job.source, tick, columns, read)
        job.values[group] = cast(read, job.target.dtype)

    def _write(self, job: LaneJob, group: int, tick: int) -> None:
        if job.wrote == NEVER:
            job.wrote = self.now
        columns = job.target_offsets[group * job.rate : (group + 1) * job.rate]
        values = job.values.pop(group)
        plane = self.context.planes.of(job.target)
        self._landing.append((plane, slice(*job.target_lanes), columns, values))
        self._record("write", job, job.target, tick, columns, values)

    def _record(
        self, kind: str, job: LaneJob, access: Access, tick: int, columns: Array, values: Array
    ) -> None:
        if not self.context.recorder.wants(kind):
            return
        partitions = np.repeat(np.arange(*_lanes(access)), len(columns))
        addresses = np.tile(columns, access.partitions)
        ticks = np.full(len(addresses), tick, np.int64)
        self.context.recorder.words(
            kind,
            self.name,
            job.index,
            ticks,
            partitions,
            addresses,
            access.dtype,
            values.reshape(-1),
        )

    def _finish(self, job: LaneJob, tick: int) -> None:
        recorder = self.context.recorder
        recorder.claim(self.name, "filling", job.begun, job.wrote)
        recorder.claim(self.name, "draining", job.wrote, self.now + 1)
        self._retire(job, tick)
