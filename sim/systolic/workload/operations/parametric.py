"""Functions with a number of their own: what their rows have in common.

Each is made of functions and operators of the engines, in float32 with one rounding at each step.
What is right of zero and what is left of it are made apart and added, so that one of them is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import ONE_SHAPE, Attributes, Row, check_gives, first_shape
from systolic.workload.operations.softmax import check_floats

A = TypeVar("A", bound=Attributes)


def function_row(
    attributes: type[A],
    make: Callable[[Recipe, A], object],
    exact: Callable[[Array, A], Array],
    numbers: Callable[[A], dict[str, float]],
) -> Row[A]:
    """Return the row of a function of one tensor of floats.

    make: adds the parts; the last one gives the result. exact: the function in float64.
    numbers: the settings that must be finite, by key.
    """

    def check(shapes: Sequence[Shape], out: Shape, given: A) -> None:
        check_floats(*shapes, out)
        check_gives(shapes[0], out.element_type, shapes[0].dims, out)
        for key, number in numbers(given).items():
            if not math.isfinite(number):
                raise WorkloadError(f"{key}: needs a finite number, found {number}")

    def parts(shapes: Sequence[Shape], out: Shape, given: A) -> list[CompositePart]:
        recipe = Recipe(shapes)
        make(recipe, given)
        return recipe.done(out)

    def wide(arrays: Sequence[Array], out: Shape, given: A) -> Array:
        with np.errstate(all="ignore"):
            return exact(arrays[0].astype(np.float64), given)

    return Row(
        operands=ONE_SHAPE,
        attributes=attributes,
        check=check,
        default_out=first_shape,
        reference=reference_of(parts),
        exact=wide,
        computes=True,
        parts=parts,
    )


def halves(recipe: Recipe) -> tuple[str, str]:
    """Add the parts max(x, 0) and max(-x, 0) of the first operand; return their names."""
    x = recipe.single("0")
    return recipe.activation("ramp", x), recipe.activation("ramp", x, scale=-1.0)
