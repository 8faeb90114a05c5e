"""Where the scales of numbers lie that share them (OCP Microscaling, MX), on the chip.

A scale is for a group: 8 partitions, and four elements of each that follow one another. Of the data
in 32 partitions, a quadrant, the scales lie side by side in 4 partitions of these 32. An access to
scales names all partitions from the first of them to the last; those between are not touched.

Sources: AWS Neuron documentation, trainium3_arch (groups, quadrants), and nki.isa quantize_mx. What
the scales are worth is in `systolic.machine.values.microscaling`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from systolic.isa.access import Access

GROUP_PARTITIONS, GROUP_ELEMENTS = 8, 4
QUADRANT = 32
SCALES_OF_QUADRANT = QUADRANT // GROUP_PARTITIONS
ROOM_OF_QUADRANT = 16
"""Scales lie among this number of first partitions of a quadrant (nki.isa, quantize_mx)."""


def scale_span(partitions: int) -> int:
    """Return how many partitions lie from the first scale to the last of some data."""
    quadrants, rest = divmod(partitions - 1, QUADRANT)
    return quadrants * QUADRANT + rest // GROUP_PARTITIONS + 1


@lru_cache(maxsize=1024)
def scale_parts(scales: Access) -> tuple[Access, ...]:
    """Return what an access to scales touches: an access for each quadrant."""
    return tuple(
        replace(
            scales,
            partition=scales.partition + first,
            partitions=min(SCALES_OF_QUADRANT, scales.partitions - first),
        )
        for first in range(0, scales.partitions, QUADRANT)
    )
