"""Places on the chip of a tensor that comes from DRAM in equal chunks of its bytes.

Each partition has one chunk, the bytes of a tensor one after another as they lie in memory, padding
included. So a descriptor for each partition brings all of it, or stores it. Chunks end where a
digit of an index does, so that an index along a dimension moves an element by so many partitions
and so many columns, whatever the other indices are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.chip_places import LANE, ChipPlaces
from systolic.compiler.ir.move_parts import places_along
from systolic.layout import COMBINE, Shape

LEAST_LANES = 8
"""Fewer chunks leave most lanes idle."""


def chunk_places(shape: Shape, partitions: int) -> list[ChipPlaces]:
    """Return the places of a tensor in chunks, those in most partitions first."""
    if any(COMBINE in tile.dims for tile in shape.layout.tiles):
        return []
    if shape.layout.padded_dimensions is not None:
        return []
    offsets = [places_along(shape, (axis,)) for axis in range(shape.rank)]
    places = shape.padded_elements()
    found = []
    for chunk in sorted({*_chunks(offsets)}):
        rows, rest = divmod(places, chunk)
        carried = sum(int((of % chunk).max()) for of in offsets) >= chunk
        if rest or carried or not LEAST_LANES <= rows <= partitions:
            continue
        spread = tuple(of // chunk * LANE + of % chunk for of in offsets)
        found.append(ChipPlaces(shape, spread, rows, chunk))
    return found


def _chunks(offsets: Sequence[Integers]) -> Iterator[int]:
    """Yield sizes of chunks that hold whole values of a digit: parts of equal size."""
    for of in offsets:
        heads = of
        while len(heads) > 1:
            step = int(heads[1] - heads[0])
            breaks = np.flatnonzero(np.diff(heads) != step)
            size = int(breaks[0]) + 1 if len(breaks) else len(heads)
            yield from (step * part for part in range(1, size + 1) if size % part == 0)
            heads = heads[::size] if size < len(heads) else heads[:1]
