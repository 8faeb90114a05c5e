"""What is written down about the array's operands: words read, and the grid's history.

Made only for a run that records words, keeps the grid or is watched; it changes nothing of the run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.machine.register.pe_array.control import Control
from systolic.machine.register.pe_array.jobs import LoadJob, MatMulJob
from systolic.machine.register.pe_array.results import UNIT
from systolic.trace.grid import LoadPass, MatMulPass
from systolic.trace.records import Recorder
from systolic.trace.words import Words


class Notes:
    """Operands of the load and of the multiply of a tile in hand. Cycles are the array's."""

    def __init__(self, recorder: Recorder, period: int) -> None:
        self._recorder = recorder
        self._period = period
        self._reads: list[int] = []
        self._tile: list[tuple[Any, Array]] = []
        self._injections: list[int] = []
        self._vectors: list[Array] = []
        self._silent: list[int] = []

    def vector(self, job: MatMulJob, operand: Array, cycle: int, slot: int, to: Control) -> None:
        """Note a vector that was injected, and let its number travel along with it."""
        number = job.sent - job.silent
        to.vector[slot], to.owner[slot] = number, job.index
        self._injections.append(cycle)
        self._vectors.append(operand.copy())
        rows = job.access.partition + np.arange(len(operand))
        self._words("inject", job, cycle, rows, job.offsets[number], values=operand)

    def silent_vector(self, job: MatMulJob, operand: Array, cycle: int) -> None:
        """Note an injection of a pass before the last."""
        self._silent.append(cycle)
        rows = job.access.partition + np.arange(len(operand))
        at = job.offsets[job.sent % job.vectors]
        self._words("inject", job, cycle, rows, at, values=operand)

    def lane(self, job: LoadJob, lane: int, part: slice, operand: Array, cycle: int) -> None:
        """Note the weights of one lane of a read: of a column, or of part of a row."""
        if self._reads[-1:] != [cycle]:
            self._reads.append(cycle)
        where = (slice(None), lane) if job.is_left else (lane, part)
        self._tile.append((where, operand.copy()))
        if job.is_left:
            rows = job.access.partition + np.arange(len(operand))
            self._words("load", job, cycle, rows, job.columns[lane], values=operand)
        else:
            self._words(
                "load", job, cycle, job.access.partition + lane, job.offsets[part], values=operand
            )

    def end_multiply(self, job: MatMulJob) -> None:
        """All vectors have been injected."""
        if self._recorder.keep_grid:
            injections, vectors = np.array(self._injections, np.int64), np.stack(self._vectors)
            silent = np.array(self._silent, np.int64)
            one = MatMulPass(
                job.index,
                injections,
                vectors,
                job.cols,
                job.is_first,
                silent=silent,
                is_pass_through=job.is_pass_through,
                place=job.place,
            )
            self._recorder.matmuls.append(one)
        self._silent.clear()
        self._injections.clear()
        self._vectors.clear()

    def end_load(self, job: LoadJob) -> None:
        """All weights have been read."""
        if self._recorder.keep_grid:
            size = job.access.partitions, job.access.elements
            tile = np.empty(size, self._tile[0][1].dtype)
            for where, operand in self._tile:
                tile[where] = operand
            reads = np.array(self._reads, np.int64)
            one = LoadPass(job.index, reads, tile, job.columns_per_read, job.place)
            self._recorder.loads.append(one)
        self._reads.clear()
        self._tile.clear()

    def _words(
        self,
        kind: str,
        job: LoadJob | MatMulJob,
        cycle: int,
        partitions: Any,
        addresses: Any,
        *,
        values: Array,
    ) -> None:
        if not self._recorder.wants(kind):
            return
        self._recorder.words(
            kind,
            UNIT,
            job.index,
            Words(
                ticks=np.full(values.shape, cycle * self._period, np.int64),
                partitions=np.broadcast_to(np.asarray(partitions), values.shape),
                addresses=np.broadcast_to(np.asarray(addresses), values.shape),
                dtype=job.access.dtype,
                values=np.ascontiguousarray(values),
            ),
        )
