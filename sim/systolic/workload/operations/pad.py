"""Pad: a tensor with elements of one value around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.cast import convert
from systolic.workload.operations.row import ONE_SHAPE, Attributes, Row, Rules, check_gives, plain

PaddingCounts = Annotated[tuple[int, ...], Field(strict=False)]


@dataclass(frozen=True, slots=True)
class PadAttributes(Attributes):
    """How many elements there are before and behind each dimension, and their value."""

    low: Annotated[PaddingCounts, Field(description="elements before the first of each dimension")]
    high: Annotated[PaddingCounts, Field(description="elements behind the last of each dimension")]
    value: Annotated[float, Field(description="their value (default: 0)")] = 0.0


def _result_dims(source: Shape, attributes: PadAttributes) -> tuple[int, ...]:
    for key, counts in (("low", attributes.low), ("high", attributes.high)):
        if len(counts) != source.rank or min(counts, default=0) < 0:
            raise WorkloadError(
                f"{key}: needs a number of at least 0 for each dimension of {plain(source)}, "
                f"found {list(counts)}"
            )
    sides = zip(attributes.low, source.dims, attributes.high, strict=True)
    return tuple(map(sum, sides))


def _check(shapes: Sequence[Shape], out: Shape, attributes: PadAttributes) -> None:
    (source,), value = shapes, attributes.value
    check_gives(source, source.element_type, _result_dims(source, attributes), out)
    if out.dtype.kind in "iu":
        limits = np.iinfo(out.dtype)
        if not (value == value // 1 and limits.min <= value <= limits.max):
            raise WorkloadError(
                f"value: needs a whole number from {limits.min} to {limits.max} for {plain(out)}, "
                f"found {value}"
            )


def _default_out(shapes: Sequence[Shape], attributes: PadAttributes) -> Shape:
    return Shape(shapes[0].element_type, _result_dims(shapes[0], attributes))


def _padded(array: Array, attributes: PadAttributes, value: Array) -> Array:
    sides = list(zip(attributes.low, attributes.high, strict=True))
    return np.pad(array, sides, constant_values=value) if sides else array


def _exact(arrays: Sequence[Array], out: Shape, attributes: PadAttributes) -> Array:
    (array,) = arrays
    wide = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
    return _padded(wide, attributes, _value(out, attributes).astype(wide.dtype))


def _reference(
    arrays: Sequence[Array], out: Shape, attributes: PadAttributes, rules: Rules
) -> Array:
    return _padded(arrays[0], attributes, _value(out, attributes))


def _value(out: Shape, attributes: PadAttributes) -> Array:
    """Return the value as the type of the result holds it: it is rounded before it is used."""
    value = np.asarray(attributes.value, np.float64)
    single = value.astype(np.int64 if out.dtype.kind in "iu" else np.float32)
    return convert(single, out.dtype)


PAD = Row(
    operands=ONE_SHAPE,
    attributes=PadAttributes,
    check=_check,
    default_out=_default_out,
    reference=_reference,
    exact=_exact,
)
