"""Estimates for copies of DMA queues, which move a run's bytes with each descriptor."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from systolic.compiler.cost.dram import burst_time, bus_cycles, scattered_cycles
from systolic.compiler.ir.dram_tensor import DramTensor, Rectangle, segments
from systolic.compiler.ir.nodes import Axes
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.dram import (
    ContiguousBytes,
    dram_rate,
    lone_copy_cycles,
    queue_rate,
    run_cycles,
)
from systolic.hw.formulas.timing import descriptor_cycles, dma_cycles
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, DmaTranspose
from systolic.isa.access import coalesced
from systolic.layout import Shape

SAMPLE = 8, 256
"""The most rows and columns of a matrix that an estimate looks at."""
STORED_COLUMNS = 512
"""The most columns of a tile that an estimate of stores looks at."""


@dataclass(frozen=True, slots=True)
class CopyTime:
    """What a copy takes, in DMA cycles.

    latency: before its first byte moves. moving: from then on, in a queue that no other disturbs.
    engine: how long its bytes keep a DMA engine busy. channels: how long they keep DRAM busy, each
    channel if it has any.
    """

    latency: int
    moving: int
    engine: float
    channels: tuple[float, ...] = ()

    @property
    def cycles(self) -> int:
        """Return the cycles of a queue for the copy."""
        return self.latency + self.moving


def copy_time(chip: Chip, source: Access, target: Access) -> CopyTime:
    """Return about what a copy takes in a queue, in its engine and in DRAM."""
    if chip.dma.is_spread:
        return _spread_time(chip, source, target)
    run, rows = min(run_bytes(source), run_bytes(target)), 1
    if _is_run_per_partition(source, run) or _is_run_per_partition(target, run):
        rows = chip.dma.partitions_per_cycle
    ends = [access for access in (source, target) if access.buffer is Buffer.DRAM]
    latency = chip.dma.latency_cycles + (chip.dram.latency_cycles if ends else 0)
    size = source.size_bytes
    engine = size / chip.dma.bytes_per_cycle
    bundles = -(-size // (run * rows))
    if not ends or chip.dram.organisation is None:
        moving = bundles * _bundle(chip, run, rows, outside=bool(ends))
        channels = (len(ends) * size / chip.dram.bytes_per_cycle,) if ends else ()
        return CopyTime(latency, moving, engine, channels)
    if chip.dram.organisation.outstanding == 1:
        moving = bundles * rows * (run_cycles(chip, run) + _opening(chip, run))
        moving += bundles * rows * chip.dma.descriptor_cycles
        return CopyTime(latency, moving, engine, (size / dram_rate(chip, chip.dma.queues),))
    times = [burst_time(chip, access, run) for access in ends]
    bursts = max(sum(time.in_hand for time in times), *(each for t in times for each in t.channels))
    moving = round(max(bursts, size / chip.dma.queue_bytes_per_cycle))
    moving += bundles * rows * chip.dma.descriptor_cycles
    busy = tuple(map(sum, zip(*(time.channels for time in times), strict=True)))
    return CopyTime(latency, moving, engine, busy)


def picked_cycles(chip: Chip, rows: Sequence[int]) -> int:
    """Return about how many cycles rows of a tensor in DRAM take that are picked one by one.

    A copy brings rows at one distance, so mostly two. Their latencies count, not their bytes.
    """
    copies = -(-len(segments(np.asarray(rows, np.int64))) // chip.dma.useful_queues)
    return copies * (chip.dma.latency_cycles + chip.dram.latency_cycles)


def time_of(chip: Chip, copy: DmaCopy) -> CopyTime:
    """Return about what a copy or a transpose takes."""
    if isinstance(copy, DmaTranspose):
        return transpose_time(chip, copy.source, copy.target)
    return copy_time(chip, copy.source, copy.target)


def as_transpose(chip: Chip, source: Access, target: Access) -> Access | None:
    """Return the source of the transpose by DMA that does what a copy does; None if none does.

    Such a copy brings each column of a matrix in DRAM to a partition of its own, element by
    element: the first pair of its source goes from column to column. In a transpose it comes last.
    """
    columns, *rows = source.pattern
    if not may_transpose(chip, source) or target.buffer is not Buffer.STATE or not rows:
        return None
    if columns != (1, target.partitions) or target.partitions == 1:
        return None
    return replace(source, pattern=coalesced((*rows, columns)))


def may_transpose(chip: Chip, source: Access) -> bool:
    """Return whether DMA transposes what an access names: elements in DRAM, of such a type."""
    return source.buffer is Buffer.DRAM and transposes_type(chip, source.dtype)


def transposes_type(chip: Chip, dtype: str) -> bool:
    """Return whether DMA transposes elements of a type that it brings from DRAM."""
    turns = chip.dma.transposes
    return turns is not None and data_type(dtype).size_bytes in turns.element_bytes


def transpose_time(chip: Chip, source: Access, target: Access) -> CopyTime:
    """Return about what a transpose by DMA takes: a descriptor for each run of its target."""
    size, run, rows = source.size_bytes, run_bytes(target), chip.dma.partitions_per_cycle
    if chip.dma.is_spread:
        rows = _engines_at_once(chip, source, target)
    outside = source.buffer is Buffer.DRAM
    moving = -(-size // (run * rows)) * transpose_cycles(chip, run, rows, outside=outside)
    busy = size / (chip.dma.bytes_per_cycle * (rows if chip.dma.is_spread else 1))
    latency = chip.dma.latency_cycles + (chip.dram.latency_cycles if outside else 0)
    channels = (size / chip.dram.bytes_per_cycle,) if outside else ()
    return CopyTime(latency, moving, busy / _working_share(chip, outside=outside), channels)


def transpose_cycles(chip: Chip, run: int, rows: int, *, outside: bool = True) -> int:
    """Return the cycles of `rows` descriptors side by side, of a run of bytes each."""
    moving = run_cycles(chip, run * rows, rows=rows) if outside else 0
    if not outside:
        moving = -(-run * rows // queue_rate(chip, rows))
    turning = math.ceil(moving / _working_share(chip, outside=outside))
    return int(descriptor_cycles(chip, turning, rows))


def _working_share(chip: Chip, *, outside: bool) -> Fraction:
    """Return the share of the cycles in which bytes of a transpose move."""
    turns = chip.dma.transposes
    assert turns is not None
    return Fraction(*turns.working(outside=outside))


def engine_pool(chip: Chip, queue: int) -> int:
    """Return which of the pools of DMA engines a queue's copies pass: its engine, or all."""
    return 0 if chip.dma.is_spread else queue % chip.dma.engine_count


