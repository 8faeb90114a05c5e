"""Neighbouring rows of a tensor in DRAM on one partition: one run instead of several.

Rows that follow one another in DRAM are one run of bytes if one partition takes them. Row k of a
matrix then lies on partition k // fold, beside fold - 1 others, and not on partition k mod p of a
tile of its own. The array does not mind: it takes rows as tiles whose i-th rows lie on partition i,
and may take the first rows of all partitions together, then the second ones, and so on. Rows of the
contraction are added in that order; rows that are turned come back in the order of memory.

Here are the views: dimensions of the same bytes, and which of them make up the rows and columns of
what is brought, and of what the array takes. Not here: costs (`cost.folded_rows`), matrices and
nodes (`lower.products.folded_rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.batch_rows import BatchRows
from systolic.compiler.ir.nodes import Axes
from systolic.layout import Shape


@dataclass(frozen=True, slots=True)
class RowFold:
    """How the rows of a contraction are taken: `fold` neighbours from each of `p` partitions.

    fold: 1 if they are taken as they are numbered, in tiles of p rows.
    """

    p: int
    fold: int = 1

    def dims(self, rows: int) -> tuple[int, int, int]:
        """Return `rows` rows as tiles, partitions, and neighbours on a partition."""
        if self.fold == 1:
            return 1, rows, 1
        return rows // (self.p * self.fold), self.p, self.fold

    def order(self, rows: int) -> Integers:
        """Return the numbers of `rows` rows in the order in which they are taken."""
        numbers: Integers = np.arange(rows).reshape(self.dims(rows))
        return numbers.swapaxes(1, 2).ravel()


@dataclass(frozen=True, slots=True)
class TurnedRows:
    """Rows that lie along the address when they come, and on partitions when they are turned.

    shape: the tensor's bytes as [partitions, neighbours, tiles, rows of a tile, fold]. What is
    brought has the partitions on its rows. `source`: the matrices that are turned, one for each of
    the neighbours. `made`: where they come to lie, within the matrix `holds`, whose columns are in
    the order of memory.
    """

    shape: Shape
    brought: Axes = ((0,), (1, 2, 3, 4))
    source: Axes = ((1,), (0,), (2, 4, 3))
    holds: Axes = ((2, 4, 3), (0, 1))
    made: Axes = ((1,), (2, 4, 3), (0,))


def folded_contraction(shape: Shape, axes: Axes, rows: RowFold) -> BatchRows:
    """Return a tensor whose rows of the contraction lie folded, with all of its batch.

    shape: dense. axes: [batch..., K, columns], K one dimension.
    """
    (contracted,) = axes[-2]
    finer, numbers = _refined(shape, {contracted: rows.dims(shape.dims[contracted])})
    tiles, partitions, neighbours = numbers[contracted]
    down = tiles, partitions
    across = tuple(n for n in range(finer.rank) if n not in down)
    batch, cols = (
        [tuple(n for axis in some for n in numbers[axis]) for some in each]
        for each in (axes[:-2], axes[-1:])
    )
    return BatchRows(finer, (down, across), (*batch, (tiles, neighbours, partitions), *cols))


def turned_rows(shape: Shape, contracted: int, rows: RowFold, fold: int) -> TurnedRows:
    """Return a dense tensor, K minor-most, with `fold` neighbours of its other rows folded."""
    K = shape.dims[contracted]
    others = shape.num_elements() // K
    return TurnedRows(Shape(shape.element_type, (others // fold, fold, *rows.dims(K))))


def _refined(
    shape: Shape, cuts: Mapping[int, tuple[int, ...]]
) -> tuple[Shape, dict[int, tuple[int, ...]]]:
    """Return the same bytes row-major, some dimensions in several, and the numbers of each."""
    dims: list[int] = []
    numbers: dict[int, tuple[int, ...]] = {}
    for axis in shape.layout.major_to_minor:
        sizes = cuts.get(axis, (shape.dims[axis],))
        numbers[axis] = tuple(range(len(dims), len(dims) + len(sizes)))
        dims += sizes
    return Shape(shape.element_type, tuple(dims)), numbers
