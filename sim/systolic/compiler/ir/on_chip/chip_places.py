"""Where the elements of a tensor lie on the chip, as one number each.

A place is one number: a partition counts `LANE`, a column one. A tensor with tiles lies as they
say. One without tiles lies in unbroken rows of some view.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.ir.on_chip.homes import in_unbroken_rows, lies_unbroken, tile_groups
from systolic.hw.spec import Chip
from systolic.layout import COMBINE, LayoutError, Shape, Spreading, over_partitions

LANE = 1 << 40
"""What a partition counts: more than all columns of one."""


@dataclass(frozen=True, slots=True)
class ChipPlaces:
    """The places of a tensor that lies on the chip as a shape in tiles says."""

    shape: Shape
    spreading: Spreading

    @classmethod
    def of(cls, shape: Shape, partitions: int) -> ChipPlaces | None:
        """Return the places of a shape in tiles over some partitions; None if no rule says any."""
        try:
            return cls(shape, over_partitions(shape, partitions))
        except LayoutError:
            return None

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of the tensor."""
        return self.shape.dims

    @property
    def rows(self) -> int:
        """The partitions that it takes."""
        return self.spreading.partitions

    @property
    def columns(self) -> int:
        """The element places in each partition, padding included."""
        return self.spreading.elements

    def linear_index(self, index: Sequence[Any]) -> Integers:
        """Return the place of arrays of indices: partitions * LANE + column."""
        partition, address = self.spreading.place(self.shape.linear_index(index))
        return np.asarray(partition * LANE + address)

    def along(self, axis: int) -> Integers:
        """Return the place of each index along a dimension, int64."""
        index = [np.zeros(self.dims[axis], np.int64)] * len(self.dims)
        index[axis] = np.arange(self.dims[axis])
        return self.linear_index(index)

    def is_sum(self, groups: Sequence[Sequence[int]]) -> bool:
        """Return whether places are sums of one number for each group of dimensions.

        Dimensions that a tile combines are cut between two of them, or are in one group.
        """
        if not any(step.folds for step in self.shape.steps()):
            return True
        sizes = [1, *(size for size in self.shape.layout.tiles[0].dims if size != COMBINE)]
        for dims, size in zip(tile_groups(self.shape)[-2:], sizes[-2:], strict=True):
            counts = [self.shape.dims[dim] for dim in dims]
            even = math.prod(counts) <= size or size % math.prod(counts[1:]) == 0
            if not even and not any({*dims} <= {*group} for group in groups):
                return False
        return True


def in_rows(
    chip: Chip,
    shape: Shape,
    views: Sequence[tuple[tuple[int, ...], ...]],
    heights: Iterable[int] = (),
) -> Iterator[ChipPlaces]:
    """Yield the places of a tensor without tiles in unbroken rows of views.

    heights: how many rows may follow one another in a partition, where they divide a dimension.
    """
    partitions, p = chip.state_buffer.partitions, block_rows(chip)
    for view in views:
        sizes = [shape.dims[axis] for axis in view[-2]]
        rows, last = math.prod(sizes), sizes[-1] if sizes else 1
        line = math.prod(sizes[1:])
        tall = [p] if len(sizes) < 2 or line >= p // 2 else [p, p // line * line]
        shapes = [in_unbroken_rows(shape, view, height) for height in tall]
        shapes += [
            in_unbroken_rows(shape, view, p, together)
            for together in sorted({*heights, -(-rows // p)} - {1})
            if last % together == 0
        ]
        for each in dict.fromkeys(shapes):
            if not lies_unbroken(-(-rows // _together(each)), p, chip):
                continue
            found = ChipPlaces.of(each, partitions)
            if found is not None and found.rows <= p:
                yield found


MOST_TOGETHER = 32
"""The most rows that follow one another in a partition."""


def _together(shape: Shape) -> int:
    """Return how many rows follow one another in a partition."""
    tiles = shape.layout.tiles
    return tiles[1].dims[0] if len(tiles) > 1 else 1


def row_groups(shape: Shape) -> list[tuple[tuple[int, ...], ...]]:
    """Return views [batch..., rows, columns] in which a tensor without tiles may lie, unbroken."""
    order = shape.layout.major_to_minor
    return [
        (*((axis,) for axis in order[:first]), order[first:stop], order[stop:])
        for first in range(len(order) - 1)
        for stop in range(first + 1, len(order))
    ]


def any_rows(shape: Shape) -> list[tuple[tuple[int, ...], ...]]:
    """Return views of a tensor that only lies between two moves: each dimension as its rows."""
    order = shape.layout.major_to_minor
    return [((row,), tuple(axis for axis in order if axis != row)) for row in order]
