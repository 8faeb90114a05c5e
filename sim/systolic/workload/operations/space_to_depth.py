"""Space to depth: pixels of a block become channels of one. A composite that only moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.depth_to_space import BlockAttributes, check_images
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Row,
    gives,
    of_first_type,
    plain,
)


def _result_dims(shapes: Sequence[Shape], attributes: BlockAttributes) -> tuple[int, ...]:
    (source,) = shapes
    side = attributes.block
    check_images(source, side)
    images, rows, cols, channels = source.dims
    if rows % side or cols % side:
        raise WorkloadError(
            f"block: needs {side} to divide the rows and the columns of {plain(source)}"
        )
    return images, rows // side, cols // side, channels * side**2


def space_to_depth_parts(
    shapes: Sequence[Shape], out: Shape, attributes: BlockAttributes
) -> list[CompositePart]:
    """Return the operations of a space to depth."""
    (source,), recipe, side = shapes, Recipe(shapes), attributes.block
    images, rows, cols, channels = source.dims
    order = (0, 1, 3, 5, 2, 4) if attributes.minor == "pixel" else (0, 1, 3, 2, 4, 5)
    apart = recipe.reshape("0", (images, rows // side, side, cols // side, side, channels))
    recipe.reshape(recipe.transpose(apart, order), out.dims)
    return recipe.done(out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: BlockAttributes) -> Array:
    (array,), side = arrays, attributes.block
    blocks = [array[:, down::side, across::side] for down in range(side) for across in range(side)]
    axis = -1 if attributes.minor == "pixel" else -2
    return np.stack(blocks, axis).reshape(out.dims)


SPACE_TO_DEPTH = Row(
    operands=ONE_SHAPE,
    attributes=BlockAttributes,
    check=gives(_result_dims),
    default_out=of_first_type(_result_dims),
    reference=reference_of(space_to_depth_parts),
    exact=_exact,
    parts=space_to_depth_parts,
)
