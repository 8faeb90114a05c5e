"""Cast: the same elements in another type, pred and integers of less than a byte included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.element_types import ElementType
from systolic.layout import Shape, element_type_of
from systolic.workload.operations.row import ONE_SHAPE, Attributes, Row, Rules, check_gives


def convert(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return values in another type.

    To a float type values are rounded once, to nearest even. Integers wrap in a smaller integer
    type. A float becomes an integer by truncation towards zero; it saturates, and NaN becomes 0.
    """
    if values.dtype == dtype:
        return values
    with np.errstate(all="ignore"):
        if dtype.kind in "iu" and values.dtype.kind not in "iu":
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            whole = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0))
            return np.clip(whole, low, high).astype(dtype)
        if values.dtype.kind in "iu" and dtype.name == "bfloat16":
            values = _with_eight_bits(values)
        return values.astype(dtype)


def to_type(values: Array, before: ElementType, after: ElementType) -> Array:
    """Return values of one element type in another, by the rules of `convert`.

    To pred every number that is not 0 becomes True, NaN too. A float becomes an integer of less
    than a byte as any other: truncated and saturated, NaN 0; an integer keeps its low bits.
    """
    if before == after:
        return values
    if before.is_narrow:
        values = values.astype(np.uint8 if before.name == "pred" else np.int8)
    if after.name == "pred":
        return np.asarray(values != 0)
    limits = after.integer_range
    if limits is None or not after.is_narrow:
        return convert(values, after.dtype)
    low, high = limits
    if values.dtype.kind in "iu":
        return ((values.astype(np.int64) - low) % (high - low + 1) + low).astype(after.dtype)
    whole = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0))
    return np.clip(whole, low, high).astype(np.int64).astype(after.dtype)


def _with_eight_bits(values: Array) -> Array:
    """Return integers rounded to the 8 bits of a bfloat16; ml_dtypes would round to 24 first."""
    fraction, exponent = np.frexp(values.astype(np.float64))
    rounded: Array = np.ldexp(np.rint(fraction * 256), exponent - 8)
    return rounded


def _check(shapes: Sequence[Shape], out: Shape, attributes: Attributes) -> None:
    (source,) = shapes
    check_gives(source, out.element_type, source.dims, out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: Attributes) -> Array:
    (values,) = arrays
    if out.element_type == "pred":
        return np.asarray(values != 0)
    if values.dtype == bool:
        return values.astype(np.int8)
    narrow = element_type_of(values.dtype).is_narrow
    return values.astype(np.int8) if narrow else values


def _reference(arrays: Sequence[Array], out: Shape, attributes: Attributes, rules: Rules) -> Array:
    return to_type(arrays[0], element_type_of(arrays[0].dtype), out.type)


CAST = Row(
    operands=ONE_SHAPE, attributes=Attributes, check=_check, reference=_reference, exact=_exact
)
