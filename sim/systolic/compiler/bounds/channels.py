"""How many bursts of tensors with gaps lie in one channel of DRAM, for bounds.

The gaps that tiles leave over the edge of a tensor lie at equal distances, so that its elements
may fall to some channels only. Where a tensor begins is the compiler's choice, and decides to
which; not how unevenly. Not here: DRAM whose channels are hashed, which spreads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from systolic.compiler.bounds.common_runs import MOST_PLACES, places_of_elements
from systolic.compiler.ir.dram_tensor import BURST_BYTES
from systolic.hw.spec import DramOrganisation
from systolic.layout import COMBINE, Shape

BurstCounts = tuple[int, ...]
"""Bursts by channel."""


def busiest_channel(shapes: Sequence[Shape], parts: DramOrganisation) -> int:
    """Return how many bursts the busiest channel has at least, wherever the tensors begin.

    0 if that is not known, or no more than an equal share.
    """
    if parts.hash_channels or all(s.padded_elements() == s.num_elements() for s in shapes):
        return 0
    together: set[BurstCounts] = {(0,) * parts.channels}
    for shape in shapes:
        found = _by_channel(shape, parts)
        if found is None:
            return 0
        together = {
            tuple(sum(pair) for pair in zip(one, other, strict=True))
            for one in together
            for other in found
        }
    return min(map(max, together))


@lru_cache(maxsize=16)
def _by_channel(shape: Shape, parts: DramOrganisation) -> frozenset[BurstCounts] | None:
    """Return the bursts that hold elements, by channel, for every place where a tensor may begin.

    That is at a multiple of the compiler's bursts. None if the tensor is too large to look at.
    """
    size, unit = shape.dtype.itemsize, min(BURST_BYTES, parts.burst_bytes)
    combined = any(COMBINE in tile.dims for tile in shape.layout.tiles)
    if combined or unit % size or shape.padded_elements() > MOST_PLACES * unit // size:
        return None
    if shape.num_elements() > MOST_PLACES or parts.burst_bytes % unit:
        return None
    used = np.zeros(shape.padded_elements() * size // unit + 1, bool)
    used[places_of_elements(shape).ravel() // (unit // size)] = True
    units = np.flatnonzero(used)
    found: set[BurstCounts] = set()
    for begin in range(0, parts.interleave_bytes * parts.channels, BURST_BYTES):
        bursts = np.unique((units * unit + begin) // parts.burst_bytes)
        channel = bursts * parts.burst_bytes // parts.interleave_bytes % parts.channels
        found.add(tuple(np.bincount(channel, minlength=parts.channels).tolist()))
    return frozenset(found)
