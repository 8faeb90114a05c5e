"""A batch in groups: whole rows of some of its matrices at a time are a tile each.

Each copy has a latency, so many small matrices are brought and stored slowly one by one. If they
are brought all together, the work on the first has to wait for the last. Groups lie between the
two: of bf16[96,197,64], for example, a tile has rows of 8 matrices, and there are 12 such tiles.
Not here: costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from systolic.compiler.ir.nodes import Axes
from systolic.layout import Layout, Shape

MOST_GROUPS = 64


@dataclass(frozen=True, slots=True)
class BatchGroups:
    """A tensor in memory whose batch is cut into groups.

    shape: the same bytes; the most major dimension of the batch is (groups, matrices of a group).
    tiles: the view whose tiles are brought or stored, [groups, rows, columns of the matrices of a
    group]. matrices: the view of the matrices themselves, [batch..., rows, columns].
    """

    shape: Shape
    tiles: Axes
    matrices: Axes

    @property
    def columns(self) -> int:
        """Return the columns of a tile."""
        return math.prod(self.shape.dims[axis] for axis in self.tiles[-1])


def batch_groups(shape: Shape, axes: Axes, count: int) -> BatchGroups:
    """Return a tensor, seen as `axes`, in `count` groups of matrices; one group has all of them.

    Every other dimension of the batch is in the rows of each group.
    """
    if count == 1:
        return BatchGroups(shape, whole_rows(shape, axes), axes)
    cut = _cut_axis(shape, axes)
    order = [n for axis in shape.layout.major_to_minor for n in _numbers(axis, cut)]
    dims = [
        size
        for axis, size in enumerate(shape.dims)
        for size in ((count, size // count) if axis == cut else (size,))
    ]
    finer = Shape(shape.element_type, tuple(dims), Layout(tuple(reversed(order))))
    matrices = tuple(tuple(n for axis in group for n in _numbers(axis, cut)) for group in axes)
    rows = matrices[-2]
    others = tuple(axis for axis in order if axis not in rows and axis != cut)
    return BatchGroups(finer, ((cut,), rows, others), matrices)


def group_counts(shape: Shape, axes: Axes) -> list[int]:
    """Return into how many groups the batch of a tensor may be cut, besides matrix by matrix."""
    size = shape.dims[_cut_axis(shape, axes)]
    return [n for n in range(1, min(size, MOST_GROUPS + 1)) if size % n == 0]


def whole_rows(shape: Shape, axes: Axes) -> Axes:
    """Return the view with the same rows, and with all other dimensions in the order of memory."""
    rows = axes[-2]
    return rows, tuple(axis for axis in shape.layout.major_to_minor if axis not in rows)


def _cut_axis(shape: Shape, axes: Axes) -> int:
    """Return the dimension of the batch that is cut: the most major one in memory."""
    batch = [axis for group in axes[:-2] for axis in group]
    return next(axis for axis in shape.layout.major_to_minor if axis in batch)


def _numbers(axis: int, cut: int) -> tuple[int, ...]:
    """Return a dimension as numbered where `cut` has become two."""
    return (axis, axis + 1) if axis == cut else (axis + (axis > cut),)
