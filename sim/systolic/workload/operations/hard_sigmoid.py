"""Hard sigmoid: x * alpha + beta, at least 0 and at most 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.workload.operations.elu import EluAttributes
from systolic.workload.operations.parametric import function_row
from systolic.workload.operations.recipe import Recipe


@dataclass(frozen=True, slots=True)
class HardSigmoidAttributes(EluAttributes):
    """The slope, and the value at zero."""

    alpha: Annotated[float, Field(description="its slope (default: 1/6)")] = 1 / 6
    beta: Annotated[float, Field(description="its value at 0 (default: 0.5)")] = 0.5


def _make(recipe: Recipe, given: HardSigmoidAttributes) -> None:
    x = recipe.single("0")
    if (given.alpha, given.beta) == (1 / 6, 0.5):
        recipe.activation("hard_sigmoid", x)
        return
    line = recipe.activation("identity", x, scale=given.alpha, bias=given.beta)
    recipe.scalar("min", recipe.scalar("max", line, 0.0), 1.0)


HARD_SIGMOID = function_row(
    HardSigmoidAttributes,
    _make,
    lambda x, given: np.clip(x * given.alpha + given.beta, 0, 1),
    lambda given: {"alpha": given.alpha, "beta": given.beta},
)
