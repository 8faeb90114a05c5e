"""Convolution along three axes, such as the frames of a film: a sum over the boxes of a window.

Source [images, depth, height, width, channels], weights [depth, height, width, channels of a group,
filters]. The planes of a window lie side by side as further channels of a `conv2d`.
"""

from __future__ import annotations

from collections.abc import Sequence

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.convolutions import (
    ConvAttributes,
    check_dims,
    check_kinds,
    check_operands,
    convolve,
    counted_elements,
    windows_exact,
)
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import Operand, Row, plain

SPATIAL = 3


def _result_dims(shapes: Sequence[Shape], attributes: ConvAttributes) -> tuple[int, ...]:
    source, weights = shapes
    check_operands("conv3d", source, weights, attributes.groups, (SPATIAL + 2,))
    where = attributes.along(SPATIAL)
    made = where.made(source.dims[1:-1], weights.dims[:-2])
    return (source.dims[0], *made, weights.dims[-1])


def _check(shapes: Sequence[Shape], out: Shape, attributes: ConvAttributes) -> None:
    source, weights = shapes
    dims = _result_dims(shapes, attributes)
    check_dims(dims, out, f"{plain(source)} with weights {plain(weights)}")
    check_kinds(*shapes, out)


def _default_out(shapes: Sequence[Shape], attributes: ConvAttributes) -> Shape:
    return Shape(shapes[0].element_type, _result_dims(shapes, attributes))


def _needs(shapes: Sequence[Shape], out: Shape, attributes: ConvAttributes) -> Sequence[int]:
    source, weights = shapes
    return counted_elements(source, weights, out.dims[1:-1], attributes.along(SPATIAL))[:2]


def conv3d_parts(
    shapes: Sequence[Shape], out: Shape, attributes: ConvAttributes
) -> list[CompositePart]:
    """Return the operations of a convolution along three axes."""
    where = attributes.along(SPATIAL)
    recipe = Recipe(shapes)
    convolve(recipe, ("0", "1"), where, attributes.groups, out.element_type)
    return recipe.done(out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: ConvAttributes) -> Array:
    where = attributes.along(SPATIAL)
    source, weights = arrays
    return windows_exact(source, weights, where, attributes.groups)


CONV3D = Row(
    operands=(
        Operand(
            "source", "XLA shape [images, depth, height, width, channels] of a conv3d's source"
        ),
        Operand(
            "weights", "XLA shape [depth, height, width, channels, filters] of a conv3d's weights"
        ),
    ),
    attributes=ConvAttributes,
    check=_check,
    default_out=_default_out,
    reference=reference_of(conv3d_parts),
    exact=_exact,
    needs=_needs,
    computes=True,
    parts=conv3d_parts,
)
