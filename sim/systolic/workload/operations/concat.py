"""Concat: two or more tensors, one behind the other along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.row import (
    Attributes,
    Operand,
    Row,
    Rules,
    gives,
    of_first_type,
    plain,
)


@dataclass(frozen=True, slots=True)
class ConcatAttributes(Attributes):
    """The axis along which the tensors follow one another."""

    axis: Annotated[
        int | None, Field(description="axis along which the inputs follow (default: the last)")
    ] = None

    def of(self, rank: int) -> int:
        """Return the axis of tensors of that rank."""
        return rank - 1 if self.axis is None else self.axis


def _result_dims(shapes: Sequence[Shape], attributes: ConcatAttributes) -> tuple[int, ...]:
    first, axis = shapes[0], attributes.of(shapes[0].rank)
    if not 0 <= axis < first.rank:
        raise WorkloadError(
            f"axis: needs 0 to {first.rank - 1}, an axis of {plain(first)}, found {axis}"
        )
    for shape in shapes[1:]:
        others = (_besides(shape.dims, axis), shape.rank, shape.element_type)
        if others != (_besides(first.dims, axis), first.rank, first.element_type):
            raise WorkloadError(
                f"{plain(first)} and {plain(shape)} cannot follow one another along axis {axis}: "
                f"type and all other dimensions must be equal"
            )
    total = sum(shape.dims[axis] for shape in shapes)
    return (*first.dims[:axis], total, *first.dims[axis + 1 :])


def _besides(dims: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*dims[:axis], *dims[axis + 1 :])


def _exact(arrays: Sequence[Array], out: Shape, attributes: ConcatAttributes) -> Array:
    # A cast leaves exact values in the type that they had, perhaps not the type of the others.
    integers = all(array.dtype.kind in "iu" for array in arrays)
    wide = [array.astype(np.int64 if integers else np.float64) for array in arrays]
    return np.concatenate(wide, axis=attributes.of(out.rank))


def _reference(
    arrays: Sequence[Array], out: Shape, attributes: ConcatAttributes, rules: Rules
) -> Array:
    return np.concatenate(arrays, axis=attributes.of(out.rank))


CONCAT = Row(
    operands=(
        Operand("lhs", "XLA shape of a concat's first"),
        Operand("rhs", "XLA shape of a concat's second"),
    ),
    attributes=ConcatAttributes,
    check=gives(_result_dims),
    default_out=of_first_type(_result_dims),
    reference=_reference,
    exact=_exact,
    more_operands=True,
)
