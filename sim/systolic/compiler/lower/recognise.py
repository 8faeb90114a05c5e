"""A permutation of axes as work for the machine: a set of 2-D matrices to transpose.

A tensor of any rank becomes a batch of matrices (patent, para 57, 93). The order in which its
dimensions lie in memory counts, so a layout can do a part of the work, or all of it. No sizes of
the hardware enter here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from systolic.compiler.ir.nodes import Axes
from systolic.layout import Shape


@dataclass(frozen=True, slots=True)
class MatrixSet:
    """A permutation of axes as matrices, one for each batch index.

    dims: [batch..., rows, columns] of the source. source: the dimensions of the source that make up
    each of these. result: the dimensions of the result that make up its [batch..., rows, columns].
    turned: rows of the source are columns of the result; otherwise rows stay rows.
    """

    element_type: str
    dims: tuple[int, ...]
    source: Axes
    result: Axes
    turned: bool

    @property
    def shape(self) -> Shape:
        """Return the batch of matrices as a shape [batch..., rows, columns]."""
        return Shape(self.element_type, self.dims)


def recognise_transpose(source: Shape, result: Shape, permutation: Sequence[int]) -> MatrixSet:
    """Return the matrices whose transposition permutes the axes of `source`.

    Axis i of the result is axis permutation[i] of the source. The column axis is the most minor
    axis of the source, in memory, that moves; the row axis is the axis that takes its place. A
    permutation that moves nothing transposes 1 x n matrices.
    """
    groups, order = _merge(_as_it_lies(source, result, permutation))
    while len(groups) < 2:
        groups, order = ((), *groups), (1, 0)
    col = max(axis for axis, place in enumerate(order) if axis != place)
    row = order[col]
    batch = [axis for axis in range(len(groups)) if axis not in (row, col)]
    return _set(source, permutation, groups, (*batch, row, col), turned=True)


def recognise_rows(source: Shape, result: Shape, permutation: Sequence[int]) -> MatrixSet | None:
    """Return matrices whose rows are moved whole; None if the minor-most dimension is another."""
    groups, order = _merge(_as_it_lies(source, result, permutation))
    col = len(groups) - 1
    if col < 1 or order[-1] != col:
        return None
    sizes = [_size(source, group) for group in groups]
    row = max(range(col), key=lambda axis: sizes[axis])  # the fewest transfers
    batch = [axis for axis in range(col) if axis != row]
    return _set(source, permutation, groups, (*batch, row, col), turned=False)


def moves_nothing(source: Shape, result: Shape, permutation: Sequence[int]) -> bool:
    """Return whether the elements lie in the same order before and after."""
    lies = _as_it_lies(source, result, permutation)
    return lies == sorted(lies)


def _as_it_lies(source: Shape, result: Shape, permutation: Sequence[int]) -> list[int]:
    """Return, for each dimension of the result from major to minor, its place in the source."""
    before = source.layout.major_to_minor
    return [before.index(permutation[axis]) for axis in result.layout.major_to_minor]


Groups = tuple[tuple[int, ...], ...]


def _merge(permutation: Sequence[int]) -> tuple[Groups, tuple[int, ...]]:
    """Merge axes that are neighbours, in the same order, before and after.

    Returns the groups of axes in the source's order, and which group comes where in the result.
    """
    groups: list[list[int]] = []
    for axis in permutation:
        if groups and groups[-1][-1] + 1 == axis:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    ordered = sorted(groups)
    merged = tuple(tuple(group) for group in ordered)
    return merged, tuple(ordered.index(group) for group in groups)


def _size(source: Shape, group: Sequence[int]) -> int:
    before = source.layout.major_to_minor
    return math.prod(source.dims[before[place]] for place in group)


def _set(
    source: Shape,
    permutation: Sequence[int],
    groups: Groups,
    axes: Sequence[int],
    *,
    turned: bool,
) -> MatrixSet:
    """Return the matrices [batch..., rows, columns] = `axes`, each a group of dimensions."""
    before = source.layout.major_to_minor
    seen = tuple(tuple(before[place] for place in groups[axis]) for axis in axes)
    back = {axis: place for place, axis in enumerate(permutation)}
    shown = tuple(tuple(back[axis] for axis in group) for group in seen)
    *batch, rows, cols = shown
    dims = tuple(_size(source, groups[axis]) for axis in axes)
    after = (*batch, cols, rows) if turned else shown
    return MatrixSet(source.element_type, dims, seen, after, turned)
