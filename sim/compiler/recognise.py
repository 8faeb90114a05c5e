"""Recognise what a permutation of axes asks of the array: a set of 2-D matrices to transpose.

The first pass. A tensor of any rank becomes a batch of matrices (patent, para 57, 93); no sizes of
the hardware enter here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.layout import Shape


@dataclass(frozen=True, slots=True)
class MatrixSet:
    """A permutation of axes as transposes of matrices, one for each batch index.

    dims: the tensor's dimensions, neighbours that stay neighbours merged; groups: the source's
    axes in each of them; order: which of them comes where in the result; batch: axes that count
    the matrices; row, col: the matrix's axes.
    """

    element_type: str
    dims: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    permutation: tuple[int, ...]
    order: tuple[int, ...]
    batch: tuple[int, ...]
    row: int
    col: int

    @property
    def shape(self) -> Shape:
        """Return the batch of matrices as a shape [batch..., rows, columns]."""
        axes = (*self.batch, self.row, self.col)
        return Shape(self.element_type, tuple(self.dims[a] for a in axes))

    def matrices(self, tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the tensor as [batch..., rows, columns]."""
        return tensor.reshape(self.dims).transpose((*self.batch, self.row, self.col))

    def result(self, matrices: npt.NDArray[Any], dims: Sequence[int]) -> npt.NDArray[Any]:
        """Return the result tensor of dimensions `dims` from [batch..., columns, rows]."""
        axes = (*self.batch, self.col, self.row)
        back = [axes.index(axis) for axis in self.order]
        return np.ascontiguousarray(matrices.transpose(back)).reshape(tuple(dims))

    def source_axes(self) -> tuple[tuple[int, ...], ...]:
        """Return, for (batch..., row, column), the dimensions of the source they are made of."""
        return tuple(self.groups[a] for a in (*self.batch, self.row, self.col))

    def result_axes(self) -> tuple[tuple[int, ...], ...]:
        """Return, for (batch..., column, row), the dimensions of the result they are made of."""
        return tuple(
            tuple(self.permutation.index(axis) for axis in self.groups[a])
            for a in (*self.batch, self.col, self.row)
        )


def recognise_transpose(shape: Shape, permutation: Sequence[int]) -> MatrixSet:
    """Return the matrices whose transposition permutes the axes of `shape`.

    The column axis is the last axis that moves; the row axis the one that takes its place. A
    permutation that moves nothing transposes 1 x n matrices.
    """
    groups, order = _merge(permutation)
    while len(groups) < 2:
        groups, order = ((), *groups), (1, 0)
    dims = [math.prod(shape.dims[axis] for axis in group) for group in groups]
    moved = [axis for axis, place in enumerate(order) if axis != place]
    col = max(moved)
    row = order[col]
    batch = tuple(a for a in range(len(dims)) if a not in (row, col))
    return MatrixSet(
        shape.element_type, tuple(dims), groups, tuple(permutation), order, batch, row, col
    )


def _merge(permutation: Sequence[int]) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
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
