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
        self._seconds: list[Array] = []
        self._second_tile: list[tuple[Any, Array]] = []

    def vector(self, job: MatMulJob, operand: Array, cycle: int, slot: int, to: Control) -> None:
        """Note a vector that was injected, and let its number travel along with it."""
        number = job.sent - job.silent
        to.vector[slot], to.owner[slot] = number, job.index
        self._injections.append(cycle)
        self._vectors.append(operand.copy())
        rows = job.access.partition + np.arange(len(operand))
        self._words("inject", job, cycle, rows, job.offsets[number], values=operand)

    def second_vector(self, job: MatMulJob, operand: Array, cycle: int) -> None:
        """Note what a vector that was injected has for the second rows."""
        assert job.second is not None
        self._seconds.append(operand.copy())
        rows = job.access.partition + np.arange(len(operand))
        self._words("inject", job, cycle, rows, job.second[job.sent], values=operand)

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
        self._tile.append((_place(job, lane, part), operand.copy()))
        at = job.columns[lane] if job.is_left else job.offsets[part]
        self._lane_words(job, lane, operand, cycle, at)

    def second_lane(self, job: LoadJob, lane: int, part: slice, operand: Array, cycle: int) -> None:
        """Note the weights of one lane of a read for the second rows."""
        assert job.second is not None
        self._second_tile.append((_place(job, lane, part), operand.copy()))
        at = job.second[lane] if job.is_left else job.second[part]
        self._lane_words(job, lane, operand, cycle, at)

    def _lane_words(self, job: LoadJob, lane: int, operand: Array, cycle: int, at: Any) -> None:
        first = job.access.partition
        rows = first + np.arange(len(operand)) if job.is_left else first + lane
        self._words("load", job, cycle, rows, at, values=operand)

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
                second=np.stack(self._seconds) if self._seconds else None,
            )
            self._recorder.matmuls.append(one)
        self._seconds.clear()
        self._silent.clear()
        self._injections.clear()
        self._vectors.clear()

    def end_load(self, job: LoadJob) -> None:
        """All weights have been read."""
        if self._recorder.keep_grid:
            tile, reads = _whole(job, self._tile), np.array(self._reads, np.int64)
            second = _whole(job, self._second_tile) if self._second_tile else None
            columns, place = job.columns_per_read, job.place
            one = LoadPass(job.index, reads, tile, columns, place, second=second)
            self._recorder.loads.append(one)
        self._second_tile.clear()
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


def _place(job: LoadJob, lane: int, part: slice) -> Any:
    """Return where the weights of a lane stand in the tile [K, N]."""
    return (slice(None), lane) if job.is_left else (lane, part)


def _whole(job: LoadJob, lanes: list[tuple[Any, Array]]) -> Array:
    """Return the tile [K, N] that lanes make up."""
    tile = np.empty((job.access.partitions, len(job.columns)), lanes[0][1].dtype)
    for where, operand in lanes:
        tile[where] = operand
    return tile
