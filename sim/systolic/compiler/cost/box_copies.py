"""Estimates for copies from one place in DRAM to another, which all DMA queues share."""

from __future__ import annotations

import math

from systolic.compiler.cost.dma import copy_time
from systolic.compiler.ir.box_copies import DramBox
from systolic.compiler.ir.nodes import Axes
from systolic.compiler.ir.strided import ShapeInDram
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.timing import descriptor_cycles, dma_latency_cycles
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer


def copying_queues(chip: Chip, run_bytes: int) -> int:
    """Return how many queues share a copy within DRAM, in descriptors of `run_bytes`.

    Where copies are spread one queue has all engines, but it waits for each of its descriptors. So
    there are as many as it takes for their bytes to fill the engines.
    """
    dma = chip.dma
    if not dma.is_spread:
        return dma.useful_queues
    if dma.descriptor_cost == "sum":
        return dma.queues
    enough = -(-dma.descriptor_cycles * _rate(chip) // (run_bytes * dma.engine_count))
    return min(dma.queues, max(dma.useful_queues, enough))


def copied_boxes(chip: Chip, source: ShapeInDram, target: ShapeInDram, axes: Axes) -> list[DramBox]:
    """Return what each queue copies of a place to another one of the same dimensions.

    axes: the order in which these are gone through.
    """
    box = DramBox.of(source, target, [dim for axis in axes for dim in axis])
    return box.shares(copying_queues(chip, box.run * source.dtype.itemsize))


def box_copy_cycles(chip: Chip, box: DramBox, dtype: str) -> int:
    """Return about how many DMA cycles all queues take for a box.

    DRAM where a queue has one burst in hand is left out: reads and writes close each other's rows.
    """
    size, parts = data_type(dtype).size_bytes, chip.dram.organisation
    shares = box.shares(copying_queues(chip, box.run * size))
    pieces = [[*share.accessible()] for share in shares]
    copies = max(map(len, pieces)) if chip.dma.outstanding == 1 else 1
    latency = copies * dma_latency_cycles(chip)
    if parts is None:
        return latency + _moving(chip, box, max(share.elements for share in shares), size)
    moving, channels = 0, [0.0] * parts.channels
    for piece in pieces:
        own = 0
        for part in piece:
            time = copy_time(chip, *accesses(part, dtype, 0, 0))
            own += time.moving
            channels = [sum(pair) for pair in zip(channels, time.channels, strict=True)]
        moving = max(moving, own)
    return latency + max(moving, math.ceil(max(channels)))


def accesses(box: DramBox, dtype: str, source: int, target: int) -> tuple[Access, Access]:
    """Return the accesses to a box in two places that begin at these bytes of DRAM."""
    size, (out_of, into) = data_type(dtype).size_bytes, box.patterns
    return (
        Access(Buffer.DRAM, dtype, 0, 1, source + box.source * size, out_of),
        Access(Buffer.DRAM, dtype, 0, 1, target + box.target * size, into),
    )


def _rate(chip: Chip) -> int:
    """Return the bytes that all queues copy in a cycle: DRAM passes each of them twice."""
    engines = chip.dma.engine_count * chip.dma.bytes_per_cycle
    return max(1, min(engines, chip.dram.bytes_per_cycle // 2))


def _moving(chip: Chip, box: DramBox, share: int, size_bytes: int) -> int:
    """Return the cycles in which the largest share moves, if DRAM has one rate for all."""
    dma, queues = chip.dma, copying_queues(chip, box.run * size_bytes)
    descriptors, run_bytes = share // box.run, box.run * size_bytes
    if dma.is_spread:
        fetched = -(-descriptors // dma.engine_count) * dma.descriptor_cycles
        passing = -(-box.elements * size_bytes // _rate(chip))
        return max(fetched, passing) if dma.descriptor_cost == "max" else fetched + passing
    each = -(-run_bytes * queues // min(_rate(chip), queues * dma.bytes_per_cycle))
    return descriptors * int(descriptor_cycles(chip, each))
