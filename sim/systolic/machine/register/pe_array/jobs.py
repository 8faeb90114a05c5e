"""What the array has in hand: a load that reads, a multiply that injects or whose sums fall."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from systolic.arrays import Array
from systolic.hw.datatypes import data_type
from systolic.isa import Access, Buffer, LoadWeights, MatMul, MatMulMx, PassThrough
from systolic.isa.effects import scales_of
from systolic.machine.array_shape import placed
from systolic.machine.register.context import Context
from systolic.machine.register.pe_array.control import (
    ACCUMULATES,
    DOUBLE,
    FOURFOLD,
    INTEGER,
    THROUGH,
    code_of,
)
from systolic.machine.register.pe_array.distances import Stages
from systolic.machine.register.pe_array.scaled import scaled_operand
from systolic.machine.register.ports.ports import Ports, PortTuple, Wanted, wanted
from systolic.machine.register.unit import Job
from systolic.spans import Interval

NARROW = -1


class Route(NamedTuple):
    """What a lane of a read carries (a column from the left, a row or part of it from the top).

    part: columns of the row; pe: the first PE it goes to; delay: the cycles to get there.
    """

    lane: int
    part: slice
    pe: int
    delay: int


@lru_cache(maxsize=64)
def left_routes(stages: Stages, cols: int, together: int) -> list[list[Route]]:
    """Return for each read its columns, `together` at a time."""
    arrivals = (stages.entry + stages.col_delays()).tolist()
    lanes = [Route(c, slice(c, c + 1), c, arrivals[c]) for c in range(cols)]
    return [lanes[first : first + together] for first in range(0, cols, together)]


@lru_cache(maxsize=64)
def top_routes(
    stages: Stages, size: tuple[int, int], rows_together: int, cols_together: int
) -> list[list[Route]]:
    """Return for each read its rows, and of them as many columns as pass a port in one cycle."""
    rows, cols = size
    return [
        [
            _part_of_row(stages, row, part)
            for row in range(first, min(first + rows_together, rows))
            for part in _cell_parts(stages, column, min(column + cols_together, cols))
        ]
        for first in range(0, rows, rows_together)
        for column in range(0, cols, cols_together)
    ]


def _cell_parts(stages: Stages, first: int, stop: int) -> list[slice]:
    """Return columns first <= c < stop cut where the next whole cell begins."""
    edge = min(stop, -(-first // stages.cell_cols) * stages.cell_cols)
    return [slice(a, b) for a, b in ((first, edge), (edge, stop)) if a < b]


def _part_of_row(stages: Stages, row: int, part: slice) -> Route:
    delay = int(stages.row_delays()[row] + stages.col_delays()[part.start])
    return Route(row, part, row * stages.cols + part.start, delay)


class ArrayJob(Job):
    """An instruction of the array, `sent` of whose reads have been made.

    due: the first cycle in which it may go on; run: since when it has not been held back (-1: it
    is).
    """

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.sent = self.due = 0
        self.run = -1

    def make_due(self, cycle: int) -> None:
        """Let it go on in `cycle`, and not before."""
        self.due = cycle

    def send(self, cycle: int, tick: int, cycles: int) -> None:
        """Count a read, behind which the next is due in that many cycles."""
        self.begin_work(tick)
        self.sent += 1
        self.due = cycle + cycles
        if self.run < 0:
            self.run = cycle

    def hold_back(self) -> None:
        """Note that it cannot go on."""
        self.run = -1


class LoadJob(ArrayJob):
    """A LoadWeights: each of its reads has its `ports` and `routes`.

    rows: the partitions it reads; columns_per_read: of all of them, or on the top path of a row.
    """

    def __init__(self, index: int, load: LoadWeights, context: Context, stages: Stages) -> None:
        super().__init__(index)
        access, array = load.weights, context.chip.pe_array
        self.access, self.rows = access, context.planes.rows_of(access)
        self.place = placed(load)
        self.is_left = array.weight_path == "left"
        self.is_integer = data_type(access.dtype).accumulator == "s32"
        self.per_pe = load.elements_per_pe
        self.offsets = access.offsets()[:: self.per_pe]
        self.columns: list[int] = self.offsets.tolist()
        self.scaled = scaled_operand(load, access, context.planes)
        rows = 1 if self.scaled else self.per_pe
        self.further = [access.offsets()[row :: self.per_pe] for row in range(1, rows)]
        self._scales = scales_of(load)
        passing = context.chip.port_width_bytes // (access.element_bytes * self.per_pe)
        cols = len(self.columns)
        self.columns_per_read = min(passing, array.fast_load if self.is_left else cols)
        if self.is_left:
            self.routes = left_routes(stages, cols, self.columns_per_read)
        else:
            size = access.partitions, cols
            self.routes = top_routes(stages, size, array.fast_load, self.columns_per_read)
        self.reads = len(self.routes)
        self.ports = self._read_ports(context, array.fast_load)

    def _read_ports(self, context: Context, fast: int) -> list[tuple[Wanted, ...]]:
        """Return what each read needs: all partitions from the left, its rows' on top."""
        access, ports = self.access, context.ports
        lanes = access.lanes
        if self.is_left:
            groups = ports.of_groups(access, "read", self.columns_per_read * self.per_pe)
            found = [wanted(near, lanes) for near in groups]
            return _with_scales(found, self._scales, ports, self.columns_per_read)
        (row,) = ports.of_groups(access, "read", access.elements)
        firsts = range(lanes.first, lanes.stop, fast)
        wants = [wanted(row, Interval(p, min(p + fast, lanes.stop))) for p in firsts]
        parts = self.reads // len(wants)
        return [want for want in wants for _ in range(parts)]

    def take(self, lane: int, part: slice) -> list[Array]:
        """Return the weights that a lane carries, for each row of its PEs."""
        if self.scaled is not None:
            return self.scaled.of(lane)
        if self.is_left:
            first = self.rows[:, self.columns[lane]]
            return [first, *(self.rows[:, offsets[lane]] for offsets in self.further)]
        first = self.rows[lane, self.offsets[part]]
        return [first, *(self.rows[lane, offsets[part]] for offsets in self.further)]


