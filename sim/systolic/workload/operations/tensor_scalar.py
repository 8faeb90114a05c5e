"""Tensor scalar: one operator on every element and one number that is known when compiling.

The contract is `binary`'s with a number of the operand's kind: of integers int32, which
wraps, of floats float32, rounded once; the result is then cast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.binary import (
    BINARY,
    BinaryAttributes,
    OperatorName,
)
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    Rules,
    counted,
    first_shape,
    is_integer,
    plain,
)

WORD = np.iinfo(np.int32)


@dataclass(frozen=True, slots=True)
class TensorScalarAttributes(Attributes):
    """The operator, the number, and which of the two operands the number is."""

    operator: Annotated[OperatorName, Field(description="operator of every element and the number")]
    number: Annotated[float, Field(description="right operand, the same for every element")]
    reverse: Annotated[
        bool, Field(description="the number is the left operand instead (default: false)")
    ] = False

    @property
    def with_tensor(self) -> BinaryAttributes:
        """Return the same operator on two tensors."""
        return BinaryAttributes(self.operator)

    def immediate(self, source: Shape) -> int | float:
        """Return the number as an instruction on a tensor has it: an integer beside integers."""
        return int(self.number) if is_integer(source) else float(self.number)


def _operands(source: Shape, attributes: TensorScalarAttributes) -> list[Shape]:
    kind = "s32" if is_integer(source) else "f32"
    return [Shape(kind, source.dims), Shape(kind, ())][:: -1 if attributes.reverse else 1]


def _check(shapes: Sequence[Shape], out: Shape, attributes: TensorScalarAttributes) -> None:
    (source,), number = shapes, attributes.number
    if is_integer(source) and not (number == number // 1 and WORD.min <= number <= WORD.max):
        raise WorkloadError(
            f"number: needs a whole number from {WORD.min} to {WORD.max} beside {plain(source)}, "
            f"found {number}"
        )
    BINARY.check(_operands(source, attributes), out, attributes.with_tensor)


def _pair(
    arrays: Sequence[Array], attributes: TensorScalarAttributes, single: type[np.floating[Any]]
) -> list[Array]:
    """Return both operands; a float number is of type `single`."""
    array = counted(arrays[0])
    number = np.asarray(attributes.number, np.float64)
    one = number.astype(np.int32 if array.dtype.kind in "iu" else single)
    return [array, one][:: -1 if attributes.reverse else 1]


def _exact(arrays: Sequence[Array], out: Shape, attributes: TensorScalarAttributes) -> Array:
    return BINARY.exact(_pair(arrays, attributes, np.float64), out, attributes.with_tensor)


def _reference(
    arrays: Sequence[Array], out: Shape, attributes: TensorScalarAttributes, rules: Rules
) -> Array:
    return BINARY.reference(
        _pair(arrays, attributes, np.float32), out, attributes.with_tensor, rules
    )


TENSOR_SCALAR = Row(
    operands=ONE_SHAPE,
    attributes=TensorScalarAttributes,
    check=_check,
    default_out=first_shape,
    reference=_reference,
    exact=_exact,
    computes=True,
)
