"""Elu: x where it is above 0, else alpha * (e^x - 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.workload.operations.parametric import function_row, halves
from systolic.workload.operations.recipe import Recipe
from systolic.workload.operations.row import Attributes


@dataclass(frozen=True, slots=True)
class EluAttributes(Attributes):
    """What the function tends to, with its sign turned, far below zero."""

    alpha: Annotated[float, Field(description="factor of the curve (default: 1)")] = 1.0


def _make(recipe: Recipe, given: EluAttributes) -> None:
    if given.alpha == 1:
        recipe.activation("elu", recipe.single("0"))
        return
    above, below = halves(recipe)
    curve = recipe.activation("expm1", below, scale=-1.0)
    recipe.binary("add", above, recipe.scalar("multiply", curve, given.alpha), ())


ELU = function_row(
    EluAttributes,
    _make,
    lambda x, given: np.where(x > 0, x, given.alpha * np.expm1(np.where(x > 0, 0.0, x))),
    lambda given: {"alpha": given.alpha},
)
