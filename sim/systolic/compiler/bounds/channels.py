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
from systolic.hw.formulas.moves import bank_group_bound, channel_bound
from systolic.hw.formulas.timing import Bound
from systolic.hw.spec import Chip, DramOrganisation
from systolic.layout import COMBINE, Shape

BurstCounts = tuple[int, ...]
"""Bursts by channel, or by bank group."""


def uneven_bounds(chip: Chip, shapes: Sequence[Shape]) -> Iterator[Bound]:
    """Yield what the busiest channel of DRAM and its busiest bank group take.

    shapes: of tensors each of whose elements comes from DRAM or goes there.
    """
    parts = chip.dram.organisation
    if parts is None or any(is_packed(shape) for shape in shapes):
        return
    carried = [carrier_shape(shape) for shape in shapes]
    if bursts := busiest_channel(carried, parts):
        yield channel_bound(chip, bursts)
    if bursts := busiest_group(carried, parts):
        yield bank_group_bound(chip, bursts)


def busiest_channel(shapes: Sequence[Shape], parts: DramOrganisation) -> int:
    """Return how many bursts the busiest channel has at least, wherever the tensors begin.

    0 if that is not known, or no more than an equal share.
    """
    if parts.hash_channels:
        return 0
    return _busiest(shapes, parts.burst_bytes, parts.interleave_bytes, parts.channels)


def busiest_group(shapes: Sequence[Shape], parts: DramOrganisation) -> int:
    """Return how many bursts a bank group of some channel has at least, wherever tensors begin.

    Of the bursts of all channels that are in the busiest group one channel has an equal share, or
    more. 0 if that is not known, or no more than an equal share of all groups.
    """
    around = parts.burst_bytes * parts.bank_groups  # then it is the lowest bits of the address
    lowest = parts.address_order[0] == "bank_group" and not parts.interleave_bytes % around
    if parts.hash_banks or not lowest:
        return 0
    found = _busiest(shapes, parts.burst_bytes, parts.burst_bytes, parts.bank_groups)
    return -(-found // parts.channels)


def _busiest(shapes: Sequence[Shape], burst_bytes: int, width: int, count: int) -> int:
    """Return the bursts of the busiest of `count` parts of DRAM, which take `width` bytes in turn.

    0 if that is not known, or no more than an equal share.
    """
    if count == 1 or all(s.padded_elements() == s.num_elements() for s in shapes):
        return 0
    together: set[BurstCounts] = {(0,) * count}
    for shape in shapes:
        found = _by_turns(shape, burst_bytes, width, count)
        if found is None:
            return 0
        together = {
            tuple(sum(pair) for pair in zip(one, other, strict=True))
            for one in together
            for other in found
        }
    return min(map(max, together))


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
