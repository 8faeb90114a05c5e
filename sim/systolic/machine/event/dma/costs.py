"""What a copy costs beside its bytes: its latency, its rests, and the bandwidths that it holds."""

from __future__ import annotations

from systolic.hw.spec import Chip
from systolic.isa import Buffer, DmaCopy, DmaTranspose
from systolic.machine.event.dma.pace import ALWAYS
from systolic.machine.event.dma.plan import dram_ends
from systolic.machine.event.ports.stream import Holding

DRAM = "dram"
"""The name of DRAM's bandwidth, as DMA engines have theirs."""


def holdings(chip: Chip, copy: DmaCopy, queue: int) -> tuple[Holding, ...]:
    """Return what a copy holds of bandwidths that queues share, from its latency's end on."""
    held = []
    if chip.dma.queues_per_engine > 1:
        held += [Holding(f"dma engine {engine}", 1) for engine in engines_of(chip, copy, queue)]
    ends = dram_ends(copy)
    if ends and chip.dram.organisation is None:
        held.append(Holding(DRAM, ends))
    return tuple(held)


def engines_of(chip: Chip, copy: DmaCopy, queue: int) -> list[int]:
    """Return the DMA engines that serve a copy, in order."""
    dma, ends = chip.dma, (copy.target, copy.source)
    if not dma.is_spread:
        return [queue % dma.engine_count]
    access = next((end for end in ends if end.buffer is not Buffer.DRAM), None)
    if access is None:
        return list(range(dma.engine_count))
    lanes = range(access.partition, access.partition + access.partitions)
    return sorted({dma.engine_of(partition) for partition in lanes})


def latency_cycles(chip: Chip, copy: DmaCopy) -> int:
    """Return the cycles from the start of a copy to the start of its first descriptor."""
    touches_dram = Buffer.DRAM in (copy.source.buffer, copy.target.buffer)
    return chip.dma.latency_cycles + touches_dram * chip.dram.latency_cycles


def working_cycles(chip: Chip, copy: DmaCopy) -> tuple[int, int]:
    """Return (m, n): bytes of a copy move in the first m of every n cycles."""
    turns = chip.dma.transposes
    if turns is None or not isinstance(copy, DmaTranspose):
        return ALWAYS
    return turns.working(outside=copy.source.buffer is Buffer.DRAM)
