"""Cast: the same elements in another type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.layout import Shape
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


def _with_eight_bits(values: Array) -> Array:
    """Return integers rounded to the 8 bits of a bfloat16; ml_dtypes would round to 24 first."""
    fraction, exponent = np.frexp(values.astype(np.float64))
    rounded: Array = np.ldexp(np.rint(fraction * 256), exponent - 8)
    return rounded


def _check(shapes: Sequence[Shape], out: Shape, attributes: Attributes) -> None:
    (source,) = shapes
    check_gives(source, out.element_type, source.dims, out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: Attributes) -> Array:
    return arrays[0]


def _reference(arrays: Sequence[Array], out: Shape, attributes: Attributes, rules: Rules) -> Array:
    return convert(arrays[0], out.dtype)


CAST = Row(
    operands=ONE_SHAPE, attributes=Attributes, check=_check, reference=_reference, exact=_exact
)
