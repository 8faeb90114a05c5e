"""Lower bounds of work that only moves elements: transposes, permutations, reshapes.

Closed formulas that anyone can recompute, in ticks; see `systolic.hw.formulas.timing` and
`systolic.hw.formulas.products` for those of work of the array. Source: docs/timing_model.md,
section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from systolic.hw.formulas.dram import buses_at_once
from systolic.hw.formulas.engines import copiers, fastest, lead_cycles, serial_cycles
from systolic.hw.formulas.ticks import UnitRate, after, least_end
from systolic.hw.formulas.timing import (
    Bound,
    dma_cycles,
    dma_latency_cycles,
    lone_latency_cycles,
)
from systolic.hw.spec import Chip


def bounce_bound(chip: Chip, tiles: Sequence[tuple[int, int]], size_bytes: int) -> Bound:
    """Return the least time in which DMA transposes K x N blocks by way of DRAM.

    A block is written by rows, K descriptors of N elements, and read back by columns, a
    descriptor for each of its elements (one of K elements if N = 1). All queues together must do
    that work, and no block takes less than its two copies one after the other, perhaps in one
    queue. In cycles of the DMA engine's clock:

        max(sum of both copies of all blocks / queues, both copies of the quickest block)

    Where copies of a queue overlap their latencies, the first latency comes before that, and the
    copies cost what they do without. Dispatch that is serial is part of a copy's latency here. The
    engines' bytes per cycle are a bound as well.
    """
    latency = lone_latency_cycles(chip)
    each = 0 if chip.dma.outstanding > 1 else latency
    hidden = latency - each
    least = [
        2 * each
        + least_moving_cycles(chip, K, N * size_bytes)
        + least_moving_cycles(chip, *((1, K * size_bytes) if N == 1 else (K * N, size_bytes)))
        for K, N in tiles
    ]
    moved = 2 * sum(K * N for K, N in tiles) * size_bytes
    cycles = max(
        hidden + max(-(-sum(least) // chip.dma.queues), min(least)),
        latency - (-moved // (chip.dma.engine_count * chip.dma.bytes_per_cycle)),
    )
    ticks = after(chip, 0, "dma", cycles)
    return Bound(ticks, "descriptors of all DMA queues", chip.period("pe_array"))


def least_moving_cycles(chip: Chip, descriptors: int, size_bytes: int) -> int:
    """Return the least cycles behind its latency of a copy from or to DRAM.

    descriptors: of `size_bytes` each, as many side by side as can be. With several bursts in hand
    (`outstanding` of DRAM's organisation) the next descriptors are fetched while bursts move: then
    it is the fetch of all and a burst, or the fetch of one and the bursts of all, by as many buses
    as the queue has bursts for.
    """
    parts = chip.dram.organisation
    if parts is None or parts.outstanding == 1:
        rows = chip.dma.partitions_per_cycle
        cycles = dma_cycles(chip, [(descriptors, size_bytes)], dram=True, rows=rows)
        return cycles - dma_latency_cycles(chip)
    first = chip.dma.descriptor_cycles if chip.dma.descriptor_cost == "sum" else 0
    _, burst_cycles = chip.burst_cycles()
    bursts = descriptors * -(-size_bytes // parts.burst_bytes)
    begun = first + (descriptors - 1) * chip.dma.descriptor_cycles  # the last's bursts are taken
    moving = -(-bursts // buses_at_once(chip)) * burst_cycles
    return max(begun + burst_cycles, first + moving, descriptors * chip.dma.descriptor_cycles)


def copied_bound(chip: Chip, elements: int, size_bytes: int) -> Bound:
    """Return the least time in which elements get another place in the state buffer.

    Each is written by a lane of an engine or by a DMA queue. In a cycle of its clock

        an engine      moves partitions * its fastest rate elements, or as many as pass the ports,
                       over latency + 1 cycles later
        the DMA engines move engines * bytes_per_cycle bytes, from the cycle after their latency on

    and begins when its first instruction is dispatched, and an engine ready to read.
    """
    lanes, most = chip.state_buffer.partitions * size_bytes, chip.port_width_bytes // size_bytes
    ways = [
        UnitRate(
            chip.period(unit),
            lanes * min(fastest(engine, "state_buffer"), Fraction(most)),
            lead_cycles(engine, "state_buffer") + engine.latency_cycles + 1,
        )
        for unit, engine in copiers(chip, "state_buffer").items()
    ]
    dma = chip.dma
    behind = serial_cycles(dma) + dma.latency_cycles + 1
    ways.append(UnitRate(chip.period("dma"), dma.engine_count * dma.bytes_per_cycle, behind))
    ticks = least_end(0, elements * size_bytes, ways)
    return Bound(ticks, "lanes and DMA queues that copy", chip.period("pe_array"))
