"""What a copy takes, by the number and the length of its runs: a closed form, no sampling."""

from __future__ import annotations

import math

from systolic.compiler.cost.dma import as_transpose, bundle_cycles, run_bytes, transpose_time
from systolic.compiler.cost.dram import scattered_cycles
from systolic.compiler.cost.last_chip import LAST_CHIP
from systolic.hw.formulas.dram import run_cycles
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, DmaTranspose
from systolic.isa.access import Pattern


def latency_cycles(chip: Chip) -> int:
    """Return the DMA cycles before the first byte of a copy from or to DRAM."""
    return chip.dma.latency_cycles + chip.dram.latency_cycles


def runs_cycles(chip: Chip, runs: int, size_bytes: int, lanes: int, *, within: bool = False) -> int:
    """Return the DMA cycles in which a queue alone moves `runs` runs of `size_bytes` each.

    lanes: the partitions that they go to, or come from. within: from DRAM to DRAM.
    """
    if within:
        return int(LAST_CHIP.of(_within_cycles, chip, runs, size_bytes))
    rows = 1
    if chip.dma.is_spread:
        rows = chip.dma.most_engines(lanes)
    elif lanes > 1:
        rows = min(lanes, chip.dma.partitions_per_cycle)
    bundle = int(LAST_CHIP.of(bundle_cycles, chip, size_bytes, rows))
    return -(-runs // rows) * bundle


def pattern_cycles(chip: Chip, pattern: Pattern, size_bytes: int, run: int, lanes: int) -> int:
    """Return the DMA cycles in which a queue alone moves elements that lie so in DRAM.

    size_bytes: of an element. run: the bytes that are contiguous on both sides. lanes: as above.
    """
    total = size_bytes * math.prod(count for _, count in pattern)
    if chip.dram.organisation is None or chip.dram.organisation.outstanding == 1:
        return runs_cycles(chip, -(-total // run), run, lanes)
    return int(LAST_CHIP.of(_pattern_cycles, chip, pattern, size_bytes, run))


def _pattern_cycles(chip: Chip, pattern: Pattern, size_bytes: int, run: int) -> int:
    """Return that time where bursts of several channels are in hand at once.

    A row that is open serves all runs of some neighbours in time that lie in it.
    """
    parts = chip.dram.organisation
    assert parts is not None
    runs = size_bytes * math.prod(count for _, count in pattern) // run
    near, span = 1, run
    for step, count in reversed(pattern):
        if near >= parts.outstanding:
            break
        inside = size_bytes * abs(step) * count <= run
        near, span = (near if inside else near * count), span + size_bytes * abs(step) * (count - 1)
    opened = min(-(-run // parts.interleave_bytes), 1 + span / parts.row_bytes / near)
    moving = runs * scattered_cycles(chip, run, opened)
    return round(moving + runs * chip.dma.descriptor_cycles)


def _within_cycles(chip: Chip, runs: int, size_bytes: int) -> int:
    rows = chip.dma.engine_count if chip.dma.is_spread else 1
    cost = -(-runs // rows) * chip.dma.descriptor_cycles
    if chip.dma.is_spread:  # all engines move each run
        moving = run_cycles(chip, runs * size_bytes, within=True)
    else:
        moving = runs * run_cycles(chip, size_bytes, within=True)
    return max(cost, moving) if chip.dma.descriptor_cost == "max" else cost + moving


def move_cycles(chip: Chip, source: Access, target: Access) -> int:
    """Return the DMA cycles of a queue for a copy, its latency where none overlaps it included."""
    run = min(run_bytes(source), run_bytes(target))
    runs = -(-source.size_bytes // run)
    ends = (source.buffer, target.buffer)
    lanes = math.prod(a.partitions for a in (source, target))
    cycles = runs_cycles(chip, runs, run, lanes, within=ends == (Buffer.DRAM, Buffer.DRAM))
    return cycles + (latency_cycles(chip) if chip.dma.outstanding == 1 else 0)


def transposed_cycles(chip: Chip, source: Access, target: Access) -> float:
    """Return the DMA cycles of a queue for a copy as a transpose by DMA; infinite if it is none."""
    if chip.dma.transposes is None or target.buffer is not Buffer.STATE:
        return math.inf
    turned = as_transpose(chip, source, target)
    return math.inf if turned is None else transpose_time(chip, turned, target).moving


def copied_or_transposed(chip: Chip, queue: int, source: Access, target: Access) -> DmaCopy:
    """Return the copy, or the transpose by DMA that does the same if that takes less."""
    turned = as_transpose(chip, source, target) if chip.dma.transposes is not None else None
    latency = latency_cycles(chip) if chip.dma.outstanding == 1 else 0
    transposing = transposed_cycles(chip, source, target) + latency
    if turned is None or transposing >= move_cycles(chip, source, target):
        return DmaCopy(dma_queue=queue, source=source, target=target)
    return DmaTranspose(dma_queue=queue, source=turned, target=target)
