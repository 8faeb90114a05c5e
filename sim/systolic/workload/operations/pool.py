"""Pool: the largest, the mean, ... of the pixels of each window of images, channel by channel.

The contract is the contract of a reduction of one segment: the elements of a window in row-major
order, in float32 or int32, from the first on; a mean is their sum divided by the pixels of a
window. Padding changes no result of `max`, `min`, `sum` and `product`, and counts as zeros in a
`mean`.
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
from systolic.workload.operations.image_windows import (
    Dilation,
    ImageWindows,
    Padding,
    PixelNumbers,
    Stride,
)
from systolic.workload.operations.reduce import REDUCE, ReduceAttributes, ReductionName
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    Rules,
    check_gives,
    of_first_type,
    plain,
)


@dataclass(frozen=True, slots=True)
class PoolAttributes(Attributes):
    """The reduction, and where its windows lie."""

    reduction: Annotated[ReductionName, Field(description="what is made of a window")]
    window: Annotated[PixelNumbers, Field(description="pixels of a window, [down, across]")]
    stride: Stride = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: Dilation = (1, 1)

    def windows(self) -> ImageWindows:
        """Return the windows."""
        down, across = self.window
        return ImageWindows((down, across), self.stride, self.padding, self.dilation)

    def value(self, dtype: np.dtype[Any]) -> float:
        """Return the elements of the padding."""
        if self.reduction in ("max", "min"):
            if dtype.kind in "iu":
                limits = np.iinfo(dtype)
                return int(limits.min if self.reduction == "max" else limits.max)
            return -np.inf if self.reduction == "max" else np.inf
        return 1.0 if self.reduction == "product" else 0.0


def _result_dims(shapes: Sequence[Shape], attributes: PoolAttributes) -> tuple[int, ...]:
    (source,) = shapes
    if source.rank != 4:
        raise WorkloadError(
            f"pool needs a source [images, height, width, channels], found {plain(source)}"
        )
    if len(attributes.window) != 2 or min(attributes.window) < 1:
        raise WorkloadError(
            f"window: needs 2 numbers of at least 1 (down and across), found "
            f"{list(attributes.window)}"
        )
    windows = attributes.windows()
    windows.check(source)
    if attributes.reduction == "median" and any(attributes.padding):
        raise WorkloadError(
            f"padding: a median has none, which would be among its elements, found "
            f"{list(attributes.padding)}"
        )
    return (source.dims[0], *windows.made(source), source.dims[3])


def _check(shapes: Sequence[Shape], out: Shape, attributes: PoolAttributes) -> None:
    (source,) = shapes
    check_gives(source, out.element_type, _result_dims(shapes, attributes), out)
    # The types are the same as in a reduction.
    seen = Shape(source.element_type, (*out.dims, 1))
    REDUCE.check([seen], out, ReduceAttributes(attributes.reduction, (4,)))


def _seen(array: Array, out: Shape, attributes: PoolAttributes) -> Array:
    """Return the elements of every window, in its last axis."""
    (top, bottom, left, right), (down, across) = attributes.padding, attributes.stride
    sides = ((0, 0), (top, bottom), (left, right), (0, 0))
    value = np.asarray(attributes.value(array.dtype)).astype(array.dtype)
    padded = np.pad(array, sides, constant_values=value)
    _, height, width, _ = out.dims
    taps = [
        padded[:, y : y + (height - 1) * down + 1 : down, x : x + (width - 1) * across + 1 : across]
        for y, x in attributes.windows().taps()
    ]
    return np.stack(taps, axis=-1)


def _exact(arrays: Sequence[Array], out: Shape, attributes: PoolAttributes) -> Array:
    seen = _seen(arrays[0], out, attributes)
    return REDUCE.exact([seen], out, ReduceAttributes(attributes.reduction, (4,)))


def _reference(
    arrays: Sequence[Array], out: Shape, attributes: PoolAttributes, rules: Rules
) -> Array:
    seen, whole = _seen(arrays[0], out, attributes), Rules(rules.k_tiles, rules.fused)
    return REDUCE.reference([seen], out, ReduceAttributes(attributes.reduction, (4,)), whole)


POOL = Row(
    operands=ONE_SHAPE,
    attributes=PoolAttributes,
    check=_check,
    default_out=of_first_type(_result_dims),
    reference=_reference,
    exact=_exact,
    computes=True,
)
