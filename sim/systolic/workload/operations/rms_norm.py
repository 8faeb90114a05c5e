"""RMS norm: x / sqrt(mean square + epsilon) * factors, along the last axis.

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
    NormAttributes,
    check_norm,
    evened,
    row_factor,
)
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import Row, first_shape


def rms_norm_parts(
    shapes: Sequence[Shape], out: Shape, attributes: NormAttributes
) -> list[CompositePart]:
    """Return the operations of an RMS norm."""
    recipe, last = Recipe(shapes), shapes[0].rank - 1
    x, scale = (recipe.single(str(number)) for number in range(2))
    factor = row_factor(recipe, x, last, attributes)
    even = recipe.binary("multiply", x, factor, tuple(range(last)))
    recipe.binary("multiply", even, scale, (last,), out)
    return recipe.parts


def _exact(arrays: Sequence[Array], out: Shape, attributes: NormAttributes) -> Array:
    x, scale = (array.astype(np.float64) for array in arrays)
    return evened(x, attributes) * scale


RMS_NORM = Row(
    operands=(SOURCE, FACTORS),
    attributes=NormAttributes,
    check=check_norm,
    default_out=first_shape,
    reference=reference_of(rms_norm_parts),
    exact=_exact,
    computes=True,
    parts=rms_norm_parts,
)
