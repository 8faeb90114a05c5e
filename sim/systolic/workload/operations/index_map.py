"""Where the elements of a rearranged tensor come from, axis by axis.

A slice, padding, a reversed axis, a repeated tensor: the place of an element along each axis of the
source depends on its place along one axis of the result alone. So one array for each axis says all;
how the elements are moved is the compiler's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from systolic.arrays import Array, Integers

NOWHERE = -1
"""The place that stands where an element has no source."""


@dataclass(frozen=True, slots=True, eq=False)
class IndexMap:
    """The source of each element of a result.

    places: for each axis of the result, the place along the source's axis of each index, int64;
    `NOWHERE`: these elements have the value `fill`. follows: for each axis of the result the axis
    of the source (None: the source has no such axis, and all places are 0); the axes of the source
    come in their order.
    """

    places: tuple[Integers, ...]
    follows: tuple[int | None, ...]
    fill: float = 0.0

    @classmethod
    def of(cls, places: Sequence[Array], fill: float = 0.0) -> IndexMap:
        """Return the map of a result that has the axes of its source."""
        along = tuple(np.asarray(each, np.int64) for each in places)
        return cls(along, tuple(range(len(along))), fill)

    @classmethod
    def along(cls, dims: Sequence[int], axis: int, places: Array) -> IndexMap:
        """Return the map of a result that differs from a source of some dimensions in one axis."""
        return cls.of([places if n == axis else np.arange(size) for n, size in enumerate(dims)])

    @property
    def in_order(self) -> bool:
        """Return whether every axis is gone through forwards at one distance, or padded so."""
        taken = [each[each != NOWHERE] for each in self.places]
        return all(len({*np.diff(each).tolist()}) < 2 and (np.diff(each) > 0).all()
                   for each in taken)  # fmt: skip
