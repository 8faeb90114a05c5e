"""The least time of bursts of DRAM that mostly lie in one bank group of each channel.

The machine never imports it. Cycles are the DMA engine's. Source: docs/timing_model.md, section 6.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from systolic.hw.formulas.ticks import after
from systolic.hw.formulas.timing import Bound, lone_latency_cycles
from systolic.hw.spec import Chip, DramOrganisation


class GroupedBursts(NamedTuple):
    """The bursts of tensors, and how many of them lie in the group that has the most."""

    bursts: int
    alike: int


def grouped_bound(
    chip: Chip, source: Collection[GroupedBursts], result: Collection[GroupedBursts]
) -> Bound:
    """Return the least time in which bursts of a source are read and those of a result written.

    source, result: for each place where the tensor may begin. Each burst that holds elements moves
    at least once. Two bursts of a channel begin g cycles apart at least (the cycles of a burst, or
    `burst_gap_cycles`), two of one group h (`burst_gap_in_group_cycles`). Of n bursts of the result
    let m lie in one group. Behind each of these the channel has one of

        a burst of the group        h cycles later at least
        a burst the other way       later by a burst and the turn of the bus
        another burst of the result of n - m there are, behind one each
        a burst that moves again, or holds no element: 2 g cycles until the burst behind it

    So 2 m - n of them take w cycles at least, the least of h, burst and turn, and 2 g; all others
    take g. It is likewise with the source. All channels have that in common; the busiest has no
    less than its share. While a refresh goes on nothing moves, and then a row is opened.
    """
    parts = chip.dram.organisation
    assert parts is not None
    _, burst_cycles = chip.burst_cycles(in_state=False)
    turns = parts.read_to_write_cycles, parts.write_to_read_cycles
    weights = [
        _least_cycles(parts, burst_cycles, turn, ends)
        for turn, ends in zip(turns, (source, result), strict=True)
    ]
    each = max(_cycles_alike(parts, burst_cycles, turn) for turn in turns)
    busiest = -(-sum(weights) // parts.channels)
    moving = max(0, busiest - each + burst_cycles)
    if parts.refresh_interval_cycles:
        late = busiest - (parts.banks + 1) * each - 1
        idle = parts.refresh_cycles - max(0, each - burst_cycles - parts.activate_cycles)
        moving += max(0, late // parts.refresh_interval_cycles) * max(0, idle)
    ticks = after(chip, 0, "dma", lone_latency_cycles(chip) + moving)
    return Bound(ticks, "bursts of one bank group of DRAM", chip.period("pe_array"))


def _cycles_apart(parts: DramOrganisation, burst_cycles: int) -> int:
    return max(burst_cycles, parts.burst_gap_cycles)


def _cycles_alike(parts: DramOrganisation, burst_cycles: int, turn: int) -> int:
    apart = _cycles_apart(parts, burst_cycles)
    return min(
        max(apart, parts.burst_gap_in_group_cycles), max(apart, burst_cycles + turn), 2 * apart
    )


def _least_cycles(
    parts: DramOrganisation, burst_cycles: int, turn: int, ends: Collection[GroupedBursts]
) -> int:
    """Return the cycles of all channels for the bursts of one tensor, wherever it begins."""
    apart = _cycles_apart(parts, burst_cycles)
    more = _cycles_alike(parts, burst_cycles, turn) - apart
    return min(each.bursts * apart + max(0, 2 * each.alike - each.bursts) * more for each in ends)
