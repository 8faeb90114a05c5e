"""Requantisation: numbers times a scale, as the nearest integers of a narrower type.

The contract (docs/instruction_set.md, "Values"): elements are taken to float32 and multiplied by
their scale with one rounding; the product is rounded to the nearest whole number, of two the even
one, and saturates. NaN is 0. A scale stands for the whole tensor, or for an index of the last
axis: a channel of images, a column of a product.
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
from systolic.workload.operations.row import Attributes, Operand, Row, Rules, check_gives, plain

INTEGERS = ("s8", "u8", "s32")


@dataclass(frozen=True, slots=True)
class RequantiseAttributes(Attributes):
    """The range of the results, within the range of their type."""

    lowest: Annotated[
        int | None, Field(description="least result, such as 0 for a ramp (default: the type's)")
    ] = None
    highest: Annotated[int | None, Field(description="largest result (default: the type's)")] = None

    def ends(self, out: Shape) -> tuple[int, int]:
        """Return the least and the largest result."""
        limits = np.iinfo(out.dtype)
        lowest = limits.min if self.lowest is None else self.lowest
        highest = limits.max if self.highest is None else self.highest
        return int(lowest), int(highest)


def scaled_axes(scales: Sequence[int], source: Sequence[int]) -> tuple[int, ...]:
    """Return the dimension of the source along which there are several scales; () if none."""
    return (len(source) - 1,) if scales else ()


def _check(shapes: Sequence[Shape], out: Shape, attributes: RequantiseAttributes) -> None:
    source, scales = shapes
    if out.element_type not in INTEGERS:
        raise WorkloadError(f"gives {', '.join(INTEGERS)}, but out is {plain(out)}")
    check_gives(source, out.element_type, source.dims, out)
    if scales.element_type != "f32" or scales.dims not in ((), source.dims[-1:]):
        raise WorkloadError(
            f"scales are f32[], or f32[{source.dims[-1] if source.rank else ''}] with one for each "
            f"index of the last axis of {plain(source)}, found {plain(scales)}"
        )
    _check_range(out, attributes)


def _check_range(out: Shape, attributes: RequantiseAttributes) -> None:
    limits, (lowest, highest) = np.iinfo(out.dtype), attributes.ends(out)
    for name, value in (("lowest", lowest), ("highest", highest)):
        if not limits.min <= value <= limits.max:
            raise WorkloadError(
                f"{name}: {out.element_type} holds {limits.min} to {limits.max}, found {value}"
            )
    if lowest > highest:
        raise WorkloadError(f"lowest is {lowest}, but highest is {highest}")


def _exact(arrays: Sequence[Array], out: Shape, attributes: RequantiseAttributes) -> Array:
    source, scales = (array.astype(np.float64) for array in arrays)
    return np.clip(source * scales, *attributes.ends(out))


def _reference(
    arrays: Sequence[Array], out: Shape, attributes: RequantiseAttributes, rules: Rules
) -> Array:
    with np.errstate(all="ignore"):
        product = arrays[0].astype(np.float32) * arrays[1]
        nearest = np.where(np.isnan(product), 0.0, np.rint(product.astype(np.float64)))
        return np.clip(nearest, *attributes.ends(out)).astype(out.dtype)


REQUANTISE = Row(
    operands=(
        Operand("source", "XLA shape of what is requantised"),
        Operand("scales", "XLA shape of the scales: f32[], or one for each index of the last axis"),
    ),
    attributes=RequantiseAttributes,
    check=_check,
    reference=_reference,
    exact=_exact,
    computes=True,
)
