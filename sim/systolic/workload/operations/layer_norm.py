"""Layer norm: (x - mean) / sqrt(variance + epsilon) * factors + terms, along the last axis.

Every step is float32 and rounded once; the last result is cast.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.norms import (
    FACTORS,
    SOURCE,
    TERMS,
    NormAttributes,
    check_norm,
    evened,
    row_factor,
)
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import Row, first_shape


def layer_norm_parts(
    shapes: Sequence[Shape], out: Shape, attributes: NormAttributes
) -> list[CompositePart]:
    """Return the operations of a layer norm."""
    recipe, last = Recipe(shapes), shapes[0].rank - 1
    others = tuple(range(last))
    x, scale, bias = (recipe.single(str(number)) for number in range(3))
    centred = recipe.binary("subtract", x, recipe.reduce("mean", x, last), others)
    factor = row_factor(recipe, centred, last, attributes)
    scaled = recipe.binary(
        "multiply", recipe.binary("multiply", centred, factor, others), scale, (last,)
    )
    recipe.binary("add", scaled, bias, (last,), out)
    return recipe.parts


def _exact(arrays: Sequence[Array], out: Shape, attributes: NormAttributes) -> Array:
    x, scale, bias = (array.astype(np.float64) for array in arrays)
    return evened(x - x.mean(axis=-1, keepdims=True), attributes) * scale + bias


LAYER_NORM = Row(
    operands=(SOURCE, FACTORS, TERMS),
    attributes=NormAttributes,
    check=check_norm,
    default_out=first_shape,
    reference=reference_of(layer_norm_parts),
    exact=_exact,
    computes=True,
    parts=layer_norm_parts,
)
