"""Estimates for bringing or storing a batch: in whole rows, or matrix by matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from systolic.compiler.cost.dma import (
    bus_cost,
    load_cost,
    longest_run_bytes,
    queues_of_tile,
    wastes_bursts,
)
from systolic.compiler.cost.dram import Streams, in_turn_cycles
from systolic.compiler.ir.batch_rows import whole_rows
from systolic.compiler.ir.dram_tensor import DramTensor
from systolic.compiler.ir.nodes import Axes
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.hw.formulas.timing import dma_latency_cycles
from systolic.hw.spec import Chip
from systolic.layout import Shape


@dataclass(frozen=True, slots=True)
class Beside:
    """What happens while a batch is moved.

    work_cycles: of the array, on all of it. queue_cycles: of DMA queues, for the other tensors of
    the work. in_turn_cycles: of the array, if only the last matrix's sums are waited for; None: as
    work_cycles.
    """

    work_cycles: int
    queue_cycles: int = 0
    in_turn_cycles: int | None = None

    def work_on(self, chip: Chip, shape: Shape, axes: Axes) -> int:
        """Return the cycles of the work on a batch, as they count beside its copies.

        Work that waits for every matrix's sums is an upper estimate, beside which more copies seem
        to cost nothing. Where copies mostly wait for latencies, their number must count.
        """
        if self.in_turn_cycles is None or not waits_for_latencies(chip, shape, axes):
            return self.work_cycles
        return self.in_turn_cycles


ALONE = Beside(0)


def together_cost(chip: Chip, shape: Shape, axes: Axes, beside: Beside) -> int:
    """Return about how many of the array's cycles a batch in whole rows and the work on it take.

    It is moved by all queues, before or behind the work.
    """
    every = queue_cycles(chip, shape, axes)
    first, moving = (
        _in_array_cycles(chip, cycles // chip.dma.useful_queues)
        for cycles in (every, every + beside.queue_cycles)
    )
    return first + max(beside.work_on(chip, shape, axes), moving - first)


def apart_cost(chip: Chip, shape: Shape, axes: Axes, beside: Beside) -> int:
    """Return about how many cycles it takes to move matrices one by one, during the work."""
    every = apart_queue_cycles(chip, shape, axes) + beside.queue_cycles
    work = beside.work_on(chip, shape, axes)
    return max(_in_array_cycles(chip, every // chip.dma.useful_queues), work)


def waits_for_latencies(chip: Chip, shape: Shape, axes: Axes) -> bool:
    """Return whether queues that move single matrices wait for latencies most of the time.

    It does not count where all queues together keep the channels of DRAM busy meanwhile.
    """
    if chip.dma.outstanding > 1:
        return False
    copies = math.prod(shape.dims[d] for group in axes[:-2] for d in group)
    waits = copies * _tall(chip, shape, axes) * dma_latency_cycles(chip)
    moving = _moving(chip, shape, axes, 1)
    idle = (waits + moving) // chip.dma.useful_queues > bus_cost(chip, shape, axes)
    return idle and waits > moving


def queue_cycles(chip: Chip, shape: Shape, axes: Axes) -> int:
    """Return about how many cycles of all queues together the tiles of whole rows take."""
    shared = sharing_queues(chip, shape, axes)
    copies = _tall(chip, shape, axes) * shared
    return _of_all_queues(chip, shape, whole_rows(shape, axes), copies, shared)


def apart_queue_cycles(chip: Chip, shape: Shape, axes: Axes) -> int:
    """Return about how many cycles of all queues together the matrices take one by one."""
    copies = math.prod(shape.dims[d] for group in axes[:-2] for d in group)
    return _of_all_queues(chip, shape, axes, copies * _tall(chip, shape, axes), 1)


def _of_all_queues(chip: Chip, shape: Shape, axes: Axes, copies: int, shared: int) -> int:
    """Return about how many cycles of all queues together a tensor takes in `copies` copies.

    shared: how many queues have a part of each tile.

    What keeps the channels of DRAM busy keeps every queue waiting, so it counts once for each. It
    counts where runs leave half of the bursts' bytes unused: elsewhere all ways take as many
    bursts, and only what a queue takes alone tells them apart.
    """
    alone = _moving(chip, shape, axes, shared) + copies * dma_latency_cycles(chip)
    if not wastes_bursts(chip, shape, axes):
        return alone
    return max(alone, bus_cost(chip, shape, axes) * chip.dma.useful_queues)


def _moving(chip: Chip, shape: Shape, axes: Axes, shared: int) -> int:
    """Return the cycles of all queues together for a tensor's tiles, latencies apart.

    With one burst in hand, queues close rows of DRAM for one another: which ones depends on where
    the tiles lie that they move at the same time. shared: how many have a part of each tile.
    """
    parts = chip.dram.organisation
    if parts is None or parts.outstanding > 1:
        return load_cost(chip, shape, axes)
    *batch, all_rows, cols = (math.prod(shape.dims[d] for d in group) for group in axes)
    rows, size = min(all_rows, block_rows(chip)), shape.dtype.itemsize
    tensor, matrices = DramTensor(shape, 0, axes), math.prod(batch)
    beside = range(1, min(matrices, max(1, chip.dma.useful_queues // shared)))
    cycles = 0.0
    first = list(tensor.rectangles((0,) * len(batch), (0, 0), (rows, cols)))
    matrices_beside = (tuple(map(int, np.unravel_index(n, batch))) for n in beside)
    starts = [
        next(iter(tensor.rectangles(index, (0, 0), (1, 1)))).access.start
        for index in matrices_beside
    ]
    for part in first:
        step, run = part.access.pattern[-1]
        length = (min(run, part.cols.count) if step == 1 else 1) * size
        others = tuple(start - first[0].access.start for start in starts)
        cycles += in_turn_cycles(chip, Streams(part.access, length, shared, others))
    return round(cycles * shared * matrices * all_rows / rows)


def sharing_queues(chip: Chip, shape: Shape, axes: Axes) -> int:
    """Return how many queues share a tile of a batch in whole rows."""
    return queues_of_tile(chip, longest_run_bytes(shape, whole_rows(shape, axes)))


def _tall(chip: Chip, shape: Shape, axes: Axes) -> int:
    """Return how many tiles lie one below another."""
    return -(-math.prod(shape.dims[d] for d in axes[-2]) // block_rows(chip))


def _in_array_cycles(chip: Chip, cycles: int) -> int:
    return cycles * chip.period("dma") // chip.period("pe_array")
