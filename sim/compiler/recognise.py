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

    dims: the tensor's dimensions, neighbours that stay neighbours merged; order: which of them
    comes where in the result; batch: axes that count the matrices; row, col: the matrix's axes.
    """

    element_type: str
    dims: tuple[int, ...]
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

    def source_strides(self) -> tuple[int, ...]:
        """Return, for (batch..., row, column), the distance in elements in a row-major source."""
        stride = _strides(self.dims)
        return tuple(stride[a] for a in (*self.batch, self.row, self.col))

    def result_strides(self) -> tuple[int, ...]:
        """Return, for (batch..., column, row), the distance in a row-major result."""
        stride = _strides([self.dims[a] for a in self.order])
        return tuple(stride[self.order.index(a)] for a in (*self.batch, self.col, self.row))


def recognise_transpose(shape: Shape, permutation: Sequence[int]) -> MatrixSet:
    """Return the matrices whose transposition permutes the axes of `shape`.

    The column axis is the last axis that moves; the row axis the one that takes its place. A
    permutation that moves nothing transposes 1 x n matrices.
    """
    dims: tuple[int, ...]
    order: tuple[int, ...]
    if tuple(permutation) == (1, 0):
        dims, order = shape.dims, (1, 0)
    else:
        dims, order = _merge(shape.dims, permutation)
    if len(dims) < 2:
        dims, order = (1, *(dims or (1,))), (1, 0)
    moved = [axis for axis, place in enumerate(order) if axis != place]
    col = max(moved)
    row = order[col]
    batch = tuple(a for a in range(len(dims)) if a not in (row, col))
    return MatrixSet(shape.element_type, tuple(dims), tuple(order), batch, row, col)


def _merge(
    dims: Sequence[int], permutation: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Merge axes that are neighbours, in the same order, before and after."""
    groups: list[list[int]] = []
    for axis in permutation:
        if groups and groups[-1][-1] + 1 == axis:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    ordered = sorted(groups)
    merged = tuple(math.prod(dims[a] for a in group) for group in ordered)
    return merged, tuple(ordered.index(group) for group in groups)


def _strides(dims: Sequence[int]) -> list[int]:
    return [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
