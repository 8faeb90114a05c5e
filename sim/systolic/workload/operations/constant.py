"""Constant: a tensor of one value, made on the chip. An operation without inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.operations.pad import check_value, value_in
from systolic.workload.operations.row import Attributes, Row, Rules


@dataclass(frozen=True, slots=True)
class ConstantAttributes(Attributes):
    """The value of all elements."""

    value: Annotated[float, Field(description="value of all elements (default: 0)")] = 0.0


def _check(shapes: Sequence[Shape], out: Shape, attributes: ConstantAttributes) -> None:
    check_value(attributes.value, out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: ConstantAttributes) -> Array:
    wide = np.int64 if out.dtype.kind in "iu" else np.float64
    return np.full(out.dims, value_in(attributes.value, out).astype(wide))


def _reference(
    arrays: Sequence[Array], out: Shape, attributes: ConstantAttributes, rules: Rules
) -> Array:
    return np.full(out.dims, value_in(attributes.value, out))


CONSTANT = Row(
    operands=(),
    attributes=ConstantAttributes,
    check=_check,
    reference=_reference,
    exact=_exact,
    computes=True,
)
