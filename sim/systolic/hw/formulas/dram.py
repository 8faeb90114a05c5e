"""Twin of the engines' `dram` rooms: what runs cost where no other copy runs, in closed form.

A second oracle beside `timing`; the machine never imports it. Cycles are the DMA engine's.
Source: docs/timing_model.md, section 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from systolic.hw.spec import Chip, DramOrganisation

Addresses = TypeVar("Addresses", int, npt.NDArray[np.int64])
"""A number, or many of them side by side."""


class ContiguousBytes(NamedTuple):
    """One descriptor: bytes contiguous on both sides; None for a side that is on the chip."""

    source: int | None
    target: int | None
    size_bytes: int


class DramAddress(NamedTuple, Generic[Addresses]):
    """Where a byte of DRAM lies, or each of many; `bank` counts the banks of the channel.

    It counts them over all groups.
    """

    channel: Addresses
    bank: Addresses
    row: Addresses


def place(
    parts: DramOrganisation, address: Addresses, size_bytes: int = 0
) -> DramAddress[Addresses]:
    """Return channel, bank and row of a byte address, or of each of an array of them, int64.

    size_bytes: of DRAM, if row is not last.
    """
    stripe, rest = divmod(address, parts.interleave_bytes * parts.channels)
    channel, byte = divmod(rest, parts.interleave_bytes)
    in_group = parts.banks // parts.bank_groups
    counts = {
        "column": parts.row_bytes // parts.burst_bytes,
        "bank_group": parts.bank_groups,
        "bank": in_group,
        "row": max(1, size_bytes // (parts.channels * parts.banks * parts.row_bytes)),
    }
    digits: dict[str, Addresses] = {}
    weight = parts.burst_bytes
    inside = stripe * parts.interleave_bytes + byte
    for name in parts.address_order:
        is_top = name == parts.address_order[-1]
        digits[name] = inside // weight if is_top else inside // weight % counts[name]
        weight *= counts[name]
    group, bank, row = digits["bank_group"], digits["bank"], digits["row"]
    if parts.hash_banks:
        bank, group = bank ^ row % in_group, group ^ row // in_group % parts.bank_groups
    if parts.hash_channels:
        channel = channel ^ _digit_xor(stripe, parts.channels)
    return DramAddress(channel, bank * parts.bank_groups + group, row)


def _digit_xor(number: Addresses, base: int) -> Addresses:
    """Return the XOR of all digits of a number in a base that is a power of two."""
    found = number % base
    while base > 1 and np.any(number := number // base):
        found = found ^ number % base
    return found


def bursts_of(parts: DramOrganisation, run: ContiguousBytes) -> list[tuple[int, bool]]:
    """Return a run's bursts, (address, is a write), in the order in which they are made.

    A burst of the target comes right after the read that brings its last byte.
    """
    reads = _bursts(parts.burst_bytes, run.source, run.size_bytes)
    writes = _bursts(parts.burst_bytes, run.target, run.size_bytes)
    made = []
    for address, through in reads:
        made.append((address, False))
        while writes and writes[0][1] <= through:
            made.append((writes.pop(0)[0], True))
    return made + [(address, True) for address, _ in writes]


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


@dataclass
class _Past:
    """What the timings of a channel count from; cycles, None or missing for never.

    rows: (row, cycle of activation) by bank; activated: by bank, group and all; began: the last
    burst, by group and (None) of all; ended: last cycle and direction of the last burst.
    """

    due: int
    free_at: int = 0
    rows: dict[int, int] = field(default_factory=dict)
    activated: dict[int, int] = field(default_factory=dict)
    group_activated: dict[int, int] = field(default_factory=dict)
    all_activated: list[int] = field(default_factory=list)
    began: dict[int | None, int] = field(default_factory=dict)
    ended: tuple[int, bool] | None = None


class _LoneQueue:
    """The channels as one burst after another finds them."""

    def __init__(self, chip: Chip, *, in_state: bool) -> None:
        parts = chip.dram.organisation
        assert parts is not None
        self.parts, self.size = parts, chip.dram.size_bytes
        _, self.burst_cycles = chip.burst_cycles(in_state=in_state)
        self.pasts = [_Past(parts.refresh_interval_cycles) for _ in range(parts.channels)]

    def after_burst(self, asked: int, address: int, *, writes: bool) -> int:
        """Return the cycle after a burst that is asked for in cycle `asked`."""
        parts = self.parts
        channel, bank, row = place(parts, address, self.size)
        past, group = self.pasts[channel], bank % parts.bank_groups
        ready = self._ready(past, self._given(past, asked), bank, row)
        start = max([ready, *self._bus_times(past, group, writes=writes)])
        past.began[group] = past.began[None] = start
        past.ended = start + self.burst_cycles - 1, writes
        return start + self.burst_cycles

    def _given(self, past: _Past, asked: int) -> int:
        """Return when the bank is given: not while a refresh is due or going on."""
        parts = self.parts
        while parts.refresh_interval_cycles and past.due <= max(asked, past.free_at):
            last = past.ended[0] + 1 if past.ended else 0
            opened = [past.activated[bank] + parts.row_active_cycles for bank in past.rows]
            begin = max([past.due, past.free_at, last, *opened])
            if begin > max(asked, past.free_at):
                asked = begin
            closing = parts.precharge_cycles if past.rows else 0
            past.free_at = begin + closing + parts.refresh_cycles
            past.due += parts.refresh_interval_cycles
            past.rows.clear()
        return max(asked, past.free_at)

    def _ready(self, past: _Past, given: int, bank: int, row: int) -> int:
        parts, before = self.parts, past.rows.get(bank)
        if before == row:
            return given
        opening = opening_cycles(parts, before, row)
        if before is not None:
            given = max(given, past.activated[bank] + parts.row_active_cycles)
            given, opening = given + parts.precharge_cycles, opening - parts.precharge_cycles
        group = bank % parts.bank_groups
        at = max([given, *self._activation_times(past, bank, group)])
        past.rows[bank] = row
        past.activated[bank] = past.group_activated[group] = at
        past.all_activated.append(at)
        return at + opening

    def _activation_times(self, past: _Past, bank: int, group: int) -> Iterator[int]:
        parts = self.parts
        if bank in past.activated:
            yield past.activated[bank] + parts.row_cycle_cycles
        if group in past.group_activated:
            yield past.group_activated[group] + parts.activate_gap_in_group_cycles
        if past.all_activated:
            yield past.all_activated[-1] + parts.activate_gap_cycles
        if len(past.all_activated) > 3:
            yield past.all_activated[-4] + parts.four_activates_cycles

    def _bus_times(self, past: _Past, group: int, *, writes: bool) -> Iterator[int]:
        parts = self.parts
        if None in past.began:
            yield past.began[None] + parts.burst_gap_cycles
        if group in past.began:
            yield past.began[group] + parts.burst_gap_in_group_cycles
        if past.ended and past.ended[1] != writes:
            idle = parts.read_to_write_cycles if writes else parts.write_to_read_cycles
            yield past.ended[0] + 1 + idle


def lone_copy_cycles(chip: Chip, runs: Iterable[ContiguousBytes], *, in_state: bool = True) -> int:
    """Return the cycles of one copy that no other meets, from cycle 0 on, all banks closed.

    Exact with one burst in hand (`outstanding` = 1): latency + sum over runs of descriptor_cycles +
    per burst: waiting for a refresh + the row's opening + waiting for the bus + the burst. Where
    `descriptor_cost` is "max" a run takes descriptor_cycles or its bursts, whichever is more. With
    more in hand it is what the copy would take with one. in_state: it reads or writes the state
    buffer, so that `port_bytes` binds.
    """
    clock = chip.dma.latency_cycles + chip.dram.latency_cycles
    parts, queue = chip.dram.organisation, _LoneQueue(chip, in_state=in_state)
    assert parts is not None
    for run in runs:
        fetched = clock + chip.dma.descriptor_cycles
        clock = fetched if chip.dma.descriptor_cost == "sum" else clock
        for address, writes in bursts_of(parts, run):
            clock = queue.after_burst(clock, address, writes=writes)
        clock = max(clock, fetched)
    return clock


def buses_at_once(chip: Chip, *, in_state: bool = True) -> int:
    """Return how many bursts of a copy can be on data buses in a cycle; in_state: as above."""
    parts = chip.dram.organisation
    assert parts is not None
    width, _ = chip.burst_cycles(in_state=in_state)
    return min(parts.channels, parts.outstanding, max(1, chip.dma.queue_bytes_per_cycle // width))


def least_cycles(chip: Chip, bytes_moved: int) -> int:
    """Return the least cycles in which all channels and queues together move that many bytes.

    Whole bursts, every row open, every channel busy as far as the queues have bursts for it, except
    for refresh: in the cycle in which refresh number k becomes due, counted from the first burst, a
    bus has moved at most k * refresh_interval_cycles of its bursts. Those of them that have a bank
    may still move before the refresh, one for each bank; all others come after it. Where ports of
    the state buffer make bursts narrower, copies that need none of them have the shorter bursts,
    and the others may have more of them at once: both count.
    """
    parts = chip.dram.organisation
    assert parts is not None
    _, burst_cycles = chip.burst_cycles(in_state=False)
    bursts = -(-bytes_moved // parts.burst_bytes)
    buses = min(parts.channels, chip.dma.queues * buses_at_once(chip))
    moving = -(-bursts // buses) * burst_cycles
    if buses < parts.channels or not parts.refresh_interval_cycles:
        return moving
    late = moving - parts.banks * burst_cycles - 1
    return moving + max(0, late // parts.refresh_interval_cycles) * parts.refresh_cycles


def opened_cycles(chip: Chip, bytes_moved: int) -> int:
    """Return the least cycles in which queues with one burst in hand move bytes, rows opened.

    A row holds `row_bytes` of them, so there are as many openings at least; for each the
    queue waits that has the burst. All but the first of each bank close another row before, unless
    refresh does. 0 where a queue has several bursts in hand, and opens rows meanwhile.
    """
    parts = chip.dram.organisation
    assert parts is not None
    if parts.outstanding > 1:
        return 0
    _, burst_cycles = chip.burst_cycles(in_state=False)
    bursts, opened = (-(-bytes_moved // size) for size in (parts.burst_bytes, parts.row_bytes))
    cycles = bursts * burst_cycles + opened * parts.activate_cycles
    if not parts.refresh_interval_cycles:
        cycles += max(0, opened - parts.channels * parts.banks) * parts.precharge_cycles
    return -(-cycles // chip.dma.queues)


def dram_rate(chip: Chip, queues: int) -> int:
    """Return the most bytes that many queues move from or to DRAM in a cycle."""
    parts = chip.dram.organisation
    if parts is None:
        engines = chip.dma.engine_count
        engines = engines if chip.dma.is_spread else min(queues, engines)
        return min(chip.dram.bytes_per_cycle, chip.dma.bytes_per_cycle * engines)
    _, burst_cycles = chip.burst_cycles()
    buses = min(parts.channels, queues * buses_at_once(chip))
    return max(1, buses * parts.burst_bytes // burst_cycles)


def queue_rate(chip: Chip, rows: int = 1) -> int:
    """Return the bytes a queue alone moves in a cycle by the ports of `rows` partitions.

    Where copies are spread, each of these partitions has an engine of its own.
    """
    own, width = chip.dma.bytes_per_cycle, chip.state_buffer.port_bytes
    own *= rows if chip.dma.is_spread else 1
    return own if width is None else min(own, rows * width)


def run_cycles(chip: Chip, size_bytes: int, *, within: bool = False, rows: int = 1) -> int:
    """Return the cycles in which a queue alone moves bytes from or to DRAM, or within it.

    Runs of `rows` partitions move side by side; size_bytes is what they have together.

    At its own rate or its share of DRAM, the lesser; within DRAM it has two shares, of half each.
    With an organisation: at best, in whole bursts.
    """
    parts, total = chip.dram.organisation, chip.dram.bytes_per_cycle
    if parts is not None:
        _, burst_cycles = chip.burst_cycles(in_state=not within)
        bursts = -(-size_bytes // parts.burst_bytes)
        buses = buses_at_once(chip, in_state=not within)
        return -(-bursts // buses) * burst_cycles * (1 + within)
    if within and total == 1:
        return 2 * size_bytes
    own = queue_rate(chip, rows)
    if within:
        own = chip.dma.lone_bytes_per_cycle
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
