"""Leaky relu: x where it is above 0, else x times a slope, any finite number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.workload.operations.parametric import function_row, halves
from systolic.workload.operations.recipe import Recipe
from systolic.workload.operations.row import Attributes

OF_ENGINES = 0.01
"""The slope of the engines' own function."""


@dataclass(frozen=True, slots=True)
class LeakyReluAttributes(Attributes):
    """The slope left of zero."""

    slope: Annotated[float, Field(description="factor of what is below 0 (default: 0.01)")] = (
        OF_ENGINES
    )


def _make(recipe: Recipe, given: LeakyReluAttributes) -> None:
    if given.slope in (0.0, OF_ENGINES):
        recipe.activation("ramp" if given.slope == 0 else "leaky_relu", recipe.single("0"))
        return
    above, below = halves(recipe)
    recipe.binary("add", above, recipe.scalar("multiply", below, -given.slope), ())


LEAKY_RELU = function_row(
    LeakyReluAttributes,
    _make,
    lambda x, given: np.where(x > 0, x, 0.0 if given.slope == 0 else given.slope * x),
    lambda given: {"slope": given.slope},
)
