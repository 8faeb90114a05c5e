"""What a transpose must give: by numpy, and bit for bit by the contract.

The contract's answer is what the array does (docs/timing_model.md, "Values"): a block A[K, N] is
multiplied by the identity, each result summed in row order from +0 in float32 (integers: int32),

    out[c, i] = ((+0 + I[0, i] * A[0, c]) + I[1, i] * A[1, c]) + ... + I[K-1, i] * A[K-1, c]

With finite elements all terms but one are zeros, so the result is A[i, c] itself, and -0.0 becomes
+0.0. An infinity or a NaN times 0 is a NaN, which spreads over the column of its block. Which rows
share a block is therefore part of the question: `row_blocks`.

This is plain numpy that shares no code with any kernel, the compiler or the machine. The bits of a
NaN are not part of the contract (IEEE 754 leaves sign and payload open): `compare.differing`
compares results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError, shortened
from systolic.layout import Shape
from systolic.workload.operations.row import Attributes, Operand, Row, check_gives, plain, unrounded

SLAB = 16


def numpy_transpose(data: Array, permutation: Sequence[int] | None = None) -> Array:
    """Return `data` with its axes permuted as a new row-major array: the meaning of a transpose."""
    moved = np.transpose(data, permutation)
    if not moved.ndim:
        return moved.copy()
    result = np.empty(moved.shape, moved.dtype)
    # Slabs as wide as a cache line: ten times as fast as one copy if rows are a page apart.
    for first in range(0, moved.shape[-1], SLAB):
        result[..., first : first + SLAB] = moved[..., first : first + SLAB]
    return result


def reference_transpose(
    data: Array,
    permutation: Sequence[int] | None = None,
    *,
    row_blocks: Sequence[int] = (),
    row_axes: Sequence[int] = (0,),
) -> Array:
    """Return what the array gives for the transpose of `data`, as a new row-major array.

    Args:
        data: any rank, of a type the chip can take (floats of 32 bits or fewer, s8, u8, s32).
        permutation: as for `np.transpose`; default: all axes reversed.
        row_blocks: boundaries of the blocks along the rows, such as (0, 128, 256, 300): rows
            0-127 are multiplied together. Default: all rows in one block.
        row_axes: the axes of `data` that, flattened in this order, are the rows of the matrices
            the work was cut into (each column is summed over rows). Default: axis 0.

    """
    result = numpy_transpose(data, permutation)
    # The sum of one term and exact zeros is the term; only -0.0 + +0.0 is +0.0.
    result[result == 0] = 0
    if not np.isfinite(data).all():
        spread = _spread(data, tuple(row_axes), row_blocks)
        result = numpy_transpose(spread, permutation)
    return result


def _spread(data: Array, row_axes: tuple[int, ...], row_blocks: Sequence[int]) -> Array:
    """Return `data` with the values that multiplying its blocks [rows, columns] leaves in place."""
    others = tuple(axis for axis in range(data.ndim) if axis not in row_axes)
    order = row_axes + others
    moved = np.transpose(data, order)
    rows = math.prod(moved.shape[: len(row_axes)])
    matrix = moved.reshape(rows, -1).copy()
    for first, stop in pairwise(_boundaries(row_blocks, rows)):
        _multiply_block(matrix[first:stop])
    return np.transpose(matrix.reshape(moved.shape), np.argsort(order))


def _boundaries(row_blocks: Sequence[int], rows: int) -> list[int]:
    found = list(row_blocks) or [0, rows]
    if found[0] != 0 or found[-1] != rows or any(b <= a for a, b in pairwise(found)):
        raise ValueError(f"row_blocks must rise from 0 to {rows}, found {found}")
    return found


def _multiply_block(block: Array) -> None:
    """Replace a block [K, N] in place by the transpose of what streaming the identity gives."""
    finite = np.isfinite(block).all(axis=0)
    block[block == 0] = 0
    if not finite.all():
        block[:, ~finite] = _row_order_sum(block[:, ~finite]).astype(block.dtype)


def _row_order_sum(columns: Array) -> Array:
    """Return [K, N] float32: sum over r, in order, of I[r, i] * columns[r, c] for every i and c."""
    K = columns.shape[0]
    identity = np.eye(K, dtype=np.float32)
    wide = columns.astype(np.float32)
    total = np.zeros_like(wide)
    with np.errstate(invalid="ignore"):
        for r in range(K):
            total += identity[r][:, None] * wide[r][None, :]
    return total


Permutation = Annotated[tuple[Annotated[int, Field(ge=0, le=63)], ...], Field(strict=False)]


@dataclass(frozen=True, slots=True)
class TransposeAttributes(Attributes):
    """permutation: for each axis of the result the axis of the source, as for `numpy.transpose`.

    For a matrix it may be left out: `make_graph` fills in (1, 0), the only other order.
    """

    permutation: Annotated[
        Permutation | None,
        Field(description="source axis of each result axis (a matrix needs none)"),
    ] = None

    @property
    def axes(self) -> tuple[int, ...]:
        """Return the permutation, which is never None in a graph."""
        assert self.permutation is not None
        return self.permutation


def _settle(shapes: Sequence[Shape], attributes: TransposeAttributes) -> TransposeAttributes:
    if attributes.permutation is None and shapes[0].rank == 2:
        return replace(attributes, permutation=(1, 0))
    return attributes


def _check(shapes: Sequence[Shape], out: Shape, attributes: TransposeAttributes) -> None:
    (source,) = shapes
    key = "" if attributes.permutation is None else "permutation: "
    try:
        dims = _permuted(source, attributes)
    except WorkloadError as error:
        raise WorkloadError(f"{key}{error}") from None
    check_gives(source, source.element_type, dims, out)


def _permuted(source: Shape, attributes: TransposeAttributes) -> tuple[int, ...]:
    """Return the dimensions of the result; WorkloadError if the permutation is none of its axes."""
    axes = attributes.permutation
    if axes is None:
        raise WorkloadError(
            f"a permutation is needed: {plain(source)} has {source.rank} "
            f"dimension{'s' * (source.rank != 1)} (only a matrix has just one other order)"
        )
    if sorted(axes) != list(range(source.rank)):
        raise WorkloadError(
            f"each axis from 0 to {source.rank - 1} must be named once, "
            f"found {shortened(str(list(axes)))}"
        )
    return tuple(source.dims[axis] for axis in axes)


def _default_out(shapes: Sequence[Shape], attributes: TransposeAttributes) -> Shape:
    """Return the row-major result of a transpose alone; WorkloadError if there is none to do."""
    (source,) = shapes
    if source.rank < 2:
        raise WorkloadError(
            f"a transpose needs at least 2 dimensions, {plain(source)} has {source.rank}"
        )
    if 0 in source.dims:
        raise WorkloadError(f"{plain(source)} has no elements: there is nothing to transpose")
    return Shape(source.element_type, _permuted(source, attributes))


def _exact(arrays: Sequence[Array], out: Shape, attributes: TransposeAttributes) -> Array:
    return np.asarray(arrays[0].transpose(attributes.axes), order="C")


TRANSPOSE = Row(
    operands=(Operand("source"),),
    result="result",
    attributes=TransposeAttributes,
    settle=_settle,
    check=_check,
    default_out=_default_out,
    reference=unrounded(_exact),
    exact=_exact,
)
