"""How many bursts of tensors with gaps share a channel of DRAM, or a bank group, for bounds.

The gaps that tiles leave over the edge of a tensor lie at equal distances, so that its elements
may fall to some channels only, or to some groups of banks. Where a tensor begins is the compiler's
choice, and decides to which; not how unevenly. Channels that are hashed share the bursts evenly,
while a burst keeps its bank group. Not here: groups that are hashed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from systolic.compiler.bounds.common_runs import MOST_PLACES, places_of_elements
from systolic.compiler.ir.carried import carrier_shape, is_packed
from systolic.compiler.ir.dram_tensor import BURST_BYTES
from systolic.hw.formulas.bank_groups import GroupedBursts, grouped_bound
from systolic.hw.formulas.moves import channel_bound
from systolic.hw.formulas.timing import Bound
from systolic.hw.spec import Chip, DramOrganisation
from systolic.layout import COMBINE, Shape

BurstCounts = tuple[int, ...]
"""Bursts by channel, or by bank group."""


def uneven_bounds(chip: Chip, read: Sequence[Shape], written: Sequence[Shape]) -> Iterator[Bound]:
    """Yield what the busiest channel of DRAM and its busiest bank group take.

    read, written: tensors each of whose elements comes from DRAM, or goes there.
    """
    parts, shapes = chip.dram.organisation, [*read, *written]
    if parts is None or any(is_packed(shape) for shape in shapes):
        return
    if _are_even(shapes):
        return
    if bursts := busiest_channel([carrier_shape(shape) for shape in shapes], parts):
        yield channel_bound(chip, bursts)
    if parts.burst_gap_in_group_cycles > parts.burst_gap_cycles:
        ends = [grouped_bursts([carrier_shape(s) for s in end], parts) for end in (read, written)]
        if ends[0] and ends[1]:
            yield grouped_bound(chip, ends[0], ends[1])


def busiest_channel(shapes: Sequence[Shape], parts: DramOrganisation) -> int:
    """Return how many bursts the busiest channel has at least, wherever the tensors begin.

    0 if that is not known, or no more than an equal share.
    """
    if parts.hash_channels or _are_even(shapes):
        return 0
    found = _together(shapes, parts.burst_bytes, parts.interleave_bytes, parts.channels)
    return min(map(max, found), default=0)


def _are_even(shapes: Sequence[Shape]) -> bool:
    """Return whether no tensor has gaps, so that all parts of DRAM have equal shares."""
    return all(shape.padded_elements() == shape.num_elements() for shape in shapes)


def grouped_bursts(shapes: Sequence[Shape], parts: DramOrganisation) -> set[GroupedBursts]:
    """Return the bursts that hold elements of tensors, for each place where these may begin.

    Empty if that is not known: if a tensor is too large to look at, or the bank group does not
    follow from the lowest bits of an address.
    """
    around = parts.burst_bytes * parts.bank_groups
    lowest = parts.address_order[0] == "bank_group" and not parts.interleave_bytes % around
    if parts.hash_banks or not lowest:
        return set()
    found = _together(shapes, parts.burst_bytes, parts.burst_bytes, parts.bank_groups)
    return {GroupedBursts(sum(counts), max(counts)) for counts in found}


def _together(
    shapes: Sequence[Shape], burst_bytes: int, width: int, count: int
) -> set[BurstCounts]:
    """Return the bursts of tensors in each of `count` parts of DRAM, of `width` bytes in turn.

    For every place where they may begin; empty if that is not known.
    """
    together: set[BurstCounts] = {(0,) * count}
    for shape in shapes:
        found = _by_turns(shape, burst_bytes, width, count)
        if found is None:
            return set()
        together = {
            tuple(sum(pair) for pair in zip(one, other, strict=True))
            for one in together
            for other in found
        }
    return together


@lru_cache(maxsize=32)
def _by_turns(
    shape: Shape, burst_bytes: int, width: int, count: int
) -> frozenset[BurstCounts] | None:
    """Return the bursts that hold elements in each part, for every place where a tensor may begin.

    That is at a multiple of the compiler's bursts. None if the tensor is too large to look at.
    """
    size, unit = shape.dtype.itemsize, min(BURST_BYTES, burst_bytes)
    combined = any(COMBINE in tile.dims for tile in shape.layout.tiles)
    if combined or unit % size or shape.padded_elements() > MOST_PLACES * unit // size:
        return None
    if shape.num_elements() > MOST_PLACES or burst_bytes % unit:
        return None
    used = np.zeros(shape.padded_elements() * size // unit + 1, bool)
    used[places_of_elements(shape).ravel() // (unit // size)] = True
    units = np.flatnonzero(used)
    found: set[BurstCounts] = set()
    for begin in range(0, width * count, BURST_BYTES):
        bursts = np.unique((units * unit + begin) // burst_bytes)
        turn = bursts * burst_bytes // width % count
        found.add(tuple(np.bincount(turn, minlength=count).tolist()))
    return frozenset(found)
