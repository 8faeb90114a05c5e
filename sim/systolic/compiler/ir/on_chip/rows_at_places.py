"""The matrices of a view at the places of a tensor on the chip, if an access reaches each of them.

Its rows must lie on partitions, in order, and its columns and its matrices at distances along the
address, whatever lies between them. More rows than there are partitions follow at one distance.
"""

from __future__ import annotations

import numpy as np

from systolic.compiler.ir.nodes import Axes
from systolic.compiler.ir.on_chip.chip_places import LANE, ChipPlaces
from systolic.compiler.ir.windows import DigitWindow


def rows_at_places(places: ChipPlaces, axes: Axes, p: int, holder: str) -> DigitWindow | None:
    """Return where the matrices [batch..., rows, columns] lie; None if not at such distances.

    axes: the view, of one dimension in its rows. p: the rows of a tile. holder: the matrix of all
    places.
    """
    if not places.is_sum([(axis,) for axis in range(len(places.dims))]):
        return None
    *batch, (row,), cols = axes
    for axis in (*(axis for group in batch for axis in group), *cols):
        steps = np.diff(places.along(axis))
        if np.any(steps != steps[:1]) or np.any(steps >= LANE):
            return None
    lanes, columns = np.divmod(places.along(row), LANE)
    size, number = len(lanes), np.arange(len(lanes))
    tall = min(size, p)
    along = int(columns[tall]) if size > tall else 0
    if np.any(lanes != number % tall) or np.any(columns != number // tall * along):
        return None
    steps_of = [tuple((places.dims[a], _step(places, a)) for a in group) for group in axes]
    outer = tuple(step for group in steps_of[:-2] for step in group)
    return DigitWindow(holder, 0, 0, outer, steps_of[-1], tall, along)


def _step(places: ChipPlaces, axis: int) -> int:
    offsets = places.along(axis)
    return int(offsets[1] - offsets[0]) if len(offsets) > 1 else 1
