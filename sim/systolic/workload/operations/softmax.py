"""Softmax along one axis: e^(x - max), divided by its sum. A composite of reductions and functions.

The largest element and its negative are exact in the operand's type; differences, exponentials and
their sum are float32, each rounded once; the quotient is cast to the result's type.
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
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.reduce import kept_axes
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    check_gives,
    first_shape,
    plain,
)


@dataclass(frozen=True, slots=True)
class SoftmaxAttributes(Attributes):
    """The axis along which the results have the sum 1."""

    axis: Annotated[
        int | None, Field(description="axis along which results add up to 1 (default: the last)")
    ] = None

    def of(self, rank: int) -> int:
        """Return the axis of a tensor of that rank."""
        return rank - 1 if self.axis is None else self.axis


def check_axis(shape: Shape, axis: int) -> None:
    """Raise WorkloadError unless a tensor has an axis."""
    if not 0 <= axis < shape.rank:
        raise WorkloadError(
            f"axis: needs 0 to {shape.rank - 1}, an axis of {plain(shape)}, found {axis}"
        )


def check_floats(*shapes: Shape) -> None:
    """Raise WorkloadError unless all tensors are floats."""
    for shape in shapes:
        if shape.dtype.kind in "iu":
            raise WorkloadError(f"needs floats, found {plain(shape)}")


def _check(shapes: Sequence[Shape], out: Shape, attributes: SoftmaxAttributes) -> None:
    (source,) = shapes
    if source.rank == 0:
        raise WorkloadError(f"needs at least one axis, found {plain(source)}")
    check_axis(source, attributes.of(source.rank))
    check_floats(source, out)
    check_gives(source, out.element_type, source.dims, out)


def softmax_parts(
    shapes: Sequence[Shape], out: Shape, attributes: SoftmaxAttributes
) -> list[CompositePart]:
    """Return the operations of a softmax."""
    (source,), recipe = shapes, Recipe(shapes)
    axis = attributes.of(source.rank)
    others = kept_axes(source.rank, (axis,))
    largest = recipe.reduce("max", "0", axis)
    below = recipe.activation("identity", largest, scale=-1.0)
    difference = recipe.binary("add", "0", below, others)
    powers = recipe.activation("exponential", difference)
    total = recipe.reduce("sum", powers, axis)
    recipe.binary("divide", powers, total, others, out)
    return recipe.parts


def _exact(arrays: Sequence[Array], out: Shape, attributes: SoftmaxAttributes) -> Array:
    (array,) = arrays
    axis, wide = attributes.of(array.ndim), array.astype(np.float64)
    with np.errstate(invalid="ignore"):  # a line of infinities
        powers = np.exp(wide - wide.max(axis=axis, keepdims=True))
        return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


SOFTMAX = Row(
    operands=ONE_SHAPE,
    attributes=SoftmaxAttributes,
    check=_check,
    default_out=first_shape,
    reference=reference_of(softmax_parts),
    exact=_exact,
    computes=True,
    parts=softmax_parts,
)