def _spread_time(chip: Chip, source: Access, target: Access) -> CopyTime:
    """Return what a copy takes that engines share out by partition, DRAM having one rate."""
    ends = [access for access in (source, target) if access.buffer is Buffer.DRAM]
    size, run = source.size_bytes, min(run_bytes(source), run_bytes(target))
    rows = _engines_at_once(chip, source, target)
    rounds = -(-size // (run * rows))
    if len(ends) > 1:  # within DRAM the engines share every run
        cost = rounds * chip.dma.descriptor_cycles
        moving = max(cost, run_cycles(chip, size, within=True))
    else:
        moving = rounds * _bundle(chip, run, rows, outside=bool(ends))
    latency = chip.dma.latency_cycles + (chip.dram.latency_cycles if ends else 0)
    engine = size / (chip.dma.bytes_per_cycle * rows)
    channels = (len(ends) * size / chip.dram.bytes_per_cycle,) if ends else ()
    return CopyTime(latency, moving, engine, channels)


def _engines_at_once(chip: Chip, source: Access, target: Access) -> int:
    """Return about how many engines serve a copy at once.

    That is the number of its partitions divided by the number that the busiest engine serves.
    Within DRAM all engines serve the copy.
    """
    access = next((end for end in (target, source) if end.buffer is not Buffer.DRAM), None)
    if access is None:
        return chip.dma.engine_count
    lanes = range(access.partition, access.partition + access.partitions)
    busiest = max(Counter(map(chip.dma.engine_of, lanes)).values())
    return -(-access.partitions // busiest)


def _is_run_per_partition(access: Access, run: int) -> bool:
    """Return whether the access has several partitions on the chip, and a run in each."""
    return access.partitions > 1 and access.elements * access.element_bytes == run


def run_bytes(access: Access) -> int:
    """Return the bytes of the runs of an access: contiguous in one partition."""
    step, count = access.pattern[-1]
    return access.element_bytes * (count if step == 1 else 1)


def _bundle(chip: Chip, run: int, rows: int, *, outside: bool) -> int:
    """Return the cycles of descriptors that move side by side, of a run of bytes each."""
    if not outside:
        moving = -(-run * rows // queue_rate(chip, rows))
    else:
        moving = run_cycles(chip, run * rows, rows=rows)
    return int(descriptor_cycles(chip, moving, rows))


def bundle_cycles(chip: Chip, run: int, rows: int) -> int:
    """Return the cycles of `rows` descriptors side by side, each a run of bytes from or to DRAM.

    Where the runs lie is not known: in DRAM with rows to open, each run finds other rows open.
    """
    if chip.dram.organisation is None:
        return _bundle(chip, run, rows, outside=True)
    if chip.dram.organisation.outstanding > 1:
        moving = rows * scattered_cycles(chip, run)
        return int(descriptor_cycles(chip, max(1, round(moving)), rows))
    moving = rows * (run_cycles(chip, run) + _opening(chip, run))
    return int(descriptor_cycles(chip, moving, rows))


def queues_beside(chip: Chip, run: int) -> int:
    """Return how many queues move a tile soonest in runs of `run` bytes, where copies are spread.

    Each of n queues waits for its own descriptors, so together they have n of them for each engine
    in the time of one. But they share the engines' bytes, and take turns at the port of the tile's
    bank while they do: that is n times the time of a run's bytes.
    """
    dma = chip.dma
    if not dma.is_spread or dma.descriptor_cost != "max":
        return 1
    most = math.isqrt(dma.descriptor_cycles * dma.bytes_per_cycle // max(1, run))
    return max(1, min(most, dma.queues // 2))


def queues_of_stores(chip: Chip, run: int) -> int:
    """Return how many queues store tiles at once in runs of `run` bytes, where copies are spread.

    A queue waits for a descriptor of each run, so the descriptors of this many queues keep the
    engines busy. Other tiles lie in other banks, so these queues need not take turns as the queues
    of one tile do.
    """
    dma, beside = chip.dma, queues_beside(chip, run)
    if not dma.is_spread or dma.descriptor_cost != "max":
        return beside
    busy = dma.descriptor_cycles * dma.bytes_per_cycle // max(1, run)
    return max(beside, min(dma.queues, busy))


def _opening(chip: Chip, run: int) -> int:
    """Return the cycles of opening rows for a run, if other queues close them in between.

    With one burst in hand a queue waits for each of them, and queues close one another's rows.
    """
    parts = chip.dram.organisation
    assert parts is not None
    return -(-run // parts.interleave_bytes) * (parts.precharge_cycles + parts.activate_cycles)


def inside_cycles(chip: Chip, runs: int, size: int, partitions: int | None = None) -> int:
    """Return the cycles of a queue for runs of `size` bytes within the state buffer.

    partitions: how many the runs go to together (default: as many as there are).
    """
    lanes = partitions or chip.state_buffer.partitions
    rows = chip.dma.most_engines(lanes) if chip.dma.is_spread else 1
    return dma_cycles(chip, [(runs, size)], dram=False, rows=rows)


def lone_cycles(chip: Chip, access: Access, count: int, size: int) -> int:
    """Return the cycles of a queue alone for `count` runs of `size` bytes from DRAM, latency apart.

    If DRAM has an organisation, the addresses of the runs count; otherwise only their lengths.
    """
    if chip.dram.organisation is None:
        return inside_cycles(chip, count, size) - chip.dma.latency_cycles
    if chip.dram.organisation.outstanding > 1:
        return burst_time(chip, access, size).cycles + count * chip.dma.descriptor_cycles
    first = access.offsets()[:: max(1, size // access.element_bytes)] * access.element_bytes
    runs = (ContiguousBytes(int(byte), None, size) for byte in first)
    return lone_copy_cycles(chip, runs) - chip.dma.latency_cycles - chip.dram.latency_cycles


def store_cost(chip: Chip, shape: Shape, axes: Axes) -> int:
    """Return about how many of the array's cycles all queues take to store a tensor in DRAM.

    It is judged by a tile behind the first, whose rows need not begin where a dimension does. A
    queue with one copy in hand waits for the latency of each.
    """
    *batch, all_rows, all_cols = (math.prod(shape.dims[d] for d in group) for group in axes)
    p = block_rows(chip)
    rows, cols = min(all_rows, p), min(all_cols, STORED_COLUMNS)
    origin = (p if all_rows >= 2 * p else 0, 0)
    cycles = 0
    for part in DramTensor(shape, 0, axes).rectangles((0,) * len(batch), origin, (rows, cols)):
        run = ((1, part.cols.count),)
        source = Access(Buffer.STATE, shape.element_type, 0, part.rows.count, 0, run)
        time = copy_time(chip, source, part.access)
        cycles += time.moving + (time.latency if chip.dma.outstanding == 1 else 0)
    cycles *= -(-math.prod(batch) * all_rows * all_cols // (rows * cols))
    return cycles // chip.dma.useful_queues * chip.period("dma") // chip.period("pe_array")


def _turned_cycles(chip: Chip, part: Rectangle, size: int) -> int:
    """Return the cycles of a queue alone for a rectangle as a transpose, latency apart."""
    rows, cols = part.rows.count, part.cols.count
    first, _ = part.access.pattern[0]
    if first != 1 or rows == 1:
        return lone_cycles(chip, part.access, rows * cols, size)
    lanes, beside = chip.state_buffer.partitions, chip.dma.partitions_per_cycle
    if chip.dma.is_spread:  # the rectangle is a part of a tile that has all partitions
        beside = chip.dma.most_engines(lanes)
    return -(-rows // beside) * transpose_cycles(chip, cols * size, min(beside, rows))


def load_cost(chip: Chip, shape: Shape, axes: Axes, sample: tuple[int, int] = SAMPLE) -> int:
    """Return about how many cycles one queue takes to bring a tensor from DRAM, seen as `axes`.

    sample: the most rows and columns that are looked at. A longer run counts as several.
    """
    *batch, all_rows, all_cols = (math.prod(shape.dims[d] for d in group) for group in axes)
    rows, cols = min(all_rows, sample[0]), min(all_cols, sample[1])
    size = shape.dtype.itemsize
    cycles = 0
    for part in DramTensor(shape, 0, axes).rectangles((0,) * len(batch), (0, 0), (rows, cols)):
        step, run = part.access.pattern[-1]
        length = min(run, part.cols.count) if step == 1 else 1
        count = part.rows.count * part.cols.count // length
        found = lone_cycles(chip, part.access, count, length * size)
        if length == 1 and may_transpose(chip, part.access):
            found = min(found, _turned_cycles(chip, part, size))
        cycles += found
    return cycles * math.prod(batch) * all_rows * all_cols // (rows * cols)


def shares_help(chip: Chip) -> bool:
    """Return whether two queues that move one tile are sooner done than one.

    If they share DRAM's rate, they only hold the port of the tile's bank for longer.
    """
    return dram_rate(chip, 2) >= 2 * dram_rate(chip, 1)


def queues_of_tile(chip: Chip, run_bytes: int | None = None) -> int:
    """Return how many queues may share a tile: all, or one where they would only take turns.

    That is so where one queue is as fast as DRAM, and the port of the tile's bank serves one queue
    at a time: a second one keeps banks and buses of DRAM while it is refused, so both are slower.
    With runs of less than a burst no queue is as fast. Where copies are spread, a queue with a part
    of the partitions has a part of the engines. run_bytes: of the runs (none: long ones).
    """
    parts = chip.dram.organisation
    if chip.state_buffer.is_split:
        return chip.dma.useful_queues
    if chip.dma.is_spread:
        return 1
    if parts is None or shares_help(chip):
        return chip.dma.useful_queues
    short = run_bytes is not None and run_bytes < parts.burst_bytes
    return chip.dma.useful_queues if short else 1


def bus_cost(chip: Chip, shape: Shape, axes: Axes) -> int:
    """Return about how many DMA cycles DRAM's channels take for a tensor that is seen as `axes`.

    All queues share them, so no number of queues takes less. Each run is whole bursts, which the
    channels share evenly. 0 without an organisation, where a run costs no more than its bytes.
    """
    if chip.dram.organisation is None:
        return 0
    *batch, all_rows, all_cols = (math.prod(shape.dims[d] for d in group) for group in axes)
    rows, cols = min(all_rows, SAMPLE[0]), min(all_cols, SAMPLE[1])
    cycles = sum(
        bus_cycles(chip, part.access, run_bytes(part.access))
        for part in DramTensor(shape, 0, axes).rectangles((0,) * len(batch), (0, 0), (rows, cols))
    )
    return round(cycles * math.prod(batch) * all_rows * all_cols / (rows * cols))


def wastes_bursts(chip: Chip, shape: Shape, axes: Axes) -> bool:
    """Return whether runs of a tensor seen as `axes` leave half of the bursts' bytes unused."""
    parts = chip.dram.organisation
    if parts is None:
        return False
    return longest_run_bytes(shape, axes) * 2 <= parts.burst_bytes


def longest_run_bytes(shape: Shape, axes: Axes, columns: int = SAMPLE[1]) -> int:
    """Return the bytes of the longest run of a row's first columns in DRAM, seen as `axes`.

    columns: how many of them are looked at.
    """
    dims = [math.prod(shape.dims[d] for d in group) for group in axes]
    cols = min(dims[-1], columns)
    ends = DramTensor(shape, 0, axes).rectangles((0,) * (len(dims) - 2), (0, 0), (1, cols))
    return max(min(run_bytes(end.access), end.cols.count * shape.dtype.itemsize) for end in ends)
