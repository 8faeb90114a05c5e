"""The way out of the array: sums that reach the result buffer, its ports, and what they post.

Sums cannot wait, so nothing here is ever refused.
"""

from __future__ import annotations

import numpy as np

from systolic.arrays import Array
from systolic.isa import Buffer, MatMul
from systolic.machine.register.context import Context
from systolic.machine.register.pe_array.control import (
    ACCUMULATES,
    DOUBLE,
    FOURFOLD,
    INTEGER,
    THROUGH,
    kind_of,
)
from systolic.machine.register.pe_array.grid import Grid
from systolic.machine.register.pe_array.jobs import NARROW, MatMulJob
from systolic.machine.register.pe_array.pass_through import elements_of
from systolic.trace.words import Words

UNIT, CLIENT = "pe_array", "moving"
NAN_BITS = np.int32(0x7FC00000)
"""How every NaN is stored."""


class Results:
    """Multiplies whose sums are on their way, oldest first, and the words about to be written.

    first: the partition that column 0 of the grid writes.
    """

    def __init__(self, context: Context, grid: Grid, period: int, first: int) -> None:
        self.jobs: list[MatMulJob] = []
        self._context = context
        self._ports = context.ports
        self._grid = grid
        self._period = period
        cols = grid.stages.cols
        self._words, apart = context.planes.result_words()
        self._first = first
        self._origins = np.arange(first, first + cols) * apart
        self._index = np.zeros(cols, np.int64)
        self._full = cols if grid.stages.is_plain else -1
        self._wants_words = context.recorder.wants("psum_write")
        self._landing: tuple[Array, Array] | None = None
        self._holding = 0
        self._kind = NARROW

    def land(self) -> None:
        """Make the words of the last cycle visible."""
        if self._landing is not None:
            index, values = self._landing
            self._words[index] = values
            self._landing = None

    def hold_ports(self, cycle: int, tick: int) -> None:
        """Take the ports of every bank into which a vector's sums are written in this cycle."""
        self._holding = 0
        ports, period = self._ports, self._period
        take, until, stop = ports.take_for_sums, ports.sums_until, tick + period
        for job in self.jobs:
            entered = job.entered
            if entered < len(job.arrivals) and job.arrivals[entered] <= cycle:
                entered = job.enter()
            if entered > job.left:
                if not self._holding:
                    self._kind = job.full_kind
                elif job.full_kind != self._kind:
                    self._kind = NARROW
                self._holding += entered - job.left
                for port in job.result_ports:
                    if until[port] != stop:
                        take(port, tick, period)

    def enter_at_once(self, job: MatMulJob) -> None:
        """A vector was injected whose first sums are written in the same cycle (D = 0)."""
        job.enter()
        same = not self._holding or job.full_kind == self._kind
        self._kind = job.full_kind if same else NARROW
        self._holding += 1

    def write(self, tick: int) -> None:
        """Take the sums that have reached the result buffer."""
        if not self._holding:
            return
        grid, control, base = self._grid, self._grid.control, self._grid.base
        cols = grid.stages.cols
        if self._holding == self._full and self._kind != NARROW:
            first = base + grid.stages.to_result
            np.add(control.word[first : first + cols], self._origins, self._index)
            values = grid.results()
            if self._kind & ACCUMULATES:
                values = self._accumulated(self._index, values, bool(self._kind & INTEGER))
            elif not self._kind & (INTEGER | THROUGH) and grid.has_wild_results():
                values = _stored(values.view(np.float32))
            self._landing = self._index, values
        else:
            self._write_some(control.arriving(base), base)
        if self._wants_words:
            self._record(control.arriving(base), base, tick)

    def _write_some(self, cols: Array, base: int) -> None:
        control = self._grid.control
        index = control.at_results(control.word, base)[cols] + self._origins[cols]
        values = self._grid.results()[cols]
        kinds = kind_of(control.at_results(control.code, base)[cols])
        kinds &= ~(DOUBLE | FOURFOLD)
        for integer in (False, True):
            mine = (kinds == (ACCUMULATES | INTEGER * integer)).nonzero()[0]
            if mine.size:
                values[mine] = self._accumulated(index[mine], values[mine], integer)
        floats = ((kinds & (INTEGER | THROUGH)) == 0).nonzero()[0]
        values[floats] = _stored(values[floats].view(np.float32))
        self._landing = index, values

    def _accumulated(self, index: Array, values: Array, integer: bool) -> Array:
        if integer:
            return self._words[index] + values
        return _stored(self._words[index].view(np.float32) + values.view(np.float32))

    def _record(self, cols: Array, base: int, tick: int) -> None:
        assert self._landing is not None
        control, values = self._grid.control, self._landing[1]
        words = control.at_results(control.word, base)[cols]
        owners = control.at_results(control.owner, base)[cols]
        for owner in np.unique(owners):
            mine = (owners == owner).nonzero()[0]
            dtype = self._dtype_of(int(owner))
            self._context.recorder.words(
                "psum_write",
                UNIT,
                int(owner),
                Words(
                    ticks=np.full(mine.size, tick, np.int64),
                    partitions=self._first + cols[mine],
                    addresses=words[mine],
                    buffer=Buffer.RESULT,
                    dtype=dtype,
                    values=elements_of(values[mine].view(np.int32), dtype),
                ),
            )

    def _dtype_of(self, owner: int) -> str:
        """Return the type of the results of a multiply."""
        multiply = self._context.program.instructions[owner]
        assert isinstance(multiply, MatMul)
        return multiply.result.dtype

    def post(self, cycle: int, tick: int) -> list[MatMulJob]:
        """Post completed rows and partitions; return the multiplies whose last word was written."""
        done = []
        for job in self.jobs:
            if job.left < job.entered:
                if job.partition_posts and job.is_injected:
                    self._post_partitions(job, cycle, tick)
                if job.arrivals[job.left] + job.across == cycle:
                    left = job.leave()
                    if job.row_posts:
                        self._post(job.row_posts, tick)
                    if left == job.vectors:
                        done.append(job)
        for job in done:
            self.jobs.remove(job)
        return done

    def _post_partitions(self, job: MatMulJob, cycle: int, tick: int) -> None:
        stages = self._grid.stages
        hops, between = divmod(cycle - job.arrivals[-1], stages.right)
        if hops < 0 or between:
            return
        first = hops * stages.cell_cols
        for _ in range(first, min(first + stages.cell_cols, job.cols)):
            self._post(job.partition_posts, tick)

    def _post(self, semaphores: list[int], tick: int) -> None:
        for semaphore in semaphores:
            self._context.semaphores.post(tick, UNIT, self._period, semaphore)


def _stored(values: Array) -> Array:
    """Return the bits of float32 values as the result buffer stores them."""
    return np.where(np.isnan(values), NAN_BITS, values.view(np.int32))
