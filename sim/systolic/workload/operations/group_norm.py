"""Group norm: each group of channels of each image by its own mean and variance, then by channel.

Every step is float32 and rounded once; the last result is cast.
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
from systolic.workload.operations.channel_norms import (
    FACTORS,
    TERMS,
    ChannelNormAttributes,
    along,
    check_channels,
)
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.norms import SOURCE
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.reduce import kept_axes
from systolic.workload.operations.row import Row, first_shape, plain


@dataclass(frozen=True, slots=True)
class GroupNormAttributes(ChannelNormAttributes):
    """What is added to variances, the axis of the channels, and how many groups they make."""

    groups: Annotated[
        int, Field(description="groups of channels, each with a mean and a variance (default: 1)")
    ] = 1

    def group_count(self, channels: int) -> int:
        """Return in how many groups channels are made even."""
        return self.groups


def group_row(attributes: type[ChannelNormAttributes]) -> Row[ChannelNormAttributes]:
    """Return the row of a norm whose attributes say how many groups its channels make."""
    return Row(
        operands=(SOURCE, FACTORS, TERMS),
        attributes=attributes,
        check=_check,
        default_out=first_shape,
        reference=reference_of(_parts),
        exact=_exact,
        computes=True,
        parts=_parts,
    )


def _check(shapes: Sequence[Shape], out: Shape, attributes: ChannelNormAttributes) -> None:
    check_channels(shapes, out, attributes, (FACTORS.name, TERMS.name))
    channels = shapes[0].dims[attributes.of(shapes[0].rank)]
    groups = attributes.group_count(channels)
    if groups < 1 or channels % groups:
        raise WorkloadError(
            f"groups: needs a divisor of the {channels} channels of {plain(shapes[0])}, found "
            f"{groups}"
        )


def _parts(
    shapes: Sequence[Shape], out: Shape, attributes: ChannelNormAttributes
) -> list[CompositePart]:
    recipe, dims = Recipe(shapes), shapes[0].dims
    axis = attributes.of(len(dims))
    groups = attributes.group_count(dims[axis])
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


def _exact(arrays: Sequence[Array], out: Shape, attributes: ChannelNormAttributes) -> Array:
    x, factors, terms = (array.astype(np.float64) for array in arrays)
    axis = attributes.of(x.ndim)
    seen = np.moveaxis(x, axis, 1) if axis else x[None]
    parts = seen.reshape(seen.shape[0], attributes.group_count(x.shape[axis]), -1)
    centred = parts - parts.mean(axis=2, keepdims=True)
    variance = np.square(centred).mean(axis=2, keepdims=True)
    evened = (centred / np.sqrt(variance + attributes.epsilon)).reshape(seen.shape)
    back = np.moveaxis(evened, 1, axis) if axis else evened[0]
    scaled: Array = back * along(factors, x.ndim, axis) + along(terms, x.ndim, axis)
    return scaled


GROUP_NORM = group_row(GroupNormAttributes)
