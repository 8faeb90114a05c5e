"""Causal mask: what lies above a diagonal becomes one value, as attention hides later positions.

Or what lies below it: then it is the upper triangle that stays.

Which elements stay follows from their places alone, so nothing of a mask is in memory. An engine
keeps the bits of what stays and has the result's type; other types are converted as by `cast`.
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
from systolic.workload.operations.cast import convert
from systolic.workload.operations.pad import check_value, value_in
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    Rules,
    check_gives,
    first_shape,
    is_integer,
    plain,
)
from systolic.workload.operations.softmax import check_floats


@dataclass(frozen=True, slots=True)
class CausalMaskAttributes(Attributes):
    """The diagonal, up to which elements stay, and the value of the others."""

    offset: Annotated[
        int, Field(description="column j of row i stays if j <= i + offset (default: 0)")
    ] = 0
    value: Annotated[float, Field(description="what the others become (default: -1e30)")] = -1e30
    upper: Annotated[
        bool, Field(description="column j stays if j >= i + offset instead (default: false)")
    ] = False

    def kept(self, rows: int, cols: int) -> Array:
        """Return which elements of a matrix stay, bool [rows, cols]."""
        if self.upper:
            return ~np.tri(rows, cols, self.offset - 1, dtype=bool)
        return np.tri(rows, cols, self.offset, dtype=bool)


def _check(shapes: Sequence[Shape], out: Shape, attributes: CausalMaskAttributes) -> None:
    (source,) = shapes
    if source.rank < 2:
        raise WorkloadError(f"needs rows and columns, found {plain(source)}")
    if is_integer(source) != is_integer(out):
        check_floats(source, out)
    check_gives(source, out.element_type, source.dims, out)
    check_value(attributes.value, out)
    if not np.isfinite(_other(out, attributes).astype(np.float64)):
        raise WorkloadError(
            f"value: needs a number that is finite in {out.element_type} (products that turn a "
            f"matrix would make NaN of 0 x infinity), found {attributes.value}"
        )


def _other(out: Shape, attributes: CausalMaskAttributes) -> Array:
    """Return the value in the type of the result."""
    return value_in(attributes.value, out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: CausalMaskAttributes) -> Array:
    (array,) = arrays
    kept = attributes.kept(*array.shape[-2:])
    # The value is the number that the type holds for it: -1e30 is rounded before anything is done.
    wide = np.int64 if array.dtype.kind in "iu" else np.float64
    return np.where(kept, array.astype(wide), _other(out, attributes).astype(wide))


def _reference(
    arrays: Sequence[Array], out: Shape, attributes: CausalMaskAttributes, rules: Rules
) -> Array:
    (array,) = arrays
    kept = attributes.kept(*array.shape[-2:])
    return np.where(kept, convert(array, out.dtype), _other(out, attributes))


CAUSAL_MASK = Row(
    operands=ONE_SHAPE,
    attributes=CausalMaskAttributes,
    check=_check,
    default_out=first_shape,
    reference=_reference,
    exact=_exact,
    computes=True,
)
