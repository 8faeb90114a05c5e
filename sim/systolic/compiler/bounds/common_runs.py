"""Which elements of a move in DRAM one descriptor can bring to their places, for bounds.

A descriptor moves bytes by one distance, so it brings those elements to their places whose distance
that is. They lie in runs, and between two runs of the same distance lie elements of others, or
padding. PlaceNumbers are looked at one by one. Not here: what descriptors cost
(`systolic.hw.formulas.moves`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from systolic.hw.formulas.moves import CommonRuns
from systolic.layout import COMBINE, Shape

MOST_PLACES = 1 << 23
"""Of larger tensors nothing is said: to look at all their places takes too long."""
FARTHEST = 64
"""How far apart runs of one distance are looked for, in elements."""
MOST_LOOKED_AT = 1 << 28
"""How many pairs of places are looked at for that; in larger tensors nearer runs only."""

PlaceNumbers = npt.NDArray[np.int32]


@lru_cache(maxsize=16)
def common_runs(source: Shape, result: Shape, axes: Sequence[int] | None) -> CommonRuns | None:
    """Return the runs that are side by side in both places; None if that is not known.

    axes: dimension i of the result is dimension axes[i] of the source; None: a reshape.
    """
    tiles = (*source.layout.tiles, *result.layout.tiles)
    if any(COMBINE in tile.dims for tile in tiles) or not source.num_elements():
        return None
    if source.padded_elements() > MOST_PLACES:
        return None
    here, there = places_of_elements(source), places_of_elements(result)
    if axes is not None:
        here = here.transpose(axes)
    distance = np.arange(source.padded_elements(), dtype=np.int32)
    distance -= np.int32(np.iinfo(np.int32).max)  # of padding: no two alike, and none of elements
    distance[here.ravel()] = there.ravel() - here.ravel()
    ends = distance[1:] != distance[:-1]
    edges = np.concatenate(([-1], np.flatnonzero(ends), [len(distance) - 1]))
    size = source.dtype.itemsize
    return CommonRuns(
        size_bytes=source.num_elements() * size,
        longest_bytes=int(np.diff(edges).max()) * size,
        gap_bytes=_least_gap(distance, ends) * size,
    )


def _least_gap(distance: PlaceNumbers, ends: npt.NDArray[np.bool_]) -> int:
    """Return the fewest places between two runs of one distance, or fewer.

    ends: whether each place but the last is the last one of its run.
    """
    farthest = max(1, min(FARTHEST, MOST_LOOKED_AT // len(distance)))
    alone = bool(ends.all())
    for apart in range(2, farthest + 2):
        alike = distance[apart:] == distance[:-apart]
        if not alone:
            alike &= ends[: len(alike)]
        if alike.any():
            return apart - 1
    return farthest


def places_of_elements(shape: Shape) -> PlaceNumbers:
    """Return the place of every element, int32 [dims]: the sum of a part of each dimension."""
    found = np.zeros(shape.dims, np.int32)
    for axis, size in enumerate(shape.dims):
        index = [np.asarray(0)] * shape.rank
        index[axis] = np.arange(size)
        part = np.broadcast_to(shape.linear_index(index), (size,)).astype(np.int32)
        found += part.reshape([size if n == axis else 1 for n in range(shape.rank)])
    return found
