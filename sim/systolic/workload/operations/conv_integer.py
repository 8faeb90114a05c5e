"""Convolution of quantised images: (source - zero point) with (weights - zero point), in s32.

Padding stands for 0, so it has the source's zero point. What zero points add to the convolution of
the bytes as they are is taken away: one times the sums of filters, one times the sums of windows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.convolutions import (
    ConvAttributes,
    ConvolvedAxes,
    check_dims,
    convolve,
    convolved_dims,
    counted_elements,
    windows_exact,
)
from systolic.workload.operations.image_windows import Dilation, Padding, Stride
from systolic.workload.operations.matmul_integer import ZeroPointAttributes, check_bytes, summed
from systolic.workload.operations.pool import PoolAttributes
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import Operand, Row, plain

SPATIAL = 2


@dataclass(frozen=True, slots=True)
class ConvIntegerAttributes(ZeroPointAttributes):
    """Zero points, where windows lie, and groups of channels."""

    stride: Stride = (1,)
    padding: Padding = (0,)
    dilation: Dilation = (1,)
    groups: Annotated[
        int, Field(description="groups of channels, each with filters of its own (default: 1)")
    ] = 1

    @property
    def convolution(self) -> ConvAttributes:
        """Return the attributes of the convolution of the bytes as they are."""
        return ConvAttributes(self.stride, self.padding, self.dilation, self.groups)

    @property
    def where(self) -> ConvolvedAxes:
        """Return where windows lie."""
        return self.convolution.along(SPATIAL)


def _result_dims(shapes: Sequence[Shape], attributes: ConvIntegerAttributes) -> tuple[int, ...]:
    source, weights = shapes
    ranks = (SPATIAL + 2,)
    return convolved_dims("conv_integer", source, weights, attributes.convolution, ranks)


def _check(shapes: Sequence[Shape], out: Shape, attributes: ConvIntegerAttributes) -> None:
    source, weights = shapes
    dims = _result_dims(shapes, attributes)
    check_dims(dims, out, f"{plain(source)} with weights {plain(weights)}")
    check_bytes(shapes, out, attributes)


def _default_out(shapes: Sequence[Shape], attributes: ConvIntegerAttributes) -> Shape:
    return Shape("s32", _result_dims(shapes, attributes))


def _needs(shapes: Sequence[Shape], out: Shape, attributes: ConvIntegerAttributes) -> Sequence[int]:
    source, weights = shapes
    pixels, taps, _ = counted_elements(source, weights, out.dims[1:-1], attributes.where)
    # Weights on padding count where the padding is no 0 to the machine: at most all of them.
    return pixels, taps


def conv_integer_parts(
    shapes: Sequence[Shape], out: Shape, attributes: ConvIntegerAttributes
) -> list[CompositePart]:
    """Return the operations of a convolution with zero points."""
    recipe, (_, weights) = Recipe(shapes), shapes
    left, right, groups = attributes.left_zero, attributes.right_zero, attributes.groups
    where = attributes.where
    source = recipe.pad("0", [(0, 0), *where.padding, (0, 0)], left)
    inside = ConvolvedAxes(where.stride, ((0, 0),) * SPATIAL, where.dilation)
    found = convolve(recipe, (source, "1"), inside, groups, "s32")
    *kernel, taken, filters = weights.dims
    if left:
        taps = recipe.reshape("1", (math.prod(kernel) * taken, filters))
        sums = recipe.scalar("multiply", summed(recipe, taps, 0), -left)
        found = recipe.binary("add", found, sums, (out.rank - 1,))
    if right:
        windows = recipe.scalar(
            "multiply", _window_sums(recipe, source, inside, kernel, groups), -right
        )
        by_group = recipe.reshape(found, (*out.dims[:-1], groups, filters // groups))
        less = recipe.binary("add", by_group, windows, tuple(range(out.rank)))
        found = recipe.reshape(less, out.dims)
    if left * right:
        recipe.scalar("add", found, math.prod(kernel) * taken * left * right)
    return recipe.done(out)


def _window_sums(
    recipe: Recipe, source: str, where: ConvolvedAxes, kernel: Sequence[int], groups: int
) -> str:
    """Return the s32 sums of each window and group of channels, [images, height, width, groups]."""
    *pixels, channels = recipe.shape(source).dims
    by_group = recipe.reshape(source, (*pixels, groups, channels // groups))
    planes = summed(recipe, by_group, len(pixels) + 1)
    windows = PoolAttributes("sum", tuple(kernel), where.stride, (0, 0, 0, 0), where.dilation)
    dims = (pixels[0], *where.made(pixels[1:], kernel), groups)
    return recipe.add("pool", (planes,), Shape("s32", dims), windows)


def _exact(arrays: Sequence[Array], out: Shape, attributes: ConvIntegerAttributes) -> Array:
    source, weights = (array.astype(np.int64) for array in arrays)
    source, weights = source - attributes.left_zero, weights - attributes.right_zero
    return windows_exact(source, weights, attributes.where, attributes.groups)


CONV_INTEGER = Row(
    operands=(
        Operand("source", "XLA shape [images, height, width, channels] of a conv_integer's images"),
        Operand("weights", "XLA shape [height, width, channels, filters] of its weights"),
    ),
    attributes=ConvIntegerAttributes,
    check=_check,
    default_out=_default_out,
    reference=reference_of(conv_integer_parts),
    exact=_exact,
    needs=_needs,
    computes=True,
    parts=conv_integer_parts,
)
