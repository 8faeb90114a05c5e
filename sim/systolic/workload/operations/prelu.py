"""Prelu: x where it is above 0, else x times a slope of a second tensor, broadcast by XLA's rules.

Made of max(x, 0) and max(-x, 0) * slope, whose difference is one of them: nothing more is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.binary import BINARY, BinaryAttributes
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.parametric import halves
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import Operand, Row, check_gives, first_shape, plain
from systolic.workload.operations.select import SelectAttributes
from systolic.workload.operations.softmax import check_floats


def _product(attributes: SelectAttributes) -> BinaryAttributes:
    return BinaryAttributes("multiply", attributes.broadcast_dimensions)


def _check(shapes: Sequence[Shape], out: Shape, attributes: SelectAttributes) -> None:
    source, slopes = shapes
    check_floats(*shapes, out)
    check_gives(source, out.element_type, source.dims, out)
    singles = [Shape("f32", shape.dims) for shape in shapes]
    BINARY.check(singles, Shape("f32", source.dims), _product(attributes))
    if slopes.rank > source.rank:
        raise WorkloadError(f"slopes: has more dimensions than {plain(source)}: {plain(slopes)}")


def prelu_parts(
    shapes: Sequence[Shape], out: Shape, attributes: SelectAttributes
) -> list[CompositePart]:
    """Return the operations of a prelu."""
    recipe = Recipe(shapes)
    above, below = halves(recipe)
    slopes = recipe.single("1")
    scaled = recipe.binary("multiply", below, slopes, attributes.matched)
    recipe.binary("subtract", above, scaled, ())
    return recipe.done(out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: SelectAttributes) -> Array:
    x, slopes = (array.astype(np.float64) for array in arrays)
    below = np.minimum(x, 0)
    with np.errstate(all="ignore"):
        return np.maximum(x, 0) + BINARY.exact([below, slopes], out, _product(attributes))


PRELU = Row(
    operands=(
        Operand("source", "XLA shape of what a prelu is of"),
        Operand("slopes", "XLA shape of a prelu's slopes"),
    ),
    attributes=SelectAttributes,
    check=_check,
    default_out=first_shape,
    reference=reference_of(prelu_parts),
    exact=_exact,
    computes=True,
    parts=prelu_parts,
)
