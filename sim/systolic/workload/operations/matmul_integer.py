"""Product of quantised matrices: (lhs - zero point) times (rhs - zero point), exact in s32.

Zero points are numbers known when compiling. The product is made of the bytes as they are; what the
zero points add to it is taken away: one zero point times the sums of the other's rows or columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.matmul import MATMUL
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.reduce import ReduceAttributes
from systolic.workload.operations.row import NO_ATTRIBUTES, Attributes, Operand, Row, plain

BYTES = ("s8", "u8")


@dataclass(frozen=True, slots=True)
class ZeroPointAttributes(Attributes):
    """What stands for 0 in each operand."""

    left_zero: Annotated[
        int, Field(description="number of the first operand for 0 (default: 0)")
    ] = 0
    right_zero: Annotated[
        int, Field(description="number of the second operand for 0 (default: 0)")
    ] = 0


def check_bytes(shapes: Sequence[Shape], out: Shape, attributes: ZeroPointAttributes) -> None:
    """Raise WorkloadError unless operands are bytes that hold their zero points, the result s32."""
    zeros = (("left_zero", attributes.left_zero), ("right_zero", attributes.right_zero))
    for shape, (key, zero) in zip(shapes, zeros, strict=True):
        if shape.element_type not in BYTES:
            raise WorkloadError(f"takes {' or '.join(BYTES)}, found {plain(shape)}")
        limits = np.iinfo(shape.dtype)
        if not limits.min <= zero <= limits.max:
            raise WorkloadError(
                f"{key}: {shape.element_type} holds {limits.min} to {limits.max}, found {zero}"
            )
    if out.element_type != "s32":
        raise WorkloadError(f"gives s32, but out is {plain(out)}")


def _check(shapes: Sequence[Shape], out: Shape, attributes: ZeroPointAttributes) -> None:
    check_bytes(shapes, out, attributes)
    MATMUL.check(shapes, out, NO_ATTRIBUTES)


def _default_out(shapes: Sequence[Shape], attributes: ZeroPointAttributes) -> Shape:
    lhs, rhs = shapes
    batch = np.broadcast_shapes(lhs.dims[:-2], rhs.dims[:-2])
    return Shape("s32", (*batch, lhs.dims[-2], rhs.dims[-1]))


def summed(recipe: Recipe, source: str, axis: int) -> str:
    """Add the s32 sum over an axis; return its name."""
    shape = recipe.shape(source)
    dims = (*shape.dims[:axis], *shape.dims[axis + 1 :])
    return recipe.add("reduce", (source,), Shape("s32", dims), ReduceAttributes("sum", (axis,)))


def matmul_integer_parts(
    shapes: Sequence[Shape], out: Shape, attributes: ZeroPointAttributes
) -> list[CompositePart]:
    """Return the operations of a product with zero points."""
    recipe, (lhs, rhs) = Recipe(shapes), shapes
    left, right = attributes.left_zero, attributes.right_zero
    found = recipe.add("matmul", ("0", "1"), Shape("s32", out.dims, out.layout))
    if right:
        rows = recipe.scalar("multiply", summed(recipe, "0", lhs.rank - 1), -right)
        first = out.rank - lhs.rank
        found = recipe.binary("add", found, rows, tuple(range(first, out.rank - 1)))
    if left:
        columns = recipe.scalar("multiply", summed(recipe, "1", rhs.rank - 2), -left)
        first = out.rank - rhs.rank
        along = (*range(first, out.rank - 2), out.rank - 1)
        found = recipe.binary("add", found, columns, along)
    if left * right:
        recipe.scalar("add", found, lhs.dims[-1] * left * right)
    return recipe.done(out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: ZeroPointAttributes) -> Array:
    lhs, rhs = (array.astype(np.int64) for array in arrays)
    found: Array = np.matmul(lhs - attributes.left_zero, rhs - attributes.right_zero)
    return found


MATMUL_INTEGER = Row(
    operands=(
        Operand("lhs", "XLA shape [.., M, K] of a matmul_integer's left"),
        Operand("rhs", "XLA shape [.., K, N] of a matmul_integer's right"),
    ),
    attributes=ZeroPointAttributes,
    check=_check,
    default_out=_default_out,
    reference=reference_of(matmul_integer_parts),
    exact=_exact,
    computes=True,
    parts=matmul_integer_parts,
)
