"""Depth to space: channels of a pixel become a block of pixels. A composite that only moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    gives,
    of_first_type,
    plain,
)


@dataclass(frozen=True, slots=True)
class BlockAttributes(Attributes):
    """The side of a block, and which part of a channel's number says where in the block it is."""

    block: Annotated[int, Field(description="side of a block of pixels")]
    minor: Annotated[
        Literal["channel", "pixel"],
        Field(
            description="what runs fastest in the channels that are a block: the channel of a "
            "pixel (ONNX's DCR) or the pixel of a channel (CRD)"
        ),
    ] = "channel"


def check_images(source: Shape, block: int) -> None:
    """Raise WorkloadError unless a tensor is images, and a block has a side."""
    if source.rank != 4:
        raise WorkloadError(
            f"needs images [images, rows, columns, channels], found {plain(source)}"
        )
    if block < 1:
        raise WorkloadError(f"block: needs at least 1, found {block}")


def _result_dims(shapes: Sequence[Shape], attributes: BlockAttributes) -> tuple[int, ...]:
    (source,) = shapes
    side = attributes.block
    check_images(source, side)
    images, rows, cols, channels = source.dims
    if channels % side**2:
        raise WorkloadError(
            f"block: needs {side}^2 = {side**2} to divide the channels of {plain(source)}"
        )
    return images, rows * side, cols * side, channels // side**2


def depth_to_space_parts(
    shapes: Sequence[Shape], out: Shape, attributes: BlockAttributes
) -> list[CompositePart]:
    """Return the operations of a depth to space."""
    (source,), recipe, side = shapes, Recipe(shapes), attributes.block
    images, rows, cols, channels = source.dims
    each = channels // side**2
    by_pixel = attributes.minor == "pixel"
    inner = (each, side, side) if by_pixel else (side, side, each)
    order = (0, 1, 4, 2, 5, 3) if by_pixel else (0, 1, 3, 2, 4, 5)
    apart = recipe.reshape("0", (images, rows, cols, *inner))
    recipe.reshape(recipe.transpose(apart, order), out.dims)
    return recipe.done(out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: BlockAttributes) -> Array:
    (array,), side = arrays, attributes.block
    found = np.empty(out.dims, array.dtype)
    each = array.shape[-1] // side**2
    for down in range(side):
        for across in range(side):
            pixel = down * side + across
            first, step = (pixel, side**2) if attributes.minor == "pixel" else (pixel * each, 1)
            found[:, down::side, across::side] = array[..., first::step][..., :each]
    return found


DEPTH_TO_SPACE = Row(
    operands=ONE_SHAPE,
    attributes=BlockAttributes,
    check=gives(_result_dims),
    default_out=of_first_type(_result_dims),
    reference=reference_of(depth_to_space_parts),
    exact=_exact,
    parts=depth_to_space_parts,
)
