"""What the array has in hand: a load that reads, a multiply that injects or whose sums fall."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from systolic.hw.datatypes import data_type
from systolic.isa import Access, Buffer, LoadWeights, MatMul
from systolic.isa.access import Interval
from systolic.machine.register.context import Context
from systolic.machine.register.pe_array.control import ACCUMULATES, INTEGER, code_of
from systolic.machine.register.pe_array.distances import Stages
from systolic.machine.register.ports.ports import Ports, PortTuple, Wanted, wanted
from systolic.machine.register.unit import Job

Route = tuple[int, int, int]
NARROW = -1


@lru_cache(maxsize=64)
def routes(stages: Stages, is_left: bool, fast_load: int, lanes: int) -> list[list[Route]]:
    """Return for each read its lanes (columns from the left, rows from the top), each with the
    first PE it goes to and the cycles to get there.
    """
    delays = stages.col_delays() if is_left else stages.row_delays() - stages.entry
    pes = np.arange(lanes) * (1 if is_left else stages.cols)
    arrivals = stages.entry + delays[:lanes]
    all_lanes = list(zip(range(lanes), pes.tolist(), arrivals.tolist(), strict=True))
    return [all_lanes[first : first + fast_load] for first in range(0, lanes, fast_load)]


class LoadJob(Job):
    """A LoadWeights: `sent` of its reads have been made, each with its `ports` and `routes`.

    rows: the partitions it reads; due: the first cycle in which it may go on; run: since when it
    has not been held back (-1: it is).
    """

    def __init__(self, index: int, load: LoadWeights, context: Context, stages: Stages) -> None:
        super().__init__(index)
        access, array = load.weights, context.chip.pe_array
        self.access, self.rows = access, context.planes.rows_of(access)
        self.is_left = array.weight_path == "left"
        self.is_integer = data_type(access.dtype).accumulator == "s32"
        self.offsets = access.offsets()
        self.columns: list[int] = self.offsets.tolist()
        lanes = access.elements if self.is_left else access.partitions
        self.routes = routes(stages, self.is_left, array.fast_load, lanes)
        self.reads = len(self.routes)
        self.ports = _read_ports(access, context, is_left=self.is_left)
        self.sent = self.due = 0
        self.run = -1


def _read_ports(access: Access, context: Context, *, is_left: bool) -> list[tuple[Wanted, ...]]:
    """Return what each read needs: all partitions from the left, those of its rows on the top."""
    fast, ports, lanes = context.chip.pe_array.fast_load, context.ports, access.lanes
    if is_left:
        return [wanted(near, lanes) for near in ports.of_groups(access, "read", fast)]
    (row,) = ports.of_groups(access, "read", access.elements)
    firsts = range(lanes.first, lanes.stop, fast)
    return [wanted(row, Interval(p, min(p + fast, lanes.stop))) for p in firsts]


class MatMulJob(Job):
    """A MatMul: `sent` vectors injected; the `left`-th is the oldest that is not all written.

    full_kind: its kind, or NARROW if it does not use all columns; arrivals: cycle of each vector's
    write into partition 0; entered: how many have begun to be written; is_first: it is the first
    since a load, so weights are exchanged with its first vector.
    """

    def __init__(self, index: int, matmul: MatMul, context: Context, stages: Stages) -> None:
        super().__init__(index)
        moving, result, ports = matmul.moving, matmul.result, context.ports
        self.access = moving
        self.vectors = moving.elements
        self.cols = result.partitions
        self.vector_cycles = context.chip.pe_array.cycles_per_vector[moving.dtype]
        self.is_integer = data_type(moving.dtype).accumulator == "s32"
        kind = ACCUMULATES * matmul.accumulate | INTEGER * self.is_integer
        self.full_kind = kind if self.cols == stages.cols else NARROW
        self.code = code_of(self.cols, moving.partitions, kind)
        self.rows = context.planes.rows_of(moving)
        self.offsets: list[int] = moving.offsets().tolist()
        self.words: list[int] = result.offsets().tolist()
        self.result_ports = _result_ports(matmul, ports)
        behind = wanted(self.result_ports if stages.to_result == 0 else (), result.lanes)
        self.ports = [
            wanted(near, moving.lanes) + behind for near in ports.of_groups(moving, "read", 1)
        ]
        self.across = stages.across_to(self.cols - 1)
        self.row_posts = [p.semaphore for p in matmul.posts if p.on == "row"]
        self.partition_posts = [p.semaphore for p in matmul.posts if p.on == "partition"]
        self.is_first = False
        self.sent = self.entered = self.left = self.due = 0
        self.run = -1
        self.arrivals: list[int] = []

    @property
    def is_injected(self) -> bool:
        """Return whether all vectors have been injected."""
        return self.sent == self.vectors


def _result_ports(matmul: MatMul, ports: Ports) -> PortTuple:
    low, high = matmul.result.span
    write = ports.of_bytes(Buffer.RESULT, low, high, "write")
    read = ports.of_bytes(Buffer.RESULT, low, high, "read")
    return read + write if matmul.accumulate else write
