"""Gradient of a convolution by its source: every result's gradient, spread over its window.

Operands are the gradient [images, pixels..., filters] and the weights [pixels..., channels of a
group, filters] of the convolution, whose keys these are; `out` is the shape of its source. It is
the transposed convolution by weights whose channels and filters change places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.conv_transpose import RANKS, spread_back, spread_exact
from systolic.workload.operations.convolutions import (
    ConvAttributes,
    check_dims,
    check_kinds,
    convolved_dims,
    counted_elements,
)
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import Operand, Row, plain


def _check(shapes: Sequence[Shape], out: Shape, attributes: ConvAttributes) -> None:
    gradient, weights = shapes
    dims = convolved_dims("conv_input_gradient", out, weights, attributes, RANKS)
    check_dims(dims, gradient, f"the result of {plain(out)} with weights {plain(weights)}")
    check_kinds(*shapes, out)


def _needs(shapes: Sequence[Shape], out: Shape, attributes: ConvAttributes) -> list[int]:
    gradient, weights = shapes
    where = attributes.along(out.rank - 2)
    _, taps, results = counted_elements(out, weights, gradient.dims[1:-1], where)
    return [results, taps]


def conv_input_gradient_parts(
    shapes: Sequence[Shape], out: Shape, attributes: ConvAttributes
) -> list[CompositePart]:
    """Return the operations of the gradient of a convolution by its source."""
    count, groups, recipe = out.rank - 2, attributes.groups, Recipe(shapes)
    *kernel, inside, filters = shapes[1].dims
    by_group = recipe.reshape("1", (*kernel, inside, groups, filters // groups))
    order = (*range(count), count + 2, count + 1, count)
    turned = recipe.transpose(by_group, order)
    weights = recipe.reshape(turned, (*kernel, filters // groups, groups * inside))
    where = attributes.along(count)
    spread_back(recipe, ("0", weights), where, groups, out)
    return recipe.done(out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: ConvAttributes) -> Array:
    gradient, weights = arrays
    *kernel, inside, filters = weights.shape
    by_group = weights.reshape(*kernel, inside, attributes.groups, filters // attributes.groups)
    turned = np.swapaxes(by_group, -1, -3).reshape(*kernel, filters // attributes.groups, -1)
    where = attributes.along(out.rank - 2)
    return spread_exact(gradient, turned, where, attributes.groups, out.dims[1:-1])


CONV_INPUT_GRADIENT = Row(
    operands=(
        Operand("gradient", "XLA shape of the gradient of a convolution's result"),
        Operand("weights", "XLA shape of the weights of the convolution of a gradient"),
    ),
    attributes=ConvAttributes,
    check=_check,
    reference=reference_of(conv_input_gradient_parts),
    exact=_exact,
    needs=_needs,
    computes=True,
    parts=conv_input_gradient_parts,
)
