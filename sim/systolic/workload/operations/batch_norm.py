"""Batch norm for inference: (x - mean) / sqrt(variance + epsilon) * factors + terms by channel.

Factors and terms of each channel become one factor and one term, in float32; the product and the
sum are rounded once each, and the result is cast. Behind a product or convolution with f32 sums
one instruction does both as the sums leave the array.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systolic.arrays import Array
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
from systolic.workload.operations.row import Operand, Row, first_shape

MEANS = Operand("means", "XLA shape of a batch norm's means, one for each channel")
VARIANCES = Operand("variances", "XLA shape of a batch norm's variances, one for each channel")
OPERANDS = (SOURCE, FACTORS, TERMS, MEANS, VARIANCES)


def _check(shapes: Sequence[Shape], out: Shape, attributes: ChannelNormAttributes) -> None:
    check_channels(shapes, out, attributes, [operand.name for operand in OPERANDS[1:]])


def batch_norm_parts(
    shapes: Sequence[Shape], out: Shape, attributes: ChannelNormAttributes
) -> list[CompositePart]:
    """Return the operations of a batch norm."""
    recipe, axis = Recipe(shapes), attributes.of(shapes[0].rank)
    x, factors, terms, means, variances = (recipe.single(str(number)) for number in range(5))
    spread = recipe.activation("rsqrt", variances, bias=attributes.epsilon)
    factor = recipe.binary("multiply", factors, spread, ())
    term = recipe.binary("subtract", terms, recipe.binary("multiply", means, factor, ()), ())
    recipe.binary("add", recipe.binary("multiply", x, factor, (axis,)), term, (axis,))
    return recipe.done(out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: ChannelNormAttributes) -> Array:
    x, *numbers = (array.astype(np.float64) for array in arrays)
    axis = attributes.of(x.ndim)
    factors, terms, means, variances = (along(each, x.ndim, axis) for each in numbers)
    with np.errstate(all="ignore"):
        return (x - means) / np.sqrt(variances + attributes.epsilon) * factors + terms


BATCH_NORM = Row(
    operands=OPERANDS,
    attributes=ChannelNormAttributes,
    check=_check,
    default_out=first_shape,
    reference=reference_of(batch_norm_parts),
    exact=_exact,
    computes=True,
    parts=batch_norm_parts,
)
