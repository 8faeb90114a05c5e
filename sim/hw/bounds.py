"""Lower bounds of work that only moves elements: transposes, permutations, reshapes.

Closed formulas that anyone can recompute; see `sim.hw.timing` for those of products and of
transposes through the array. In array cycles. Source: docs/timing_model.md, section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sim.hw.spec import Chip
from sim.hw.timing import Bound, dma_cycles


def bounce_bound(chip: Chip, tiles: Sequence[tuple[int, int]], size_bytes: int) -> Bound:
    """Return the least cycles in which DMA transposes K x N blocks by way of DRAM.

    A block is written by rows, K descriptors of N elements, and read back by columns, a
    descriptor for each of its elements (one of K elements if N = 1). All queues together must do
    that work, and no block takes less than its two copies one after the other:

        max(sum of both copies of all blocks / queues, both copies of the quickest block)
    """
    both = [
        dma_cycles(chip, [(K, N * size_bytes)], dram=True)
        + dma_cycles(chip, [(1, K * size_bytes) if N == 1 else (K * N, size_bytes)], dram=True)
        for K, N in tiles
    ]
    cycles = max(-(-sum(both) // chip.dma.queues), min(both))
    return Bound(_in_array_cycles(chip, cycles), "descriptors of all DMA queues")


def copied_bound(chip: Chip, elements: int, size_bytes: int) -> Bound:
    """Return the least cycles in which elements get another place in the state buffer.

    Each is written by a lane of an engine or by a DMA queue, which move no more in a cycle than

        partitions * rate of both engines + queues * bytes_per_cycle / size
    """
    lanes = Fraction(0)
    for unit in ("activation", "pooling"):
        clock = Fraction(chip.period("pe_array"), chip.period(unit))
        lanes += chip.state_buffer.partitions * getattr(chip, unit).elements_per_cycle * clock
    clock = Fraction(chip.period("pe_array"), chip.period("dma"))
    dma = clock * chip.dma.queues * chip.dma.bytes_per_cycle / size_bytes
    cycles = elements / (lanes + dma)
    return Bound(-(-cycles.numerator // cycles.denominator), "lanes and DMA queues that copy")


def _in_array_cycles(chip: Chip, dma_cycles_: int) -> int:
    clocks = dma_cycles_ * Fraction(chip.period("dma"), chip.period("pe_array"))
    return -(-clocks.numerator // clocks.denominator)
