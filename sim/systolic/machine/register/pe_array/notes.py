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
from systolic.machine.register.pe_array.scaled import Lane
from systolic.trace.passes import LoadPass, MatMulPass
from systolic.trace.recorder import Recorder
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
        self._further: list[list[Array]] = []
        self._further_tiles: list[list[tuple[Any, Array]]] = []

    def vector(self, job: MatMulJob, operand: Array, cycle: int, slot: int, to: Control) -> None:
        """Note a vector that was injected, and let its number travel along with it."""
        number = job.sent - job.silent
        to.vector[slot], to.owner[slot] = number, job.index
        self._injections.append(cycle)
        self._vectors.append(operand.copy())
        if job.scaled is not None:
            self._scaled_words("inject", job, cycle, job.scaled.words(number))
            return
        rows = job.access.partition + np.arange(len(operand))
        self._words("inject", job, cycle, rows, job.offsets[number], values=operand)

    def further_values(self, job: MatMulJob, operands: list[Array], cycle: int) -> None:
        """Note what a vector that was injected has for further rows."""
        self._further.append([operand.copy() for operand in operands])
        for offsets, operand in zip(job.further, operands, strict=False):  # of MX there are none
            rows = job.access.partition + np.arange(len(operand))
            self._words("inject", job, cycle, rows, offsets[job.sent], values=operand)

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
        if job.scaled is not None:
            self._scaled_words("load", job, cycle, job.scaled.words(lane))
            return
        at = job.columns[lane] if job.is_left else job.offsets[part]
        self._lane_words(job, lane, operand, cycle, at)

    def further_lanes(
        self, job: LoadJob, lane: int, part: slice, operands: list[Array], cycle: int
    ) -> None:
        """Note the weights of one lane of a read for further rows."""
        if not self._further_tiles:
            self._further_tiles = [[] for _ in operands]
        for tile, operand in zip(self._further_tiles, operands, strict=True):
            tile.append((_place(job, lane, part), operand.copy()))
        for offsets, operand in zip(job.further, operands, strict=False):  # of MX there are none
            self._lane_words(job, lane, operand, cycle, offsets[lane if job.is_left else part])

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
                further=tuple(np.stack(row) for row in zip(*self._further, strict=True)),
            )
            self._recorder.matmuls.append(one)
        self._further.clear()
        self._silent.clear()
        self._injections.clear()
        self._vectors.clear()

    def end_load(self, job: LoadJob) -> None:
        """All weights have been read."""
        if self._recorder.keep_grid:
            tile, reads = _whole(job, self._tile), np.array(self._reads, np.int64)
            further = tuple(_whole(job, each) for each in self._further_tiles)
            columns, place = job.columns_per_read, job.place
            one = LoadPass(job.index, reads, tile, columns, place, further=further)
            self._recorder.loads.append(one)
        self._further_tiles.clear()
        self._reads.clear()
        self._tile.clear()

    def _scaled_words(
        self, kind: str, job: LoadJob | MatMulJob, cycle: int, lanes: list[Lane]
    ) -> None:
        for access, addresses, values in lanes:
            rows = access.partition + np.arange(len(values))[:, None]
            dtype = access.dtype
            self._words(kind, job, cycle, rows, addresses, values=values, dtype=dtype)

    def _words(
        self,
        kind: str,
        job: LoadJob | MatMulJob,
        cycle: int,
        partitions: Any,
        addresses: Any,
        *,
        values: Array,
        dtype: str = "",
    ) -> None:
        if not self._recorder.wants(kind):
            return
        self._recorder.words(
            kind,
            UNIT,
            job.index,
            Words(
                ticks=np.full(values.size, cycle * self._period, np.int64),
                partitions=np.broadcast_to(np.asarray(partitions), values.shape).ravel(),
                addresses=np.broadcast_to(np.asarray(addresses), values.shape).ravel(),
                buffer=job.access.buffer,
                dtype=dtype or job.access.dtype,
                values=np.ascontiguousarray(values).ravel(),
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
