"""Where the elements of a tensor lie on the chip, as one number each: so its places have digits.

Every index along a dimension moves an element by a fixed number of partitions and columns, whatever
the other indices are. Partitions count `LANE` each, and columns one, so a place is one number, and
what finds the digits of places in DRAM finds digits of places on the chip (`stretches`). Not here:
tensors whose dimensions share a tile's rows in an uneven way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.nodes import Axes
from systolic.layout import COMBINE, LayoutError, Shape, over_partitions

LANE = 1 << 40
"""What a partition counts: more than all columns of one."""


@dataclass(frozen=True, eq=False, slots=True)
class ChipPlaces:
    """The places of a tensor of `dims` that lies on the chip as a shape in tiles says.

    offsets: for each dimension, what each of its indices adds to the place, int64. rows, columns:
    the partitions that it takes, and the element places in each of them, padding included. stack:
    how many tiles stand on one another.
    """

    shape: Shape
    offsets: tuple[Integers, ...]
    rows: int
    columns: int
    stack: int = 1

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of the tensor."""
        return self.shape.dims

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return self.shape.rank

    def linear_index(self, index: Sequence[Any]) -> Integers:
        """Return the place of an index, or of arrays of indices: partitions * LANE + column."""
        terms = [of[part] for of, part in zip(self.offsets, index, strict=True)]
        found: Integers = np.sum(np.broadcast_arrays(*terms), axis=0, dtype=np.int64)
        return found


def places_of(shape: Shape, partitions: int, rows: Sequence[int] = ()) -> ChipPlaces | None:
    """Return the places of a shape in tiles; None if no rule gives them index by index.

    rows: the dimensions that the first tile combines to its rows, major to minor, if it combines
    any: then its columns are all dimensions behind them.
    """
    combined = any(COMBINE in tile.dims for tile in shape.layout.tiles)
    if shape.layout.padded_dimensions is not None or (combined and not rows):
        return None
    if rows and not _even(shape, rows):
        return None
    try:
        spreading = over_partitions(shape, partitions)
    except LayoutError:
        return None
    offsets = []
    for axis, size in enumerate(shape.dims):
        index = [np.zeros(size, np.int64)] * shape.rank
        index[axis] = np.arange(size)
        partition, address = spreading.place(shape.linear_index(index))
        offsets.append(partition * LANE + address)
    return ChipPlaces(
        shape, tuple(offsets), spreading.partitions, spreading.elements, spreading.stack
    )


def _even(shape: Shape, rows: Sequence[int]) -> bool:
    """Return whether rows made of several dimensions are cut into tiles between two of them."""
    sizes = [shape.dims[axis] for axis in rows]
    height = next(size for size in shape.layout.tiles[0].dims if size != COMBINE)
    return math.prod(sizes) <= height or height % math.prod(sizes[1:]) == 0


def row_groups(shape: Shape) -> list[Axes]:
    """Return views [batch..., rows, columns] in which a tensor without tiles may lie, unbroken."""
    order = shape.layout.major_to_minor
    return [
        (*((axis,) for axis in order[:first]), order[first:stop], order[stop:])
        for first in range(len(order) - 1)
        for stop in range(first + 1, len(order))
    ]


def any_rows(shape: Shape) -> list[Axes]:
    """Return views of a tensor that only lies between two moves: each dimension as its rows."""
    order = shape.layout.major_to_minor
    return [((row,), tuple(axis for axis in order if axis != row)) for row in order]
