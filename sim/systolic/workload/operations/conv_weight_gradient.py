"""Gradient of a convolution by its weights: for each tap a product of source and gradient.

Operands are the source [images, pixels..., channels] of the convolution and the gradient [images,
pixels..., filters] of its result; the keys are the convolution's, `out` is the shape of its
weights. The pixels that a tap takes of all windows are what each product is summed over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.conv_transpose import RANKS
from systolic.workload.operations.convolutions import (
    ConvAttributes,
    check_dims,
    check_kinds,
    convolved_dims,
    counted_elements,
    seen,
)
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import Operand, Row, plain


def _check(shapes: Sequence[Shape], out: Shape, attributes: ConvAttributes) -> None:
    source, gradient = shapes
    dims = convolved_dims("conv_weight_gradient", source, out, attributes, RANKS)
    check_dims(dims, gradient, f"the result of {plain(source)} with weights {plain(out)}")
    check_kinds(*shapes, out)


def _needs(shapes: Sequence[Shape], out: Shape, attributes: ConvAttributes) -> list[int]:
    source, gradient = shapes
    where = attributes.along(out.rank - 2)
    pixels, _, results = counted_elements(source, out, gradient.dims[1:-1], where)
    return [pixels, results]


def conv_weight_gradient_parts(
    shapes: Sequence[Shape], out: Shape, attributes: ConvAttributes
) -> list[CompositePart]:
    """Return the operations of the gradient of a convolution by its weights."""
    recipe, groups, count = Recipe(shapes), attributes.groups, out.rank - 2
    where = attributes.along(count)
    *kernel, inside, filters = out.dims
    images, *made, _ = shapes[1].dims
    windows, none = images * math.prod(made), (0, 0)
    padded = recipe.pad("0", [none, *where.padding, none])
    by_group = recipe.reshape("1", (windows, groups, filters // groups))
    gradient = recipe.transpose(by_group, (1, 0, 2))
    taps = []
    for tap in product(*map(range, kernel)):
        _, *pixels = seen(tap, made, where)
        x = recipe.box(
            padded,
            [0, *(each.start for each in pixels), 0],
            [images, *(each.stop for each in pixels), shapes[0].dims[-1]],
            [1, *(each.step for each in pixels), 1],
        )
        rows = recipe.reshape(x, (windows, groups, inside))
        turned = recipe.transpose(rows, (1, 2, 0))
        dims = (groups, inside, filters // groups)
        one = recipe.add("matmul", (turned, gradient), Shape(out.element_type, dims))
        beside = recipe.transpose(one, (1, 0, 2))
        taps.append(recipe.reshape(beside, (1, inside, filters)))
    recipe.reshape(recipe.concat(taps, 0), out.dims)
    return recipe.done(out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: ConvAttributes) -> Array:
    source, gradient = arrays
    wide, groups = np.int64 if source.dtype.kind in "iu" else np.float64, attributes.groups
    where = attributes.along(out.rank - 2)
    padded = np.pad(source.astype(wide), [(0, 0), *where.padding, (0, 0)])
    g = gradient.astype(wide).reshape(*gradient.shape[:-1], groups, -1)
    found = np.empty(out.dims, wide)
    with np.errstate(all="ignore"):
        g = g.reshape(-1, groups, g.shape[-1])
        for tap in product(*map(range, out.dims[:-2])):
            x = padded[seen(tap, gradient.shape[1:-1], where)]
            x = x.reshape(-1, groups, x.shape[-1] // groups)
            found[tap] = np.einsum("mgc,mgf->cgf", x, g).reshape(out.dims[-2:])
    return found


CONV_WEIGHT_GRADIENT = Row(
    operands=(
        Operand("source", "XLA shape of the source of the convolution of a gradient"),
        Operand("gradient", "XLA shape of the gradient of a convolution's result"),
    ),
    attributes=ConvAttributes,
    check=_check,
    reference=reference_of(conv_weight_gradient_parts),
    exact=_exact,
    needs=_needs,
    computes=True,
    parts=conv_weight_gradient_parts,
)
