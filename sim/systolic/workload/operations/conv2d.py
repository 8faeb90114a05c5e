"""Convolution of images: each result is a sum over the pixels of a window and over channels.

Source [images, height, width, channels], weights [height, width, channels of a group, filters],
result [images, height, width, filters], in any layouts. The contract is the contract of a product
whose K are the elements of a window, in the order of the weights: pixels in row-major order, and of
each all channels. Padding is zeros, which are multiplied like any other element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.cast import convert
from systolic.workload.operations.image_windows import Dilation, ImageWindows, Padding, Stride
from systolic.workload.operations.matmul import exact_product, product_by_rules
from systolic.workload.operations.row import Attributes, Operand, Row, Rules, of_first_type, plain


@dataclass(frozen=True, slots=True)
class Conv2dAttributes(Attributes):
    """Where the windows lie, and how many groups of channels there are."""

    stride: Stride = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: Dilation = (1, 1)
    groups: Annotated[
        int, Field(description="groups of channels, each with filters of its own (default: 1)")
    ] = 1

    def windows(self, weights: Shape) -> ImageWindows:
        """Return the windows of weights."""
        height, width = weights.dims[:2]
        return ImageWindows((height, width), self.stride, self.padding, self.dilation)


def _check(shapes: Sequence[Shape], out: Shape, attributes: Conv2dAttributes) -> None:
    dims, (source, weights) = _result_dims(shapes, attributes), shapes
    if out.dims != dims:
        wanted = f"[{','.join(map(str, dims))}]"
        raise WorkloadError(
            f"{plain(source)} with weights {plain(weights)} has dimensions {wanted}, but out is "
            f"{plain(out)}"
        )
    if len({shape.dtype.kind in "iu" for shape in (*shapes, out)}) > 1:
        raise WorkloadError(
            f"{plain(source)}, {plain(weights)} and {plain(out)}: integers multiply with integers "
            f"and floats with floats, into the same"
        )


def _result_dims(shapes: Sequence[Shape], attributes: Conv2dAttributes) -> tuple[int, ...]:
    source, weights = shapes
    if source.rank != 4 or weights.rank != 4:
        raise WorkloadError(
            f"conv2d needs a source [images, height, width, channels] and weights [height, width, "
            f"channels of a group, filters], found {plain(source)} and {plain(weights)}"
        )
    groups, channels, (taken, filters) = attributes.groups, source.dims[3], weights.dims[2:]
    if groups < 1 or channels != groups * taken or filters % groups:
        raise WorkloadError(
            f"groups: {groups} of {taken} channels each, and {filters} filters shared out among "
            f"them, do not go with {plain(source)}: weights are {plain(weights)}"
        )
    windows = attributes.windows(weights)
    windows.check(source)
    return (source.dims[0], *windows.made(source), filters)


def _rows(source: Array, weights: Array, attributes: Conv2dAttributes) -> Array:
    """Return the elements of every window, [groups, images * height * width, K]."""
    height, width, taken, _ = weights.shape
    windows = ImageWindows((height, width), *_places(attributes))
    top, bottom, left, right = attributes.padding
    padded = np.pad(source, ((0, 0), (top, bottom), (left, right), (0, 0)))
    down = (padded.shape[1] - windows.extents[0]) // attributes.stride[0] + 1
    across = (padded.shape[2] - windows.extents[1]) // attributes.stride[1] + 1
    taps = [
        padded[
            :,
            y : y + (down - 1) * attributes.stride[0] + 1 : attributes.stride[0],
            x : x + (across - 1) * attributes.stride[1] + 1 : attributes.stride[1],
        ]
        for y, x in windows.taps()
    ]
    seen = np.stack(taps, axis=3).reshape(-1, len(taps), attributes.groups, taken)
    return seen.transpose(2, 0, 1, 3).reshape(attributes.groups, len(seen), -1)


def _places(
    attributes: Conv2dAttributes,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return attributes.stride, attributes.padding, attributes.dilation


def _columns(weights: Array, groups: int) -> Array:
    """Return the weights as [groups, K, filters of a group]."""
    inner, filters = math.prod(weights.shape[:3]), weights.shape[3]
    return weights.reshape(inner, groups, filters // groups).transpose(1, 0, 2)


def _in_images(found: Array, out: Shape) -> Array:
    """Return [groups, pixels, filters of a group] in the dimensions of the result."""
    return found.transpose(1, 0, 2).reshape(out.dims)


def _exact(arrays: Sequence[Array], out: Shape, attributes: Conv2dAttributes) -> Array:
    source, weights = arrays
    rows, columns = _rows(source, weights, attributes), _columns(weights, attributes.groups)
    return _in_images(exact_product(rows, columns), out)


def _reference(
    arrays: Sequence[Array], out: Shape, attributes: Conv2dAttributes, rules: Rules
) -> Array:
    source, weights = arrays
    rows, columns = _rows(source, weights, attributes), _columns(weights, attributes.groups)
    found = product_by_rules(rows, columns, rules)
    if rules.channels_of_tile and found.dtype.kind == "f":
        found = _beside_others(found, rows, rules.channels_of_tile)
    return convert(_in_images(found, out), out.dtype)


def _beside_others(found: Array, rows: Array, count: int) -> Array:
    """Return sums [channels, pixels, 1] of tiles of `count` channels, zeros between their weights.

    Zero times what another channel has, [channels, pixels, K], is NaN where that is not finite.
    """
    odd: Array = np.logical_not(np.isfinite(rows).all(axis=2))
    first = np.arange(0, len(odd), count)
    of_tile = np.repeat(np.add.reduceat(odd, first, axis=0, dtype=int), count, axis=0)[: len(odd)]
    return np.where((of_tile - odd > 0)[..., None], np.float32(np.nan), found)


CONV2D = Row(
    operands=(
        Operand("source", "XLA shape [images, height, width, channels] of a conv2d's images"),
        Operand("weights", "XLA shape [height, width, channels, filters] of a conv2d's weights"),
    ),
    attributes=Conv2dAttributes,
    check=_check,
    default_out=of_first_type(_result_dims),
    reference=_reference,
    exact=_exact,
    computes=True,
)
