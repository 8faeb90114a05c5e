"""Estimates for bringing or storing a batch: whole, in groups of matrices, or matrix by matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

from systolic.compiler.cost.dma import load_cost
from systolic.compiler.cost.turns import turn_cost
from systolic.compiler.ir.batch_groups import batch_groups
from systolic.compiler.ir.chip_tiles import block_rows
from systolic.compiler.ir.nodes import Axes
from systolic.hw.formulas.timing import dma_latency_cycles
from systolic.hw.spec import Chip
from systolic.layout import Shape


@dataclass(frozen=True, slots=True)
class Beside:
    """What happens while a batch is moved.

    work_cycles: of the array, on all of it. queue_cycles: of DMA queues, for the other tensors of
    the work.
    """

    work_cycles: int
    queue_cycles: int = 0


ALONE = Beside(0)


def groups_cost(chip: Chip, shape: Shape, axes: Axes, groups: int, beside: Beside) -> int:
    """Return about how many of the array's cycles a batch in groups and the work on it take.

    A single group is moved by all queues, before or behind the work. Of several groups each is
    moved during the work on others.
    """
    every = queue_cycles(chip, shape, axes, groups)
    first = (
        every // chip.dma.useful_queues
        if groups == 1
        else every // groups // sharing_queues(chip, shape, axes, groups)
    )
    all_queues = (every + beside.queue_cycles) // chip.dma.useful_queues
    first, moving = (_in_array_cycles(chip, cycles) for cycles in (first, all_queues))
    return first + max(beside.work_cycles, moving - first)


def across_cost(chip: Chip, shape: Shape, views: tuple[Axes, Axes], beside: Beside) -> int:
    """Return about how many cycles a batch takes that comes with a matrix on each partition.

    views: of the rows that are brought, and of the matrices that are turned. The product waits
    until all matrices are turned.
    """
    held, turned = views
    copies = -(-math.prod(shape.dims[d] for d in held[-2]) // block_rows(chip))
    every = load_cost(chip, shape, held) // chip.dma.useful_queues + copies * dma_latency_cycles(
        chip
    )
    dims = [math.prod(shape.dims[d] for d in group) for group in turned]
    first = _in_array_cycles(chip, every) + turn_cost(chip, dims, shape.element_type)
    others = _in_array_cycles(chip, beside.queue_cycles // chip.dma.useful_queues)
    return first + max(beside.work_cycles, others)


def apart_cost(chip: Chip, shape: Shape, axes: Axes, beside: Beside) -> int:
    """Return about how many cycles it takes to move matrices one by one, during the work."""
    every = apart_queue_cycles(chip, shape, axes) + beside.queue_cycles
    return max(_in_array_cycles(chip, every // chip.dma.useful_queues), beside.work_cycles)


def queue_cycles(chip: Chip, shape: Shape, axes: Axes, groups: int) -> int:
    """Return about how many cycles of all queues together the tiles of groups take."""
    found = batch_groups(shape, axes, groups)
    copies = groups * _tall(chip, shape, axes) * sharing_queues(chip, shape, axes, groups)
    return load_cost(chip, found.shape, found.tiles) + copies * dma_latency_cycles(chip)


def apart_queue_cycles(chip: Chip, shape: Shape, axes: Axes) -> int:
    """Return about how many cycles of all queues together the matrices take one by one."""
    copies = math.prod(shape.dims[d] for group in axes[:-2] for d in group)
    latency = copies * _tall(chip, shape, axes) * dma_latency_cycles(chip)
    return load_cost(chip, shape, axes) + latency


def sharing_queues(chip: Chip, shape: Shape, axes: Axes, groups: int) -> int:
    """Return how many queues share a tile of a batch in so many groups.

    All share the tile of a single group; one moves a tile if there are enough for all queues.
    """
    if groups == 1:
        return chip.dma.useful_queues
    half = max(1, chip.dma.useful_queues // 2)
    return 1 if groups * _tall(chip, shape, axes) > half else half


def _tall(chip: Chip, shape: Shape, axes: Axes) -> int:
    """Return how many tiles lie one below another."""
    return -(-math.prod(shape.dims[d] for d in axes[-2]) // block_rows(chip))


def _in_array_cycles(chip: Chip, cycles: int) -> int:
    return cycles * chip.period("dma") // chip.period("pe_array")
