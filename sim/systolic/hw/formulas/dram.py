"""Twin of the engines' `dram` rooms: what runs cost where no other copy runs, in closed form.

A second oracle beside `hw.timing`; the machine never imports it. Cycles are the DMA engine's.
Source: docs/timing_model.md, section 6.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from systolic.hw.spec import Chip, DramOrganisation


class Run(NamedTuple):
    """One descriptor: bytes contiguous on both sides; None for a side that is on the chip."""

    source: int | None
    target: int | None
    size_bytes: int


class DramAddress(NamedTuple):
    """Where a byte of DRAM lies."""

    channel: int
    bank: int
    row: int


def place(parts: DramOrganisation, address: int) -> DramAddress:
    """Return channel, bank and row of a byte address."""
    block, byte = divmod(address, parts.interleave_bytes)
    inside = block // parts.channels * parts.interleave_bytes + byte
    row = inside // parts.row_bytes
    return DramAddress(block % parts.channels, row % parts.banks, row // parts.banks)


def burst_addresses(parts: DramOrganisation, run: Run) -> list[int]:
    """Return the addresses of a run's bursts, reads and writes, in the order they are made.

    A burst of the target comes right after the read that brings its last byte.
    """
    reads = _bursts(parts.burst_bytes, run.source, run.size_bytes)
    writes = _bursts(parts.burst_bytes, run.target, run.size_bytes)
    made = []
    for address, through in reads:
        made.append(address)
        while writes and writes[0][1] <= through:
            made.append(writes.pop(0)[0])
    return made + [address for address, _ in writes]


def _bursts(size: int, start: int | None, length: int) -> list[tuple[int, int]]:
    """Return address and, after it, bytes through, for the bursts of `length` bytes at `start`."""
    if start is None:
        return []
    return [
        (address, min(address + size - start, length))
        for address in range(start // size * size, start + length, size)
    ]


def opening_cycles(parts: DramOrganisation, before: int | None, row: int) -> int:
    """Return the cycles a bank takes to open a row. before: the row it has open, None for none."""
    if before == row:
        return 0
    return parts.activate_cycles + (0 if before is None else parts.precharge_cycles)


def lone_copy_cycles(chip: Chip, runs: Iterable[Run]) -> int:
    """Return the cycles of one copy that no other meets, all banks closed when it begins.

    latency + sum over runs of descriptor_cycles + per burst: the row's opening + the burst.
    """
    parts = chip.dram.organisation
    assert parts is not None
    _, burst_cycles = chip.burst_cycles
    open_rows: dict[tuple[int, int], int] = {}
    cycles = chip.dma.latency_cycles + chip.dram.latency_cycles
    for run in runs:
        cycles += chip.dma.descriptor_cycles
        for address in burst_addresses(parts, run):
            channel, bank, row = place(parts, address)
            before = open_rows.get((channel, bank))
            cycles += opening_cycles(parts, before, row) + burst_cycles
            open_rows[channel, bank] = row
    return cycles


def least_cycles(chip: Chip, bytes_moved: int) -> int:
    """Return the least cycles in which all channels and queues together move that many bytes.

    Whole bursts, every row open, every channel a queue of its own as far as there are both.
    """
    parts = chip.dram.organisation
    assert parts is not None
    _, burst_cycles = chip.burst_cycles
    bursts = -(-bytes_moved // parts.burst_bytes)
    return -(-bursts // min(parts.channels, chip.dma.queues)) * burst_cycles


def dram_rate(chip: Chip, queues: int) -> int:
    """Return the most bytes that many queues move from or to DRAM in a cycle."""
    parts = chip.dram.organisation
    if parts is None:
        engines = min(queues, chip.dma.engine_count)
        return min(chip.dram.bytes_per_cycle, chip.dma.bytes_per_cycle * engines)
    _, burst_cycles = chip.burst_cycles
    return max(1, min(parts.channels, queues) * parts.burst_bytes // burst_cycles)


def queue_rate(chip: Chip, rows: int = 1) -> int:
    """Return the bytes a queue alone moves in a cycle by the ports of `rows` partitions."""
    own, width = chip.dma.bytes_per_cycle, chip.state_buffer.port_bytes
    return own if width is None else min(own, rows * width)


def run_cycles(chip: Chip, size_bytes: int, *, within: bool = False, rows: int = 1) -> int:
    """Return the cycles in which a queue alone moves bytes from or to DRAM, or within it.

    Runs of `rows` partitions move side by side; size_bytes is what they have together.

    At its own rate or its share of DRAM, the lesser; within DRAM it has two shares, of half each.
    With an organisation: at best, in whole bursts.
    """
    parts, total = chip.dram.organisation, chip.dram.bytes_per_cycle
    if parts is not None:
        _, burst_cycles = chip.burst_cycles
        return -(-size_bytes // parts.burst_bytes) * burst_cycles * (1 + within)
    if within and total == 1:
        return 2 * size_bytes
    own = chip.dma.bytes_per_cycle if within else queue_rate(chip, rows)
    return -(-size_bytes // min(own, total // (1 + within)))


def share_bytes(total: int, shares: int, number: int, first: int, stop: int) -> int:
    """Return the bytes one share of DRAM gets in DMA cycles first <= t < stop.

    In cycle t it gets total // shares, and one more if
    (number - t * over) mod shares < over, over = total mod shares: that is, if number - t * over
    and number - (t + 1) * over lie in different rows of `shares` numbers, so that the sum over
    cycles is the difference of the first row and the last.
    """
    each, over = divmod(total, shares)
    return (
        each * (stop - first) + (number - first * over) // shares - (number - stop * over) // shares
    )