class MatMulJob(ArrayJob):
    """A MatMul: `sent` injections made; the `left`-th vector is the oldest not all written.

    Of its passes only the last injects vectors that take part; `silent` counts the injections
    before, whose operands are read and leave nothing in the array.
    full_kind: its kind, or NARROW if it does not use all columns; arrivals: cycle of each vector's
    write into the tile's first partition; entered: how many have begun to be written; is_first: it
    is the first since a load, so weights are exchanged with its first vector.
    """

    def __init__(
        self, index: int, matmul: MatMul, context: Context, stages: Stages, *, is_first: bool
    ) -> None:
        super().__init__(index)
        moving, result, ports = matmul.moving, matmul.result, context.ports
        self.access, self.place = moving, placed(matmul)
        self.per_pe = matmul.elements_per_pe
        self.vectors = moving.elements // self.per_pe
        self.cols = result.partitions
        array = context.chip.pe_array
        self.is_pass_through = isinstance(matmul, PassThrough)
        passes, rates = array.passes.get(moving.dtype, 1), array.cycles_per_vector
        if self.is_pass_through or matmul.rows_per_pe > 1:
            several = array.mx if isinstance(matmul, MatMulMx) else array.double_row
            passes, rates = 1, array.pass_through if self.is_pass_through else several
        self.vector_cycles = rates[moving.dtype]
        self.silent = self.vectors * (passes - 1)
        self.injections = self.vectors * passes
        self._interval = array.min_interval_cycles
        self._held = min(self.cols, array.min_vectors) * passes
        self.is_integer = data_type(moving.dtype).accumulator == "s32"
        kind = ACCUMULATES * matmul.accumulate | INTEGER * self.is_integer
        kind |= THROUGH * self.is_pass_through
        kind |= DOUBLE * (matmul.rows_per_pe > 1) | FOURFOLD * (matmul.rows_per_pe > 2)
        self.full_kind = kind if self.cols == stages.cols else NARROW
        self.code = code_of(self.cols, moving.partitions, kind)
        self.rows = context.planes.rows_of(moving)
        self.offsets: list[int] = moving.offsets()[:: self.per_pe].tolist()
        self.scaled = scaled_operand(matmul, moving, context.planes)
        rows = 1 if self.scaled else self.per_pe
        self.further = [moving.offsets()[row :: self.per_pe].tolist() for row in range(1, rows)]
        self.words: list[int] = result.offsets().tolist()
        self.result_ports = _result_ports(matmul, ports)
        behind = wanted(self.result_ports if stages.to_result == 0 else (), result.lanes)
        reads = [
            wanted(near, moving.lanes) for near in ports.of_groups(moving, "read", self.per_pe)
        ]
        reads = _with_scales(reads, scales_of(matmul), ports, 1)
        self.ports = reads * (passes - 1) + [read + behind for read in reads]
        self.across = stages.across_to(self.cols - 1)
        self.row_posts = [p.semaphore for p in matmul.posts if p.on == "row"]
        self.partition_posts = [p.semaphore for p in matmul.posts if p.on == "partition"]
        self.is_first = is_first
        self.entered = self.left = 0
        self.arrivals: list[int] = []

    def take(self, number: int) -> list[Array]:
        """Return what a vector has for each row of the PEs."""
        if self.scaled is not None:
            return self.scaled.of(number)
        first = self.rows[:, self.offsets[number]]
        return [first, *(self.rows[:, offsets[number]] for offsets in self.further)]

    def slow_down(self, factor: int) -> None:
        """Let every vector take longer by a factor."""
        self.vector_cycles *= factor

    @property
    def least_cycles(self) -> int:
        """Return the least cycles from its start to the next multiply's start."""
        return max(self._interval, self._held * self.vector_cycles)

    @property
    def is_injected(self) -> bool:
        """Return whether all passes have been injected."""
        return self.sent == self.injections

    def enter(self) -> int:
        """Begin to write the next vector; return how many have begun."""
        self.entered += 1
        return self.entered

    def leave(self) -> int:
        """End writing the oldest vector; return how many are all written."""
        self.left += 1
        return self.left


def _with_scales(
    reads: list[tuple[Wanted, ...]], scales: Access | None, ports: Ports, together: int
) -> list[tuple[Wanted, ...]]:
    """Return what each read needs with its scales, which may come through a port of its own."""
    if scales is None:
        return reads
    found = []
    for read, near in zip(reads, ports.of_groups(scales, "read", together), strict=True):
        taken = {want.port for want in read}
        others = tuple(port for port in near if port not in taken)
        found.append(read + wanted(others, scales.lanes))
    return found


def _result_ports(matmul: MatMul, ports: Ports) -> PortTuple:
    low, high = matmul.result.span
    write = ports.of_bytes(Buffer.RESULT, low, high, "write")
    read = ports.of_bytes(Buffer.RESULT, low, high, "read")
    return read + write if matmul.accumulate else write
