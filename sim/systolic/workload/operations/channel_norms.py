"""What the norms with numbers for each channel have in common: keys, checks, and their parts.

Channels may be any axis. Batch norm has their means and variances as operands; instance and group
norm take them over all other axes but the first, of one channel or of a group of channels.
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
from systolic.workload.operations.norms import NormAttributes
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.reduce import kept_axes
from systolic.workload.operations.row import Operand, check_gives, plain
from systolic.workload.operations.softmax import check_axis, check_floats


@dataclass(frozen=True, slots=True)
class ChannelNormAttributes(NormAttributes):
    """What is added to variances, and the axis of the channels."""

    axis: Annotated[int | None, Field(description="axis of the channels (default: the last)")] = (
        None
    )

    def of(self, rank: int) -> int:
        """Return the axis of the channels of a tensor of that rank."""
        return rank - 1 if self.axis is None else self.axis


def check_channels(
    shapes: Sequence[Shape], out: Shape, attributes: ChannelNormAttributes, names: Sequence[str]
) -> None:
    """Raise WorkloadError unless all are floats, with numbers of these names for each channel."""
    source, *numbers = shapes
    if source.rank < 2:
        raise WorkloadError(f"needs at least two axes, found {plain(source)}")
    axis = attributes.of(source.rank)
    check_axis(source, axis)
    check_floats(*shapes, out)
    channels = source.dims[axis]
    for name, shape in zip(names, numbers, strict=True):
        if shape.dims != (channels,):
            raise WorkloadError(
                f"{name}: needs a number for each of {channels} channels, axis {axis} of "
                f"{plain(source)}, found {plain(shape)}"
            )
    check_gives(source, out.element_type, source.dims, out)


def first_shape(shapes: Sequence[Shape], attributes: NormAttributes) -> Shape:
    """Return the shape of what is made even."""
    return shapes[0]


def groups_parts(
    shapes: Sequence[Shape], out: Shape, attributes: ChannelNormAttributes, groups: int
) -> list[CompositePart]:
    """Return the operations of a norm over all axes but the first, for each group of channels."""
    recipe, dims = Recipe(shapes), shapes[0].dims
    axis = attributes.of(len(dims))
    inside = dims[axis] // groups
    x, factors, terms = (recipe.single(str(number)) for number in range(3))
    if inside > 1:
        x = recipe.reshape(x, (*dims[:axis], groups, inside, *dims[axis + 1 :]))
    rank = len(recipe.shape(x).dims)
    each = (0, axis) if axis else (0,)
    over = kept_axes(rank, each)
    if over:
        x = recipe.binary("subtract", x, recipe.reduce("mean", x, *over), each)
        square = recipe.reduce("mean", recipe.activation("square", x), *over)
    else:  # one number is its own mean
        x = recipe.binary("subtract", x, x, ())
        square = recipe.activation("square", x)
    factor = recipe.activation("rsqrt", square, bias=attributes.epsilon)
    x = recipe.reshape(recipe.binary("multiply", x, factor, each), dims)
    x = recipe.binary("multiply", x, factors, (axis,))
    recipe.binary("add", x, terms, (axis,))
    return recipe.done(out)


def groups_exact(arrays: Sequence[Array], attributes: ChannelNormAttributes, groups: int) -> Array:
    """Return the norm of each group of channels in float64."""
    x, factors, terms = (array.astype(np.float64) for array in arrays)
    axis = attributes.of(x.ndim)
    seen = np.moveaxis(x, axis, 1) if axis else x[None]
    parts = seen.reshape(seen.shape[0], groups, -1)
    centred = parts - parts.mean(axis=2, keepdims=True)
    variance = np.square(centred).mean(axis=2, keepdims=True)
    evened = (centred / np.sqrt(variance + attributes.epsilon)).reshape(seen.shape)
    back = np.moveaxis(evened, 1, axis) if axis else evened[0]
    scaled: Array = back * along(factors, x.ndim, axis) + along(terms, x.ndim, axis)
    return scaled


def along(numbers: Array, rank: int, axis: int) -> Array:
    """Return one number for each channel so that they spread over a tensor of that rank."""
    return numbers.reshape([-1 if each == axis else 1 for each in range(rank)])


FACTORS = Operand("factors", "XLA shape of a norm's factors, one for each channel")
TERMS = Operand("terms", "XLA shape of a norm's terms, one for each channel")
