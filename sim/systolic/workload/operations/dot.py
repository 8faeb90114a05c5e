"""Dot: the product of numpy's `dot` where one operand may be a vector or a number.

A vector is a matrix of one row on the left, of one column on the right; a number multiplies every
element. Two matrices, or stacks of them, are multiplied as by `matmul`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.convolutions import check_kinds
from systolic.workload.operations.matmul import MATMUL, exact_product
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import NO_ATTRIBUTES, Attributes, Operand, Row, check_gives


def _matrices(shapes: Sequence[Shape]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the dimensions of both operands as matrices."""
    lhs, rhs = (shape.dims for shape in shapes)
    return (lhs if len(lhs) > 1 else (1, *lhs)), (rhs if len(rhs) > 1 else (*rhs, 1))


def _result_dims(shapes: Sequence[Shape]) -> tuple[int, ...]:
    lhs, rhs = shapes
    if not lhs.rank or not rhs.rank:
        return lhs.dims or rhs.dims
    left, right = _matrices(shapes)
    try:
        batch = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError as error:
        raise WorkloadError(f"lhs and rhs: {error}") from None
    rows = left[-2:-1] if lhs.rank > 1 else ()
    return (*batch, *rows, *(right[-1:] if rhs.rank > 1 else ()))


def _check(shapes: Sequence[Shape], out: Shape, attributes: Attributes) -> None:
    dims = _result_dims(shapes)
    check_gives(shapes[0], out.element_type, dims, out)
    check_kinds(*shapes, out)
    if all(shape.rank for shape in shapes):
        left, right = _matrices(shapes)
        batch = np.broadcast_shapes(left[:-2], right[:-2])
        pair = [
            Shape(shape.element_type, each)
            for shape, each in zip(shapes, (left, right), strict=True)
        ]
        whole = Shape(out.element_type, (*batch, left[-2], right[-1]))
        MATMUL.check(pair, whole, NO_ATTRIBUTES)
    elif shapes[0].element_type != shapes[1].element_type:
        raise WorkloadError("a number and what it multiplies have one type")


def _default_out(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    return Shape(shapes[0].element_type, _result_dims(shapes))


def dot_parts(shapes: Sequence[Shape], out: Shape, attributes: Attributes) -> list[CompositePart]:
    """Return the operations of a dot."""
    recipe, (lhs, rhs) = Recipe(shapes), shapes
    if not lhs.rank or not rhs.rank:
        pair = ("0", "1") if lhs.rank else ("1", "0")
        recipe.binary("multiply", *pair, ())
        return recipe.done(out)
    left, right = _matrices(shapes)
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    operands = recipe.reshape("0", left), recipe.reshape("1", right)
    whole = Shape(out.element_type, (*batch, left[-2], right[-1]))
    recipe.reshape(recipe.add("matmul", operands, whole), out.dims)
    return recipe.done(out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: Attributes) -> Array:
    lhs, rhs = arrays
    if not lhs.ndim or not rhs.ndim:
        wide = np.int64 if lhs.dtype.kind in "iu" else np.float64
        found: Array = np.multiply(lhs.astype(wide), rhs.astype(wide))
        return found
    left = lhs if lhs.ndim > 1 else lhs[None]
    right = rhs if rhs.ndim > 1 else rhs[:, None]
    return exact_product(left, right).reshape(out.dims)


DOT = Row(
    operands=(
        Operand("lhs", "XLA shape of a dot's left: matrices, a vector or a number"),
        Operand("rhs", "XLA shape of a dot's right: matrices, a vector or a number"),
    ),
    attributes=Attributes,
    check=_check,
    default_out=_default_out,
    reference=reference_of(dot_parts),
    exact=_exact,
    computes=True,
    parts=dot_parts,
)
