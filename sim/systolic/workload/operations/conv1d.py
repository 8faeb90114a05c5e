"""Convolution along one axis: a sum over the elements of a window, and over channels.

Source [images, length, channels], weights [length, channels of a group, filters]. It is the
`conv2d` of images of one row.
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
    convolve,
    convolved_dims,
    counted_elements,
    windows_exact,
)
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import Operand, Row, of_first_type, plain


def conv_row(kind: str, axes: str) -> Row[ConvAttributes]:
    """Return the row of an operation that is a convolution along these axes ("height, width")."""
    count = len(axes.split(", "))

    def dims(shapes: Sequence[Shape], attributes: ConvAttributes) -> tuple[int, ...]:
        source, weights = shapes
        return convolved_dims(kind, source, weights, attributes, (count + 2,))

    def check(shapes: Sequence[Shape], out: Shape, attributes: ConvAttributes) -> None:
        source, weights = shapes
        found = dims(shapes, attributes)
        check_dims(found, out, f"{plain(source)} with weights {plain(weights)}")
        check_kinds(*shapes, out)

    return Row(
        operands=(
            Operand("source", f"XLA shape [images, {axes}, channels] of a {kind}'s source"),
            Operand("weights", f"XLA shape [{axes}, channels, filters] of a {kind}'s weights"),
        ),
        attributes=ConvAttributes,
        check=check,
        default_out=of_first_type(dims),
        reference=reference_of(_parts),
        exact=_exact,
        needs=_needs,
        computes=True,
        parts=_parts,
    )


def _needs(shapes: Sequence[Shape], out: Shape, attributes: ConvAttributes) -> Sequence[int]:
    source, weights = shapes
    where = attributes.along(out.rank - 2)
    return counted_elements(source, weights, out.dims[1:-1], where)[:2]


def _parts(shapes: Sequence[Shape], out: Shape, attributes: ConvAttributes) -> list[CompositePart]:
    recipe, where = Recipe(shapes), attributes.along(out.rank - 2)
    convolve(recipe, ("0", "1"), where, attributes.groups, out.element_type)
    return recipe.done(out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: ConvAttributes) -> Array:
    source, weights = arrays
    return windows_exact(source, weights, attributes.along(out.rank - 2), attributes.groups)


CONV1D = conv_row("conv1d", "length")
