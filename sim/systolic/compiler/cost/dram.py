"""Estimates for bursts of DRAM with channels and banks: where they lie decides what they take.

A queue asks for the bursts of its runs in order and has up to `outstanding` of them in hand. So
they take at least the time of the channel that has most to do, and at least the time for which
all of them are in hand, shared by as many as may be at once. Only the first bursts of an access
are looked at. Not here: latencies, descriptors, and what other queues do meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.hw.formulas.dram import DramAddress, dram_rate, place
from systolic.hw.spec import Chip, DramOrganisation
from systolic.isa import Access

SAMPLE_BURSTS = 512
"""The most bursts of an access that an estimate looks at."""

Numbers = npt.NDArray[np.int64]


BurstPlaces = DramAddress[Numbers]
"""Where bursts of DRAM lie, [bursts]: their channels, banks (over all groups) and rows."""


class _Dram(NamedTuple):
    """The figures of a chip on which the time of bursts depends."""

    parts: DramOrganisation
    size_bytes: int
    burst_cycles: int


@dataclass(frozen=True, slots=True)
class BurstTime:
    """What the bursts of an access take, in DMA cycles.

    channels: for how long each channel is busy with them. in_hand: for how long a queue has them in
    hand if no other queue disturbs it.
    """

    channels: tuple[float, ...]
    in_hand: float

    @property
    def cycles(self) -> int:
        """Return the cycles of a queue that has DRAM for itself."""
        return round(max(self.in_hand, *self.channels))


def burst_time(chip: Chip, access: Access, run_bytes: int) -> BurstTime:
    """Return what the bursts of an access to DRAM take, which come in runs of `run_bytes`."""
    parts = chip.dram.organisation
    assert parts is not None
    _, burst_cycles = chip.burst_cycles()
    dram = _Dram(parts, chip.dram.size_bytes, burst_cycles)
    return _burst_time(dram, access, run_bytes)


@lru_cache(maxsize=4096)
def _burst_time(dram: _Dram, access: Access, run_bytes: int) -> BurstTime:
    """Return that time; plans that are weighed against each other ask for the same accesses."""
    parts = dram.parts
    each = run_bytes // access.element_bytes
    starts = _run_starts(access, each, SAMPLE_BURSTS) * access.element_bytes
    bursts = -(-(int(starts[0]) % parts.burst_bytes + run_bytes) // parts.burst_bytes)
    sample = _first_bursts(parts.burst_bytes, starts, bursts, SAMPLE_BURSTS)
    found = place(parts, sample.ravel(), dram.size_bytes)
    opened = _openings(parts, found, sample)
    return _time(dram, found, opened, access.elements // each * bursts / sample.size)


def scattered_cycles(chip: Chip, run_bytes: int, opened: float | None = None) -> float:
    """Return the cycles that each of many runs costs a queue, wherever the runs lie.

    opened: how many rows each run opens (None: rows of its own, one in each channel that it has
    bursts in). All queues together keep all channels busy. A queue has so
    many bursts in hand that it need not wait for any. So a queue's cost is its share of the time.
    """
    parts = chip.dram.organisation
    assert parts is not None
    _, burst_cycles = chip.burst_cycles()
    bursts = -(-run_bytes // parts.burst_bytes)
    opened = -(-run_bytes // parts.interleave_bytes) if opened is None else opened
    closed = max(parts.activate_cycles + parts.precharge_cycles, parts.row_cycle_cycles)
    channel = max(
        bursts * max(burst_cycles, parts.burst_gap_cycles),
        opened * max(parts.activate_gap_cycles, parts.four_activates_cycles / 4),
        opened * closed / parts.banks,
    )
    shared = channel * refresh_share(parts) * chip.dma.queues / parts.channels
    return float(max(shared, run_bytes / chip.dma.queue_bytes_per_cycle))


@dataclass(frozen=True, slots=True)
class Streams:
    """Runs of one tile after another, as queues with one burst of DRAM in hand go through them.

    access: to the first tile, run by run of `run_bytes`. shares: how many queues have a part of its
    runs each. others: where further tiles begin, in bytes from the first, which more queues move
    meanwhile.
    """

    access: Access
    run_bytes: int
    shares: int
    others: tuple[int, ...] = ()

    @property
    def runs(self) -> int:
        """Return how many runs a queue has of a tile, at most."""
        return -(-self.access.size_bytes // self.run_bytes // self.shares)


def in_turn_cycles(chip: Chip, streams: Streams) -> float:
    """Return about how many cycles queues with one burst in hand take for their parts of tiles.

    All of them move burst after burst, in step. A burst opens its row if another one was used in
    that bank before, by whatever queue. Then no queue, no channel and no bank is done sooner than
    with what it has to do. Nor is the port of the tile's bank on the chip, if it serves one
    partition at a time: then queues that share a tile take turns.
    """
    parts = chip.dram.organisation
    assert parts is not None
    _, burst_cycles = chip.burst_cycles()
    found = _in_turn(_Dram(parts, chip.dram.size_bytes, burst_cycles), streams)
    if streams.shares > 1 and not chip.state_buffer.is_split:
        found = max(found, streams.access.size_bytes / dram_rate(chip, 1))
    return found


@lru_cache(maxsize=4096)
def _in_turn(dram: _Dram, streams: Streams) -> float:
    parts = dram.parts
    access, length = streams.access, streams.run_bytes
    bursts = -(-(access.start % parts.burst_bytes + length) // parts.burst_bytes)
    some = min(bursts, SAMPLE_BURSTS)
    runs = min(streams.runs, max(1, SAMPLE_BURSTS // some))
    firsts = [
        part + other
        for other in (0, *streams.others)
        for part in _run_starts_of_shares(access, length, streams.shares, runs)
    ]
    size = parts.burst_bytes
    asked = np.stack(firsts)[:, :, None] // size * size + np.arange(some) * size
    queues = len(asked)
    found = place(parts, asked.reshape(queues, -1).T.ravel(), dram.size_bytes)
    bank = found.channel * parts.banks + found.bank
    order = np.lexsort((np.arange(len(bank)), bank))
    same = np.zeros(len(bank), bool)
    before, after = order[:-1], order[1:]
    same[after] = (bank[before] == bank[after]) & (found.row[before] == found.row[after])
    cost = dram.burst_cycles + ~same * (parts.activate_cycles + parts.precharge_cycles)
    steps = found.channel.reshape(-1, queues)
    beside = (steps[:, :, None] == steps[:, None, :]).sum(axis=2) - 1
    waits = beside * dram.burst_cycles / 2
    busiest = max(
        (cost.reshape(-1, queues) + waits).sum(axis=0).max(),
        np.bincount(bank, weights=cost).max(),
        np.bincount(found.channel).max() * dram.burst_cycles,
    )
    return float(busiest) * streams.runs * bursts / (runs * some)


def _run_starts_of_shares(access: Access, length: int, shares: int, runs: int) -> list[Numbers]:
    """Return the bytes at which the first runs of each share of an access begin."""
    each = length // access.element_bytes
    pairs = list(access.pattern)
    if each > 1:
        step, count = pairs.pop()
        pairs.append((step * each, count // each))
    counts, every = [count for _, count in pairs], access.elements // each
    found = []
    for share in range(shares):
        numbers = np.minimum(share * -(-every // shares) + np.arange(runs), every - 1)
        index = np.unravel_index(numbers, counts)
        at = sum(part * step for part, (step, _) in zip(index, pairs, strict=True))
        found.append(access.start + np.asarray(at) * access.element_bytes)
    return found


def bus_cycles(chip: Chip, access: Access, run_bytes: int) -> float:
    """Return the cycles of all channels together, working side by side, for runs of `run_bytes`.

    Every run is bursts of its own, even where its neighbour lies in the same burst.
    """
    parts = chip.dram.organisation
    assert parts is not None
    _, burst_cycles = chip.burst_cycles()
    bursts = access.size_bytes // run_bytes * -(-run_bytes // parts.burst_bytes)
    each = max(burst_cycles, parts.burst_gap_cycles) * refresh_share(parts)
    return bursts * each / parts.channels


def _run_starts(access: Access, each: int, most: int) -> Numbers:
    """Return the first elements of the first runs of an access, of `each` elements."""
    found = np.array([access.first_element], np.int64)
    pairs = list(access.pattern)
    if each > 1:
        step, count = pairs.pop()
        pairs.append((step * each, count // each))
    for step, count in reversed(pairs):
        found = (np.arange(min(count, most))[:, None] * step + found[None, :]).ravel()[:most]
    return found


def _first_bursts(size: int, starts: Numbers, bursts: int, most: int) -> Numbers:
    """Return the addresses of the bursts of the first runs, [runs, bursts], `bursts` of each."""
    some = min(bursts, most)
    firsts = starts[: max(1, most // some), None] // size * size
    found: Numbers = firsts + np.arange(some)[None, :] * size
    return found


def _time(dram: _Dram, found: BurstPlaces, opened: Numbers, scale: float) -> BurstTime:
    """Return the time of `scale` times the bursts found; opened: the bank of each opening."""
    parts, burst_cycles = dram.parts, dram.burst_cycles
    of_banks = np.bincount(opened, minlength=parts.channels * parts.banks)
    openings = of_banks.reshape(parts.channels, parts.banks)
    groups = np.bincount(
        found.channel * parts.bank_groups + found.bank % parts.bank_groups,
        minlength=parts.channels * parts.bank_groups,
    ).reshape(parts.channels, parts.bank_groups)
    closed = parts.activate_cycles + parts.precharge_cycles
    busy = np.max(
        [
            groups.sum(axis=1) * max(burst_cycles, parts.burst_gap_cycles),
            groups.max(axis=1) * parts.burst_gap_in_group_cycles,
            openings.sum(axis=1) * max(parts.activate_gap_cycles, parts.four_activates_cycles / 4),
            (openings.max(axis=1) - 1) * max(closed, parts.row_cycle_cycles),
        ],
        axis=0,
    )
    held = len(found.bank) * burst_cycles + len(opened) * closed
    scale *= refresh_share(parts)
    channels = tuple(float(each) for each in busy * scale)
    return BurstTime(channels, held * scale / parts.outstanding)


def refresh_share(parts: DramOrganisation) -> float:
    """Return by how much refresh lengthens what DRAM does."""
    if not parts.refresh_interval_cycles:
        return 1.0
    lost = parts.precharge_cycles + parts.refresh_cycles
    return parts.refresh_interval_cycles / (parts.refresh_interval_cycles - lost)


def _openings(parts: DramOrganisation, found: BurstPlaces, sample: Numbers) -> Numbers:
    """Return the bank of each opening of a row; sample: the bursts' addresses, [runs, bursts].

    With one burst in hand, other queues close the row after each stretch of `interleave_bytes`.
    With fr_fcfs, bursts that are in hand together and lie in one row open it once.
    """
    bank, row = found.channel * parts.banks + found.bank, found.row
    order = np.arange(len(bank))
    if parts.outstanding == 1:
        stretch = sample // parts.interleave_bytes
        begins: Numbers = bank[np.diff(stretch, axis=1, prepend=-1).ravel() != 0]
        return begins
    if parts.scheduling == "fr_fcfs":
        order = np.lexsort((order, row, order // parts.outstanding, bank))
    else:
        order = np.lexsort((order, bank))
    bank, row = bank[order], row[order]
    changed = (bank[1:] != bank[:-1]) | (row[1:] != row[:-1])
    opened: Numbers = bank[np.concatenate(([True], changed))]
    return opened
