"""Celu: x where it is above 0, else alpha * (e^(x / alpha) - 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from systolic.workload.operations.elu import EluAttributes
from systolic.workload.operations.parametric import function_row, halves
from systolic.workload.operations.recipe import Recipe


@dataclass(frozen=True, slots=True)
class CeluAttributes(EluAttributes):
    """What the function tends to, with its sign turned, far below zero; not 0."""

    @property
    def inverse(self) -> float:
        """Return 1 / alpha; NaN of 0, which is refused."""
        return 1 / self.alpha if self.alpha else float("nan")


def _make(recipe: Recipe, given: CeluAttributes) -> None:
    above, below = halves(recipe)
    curve = recipe.activation("expm1", below, scale=-given.inverse)
    recipe.binary("add", above, recipe.scalar("multiply", curve, given.alpha), ())


CELU = function_row(
    CeluAttributes,
    _make,
    lambda x, given: np.where(
        x > 0, x, given.alpha * np.expm1(np.where(x > 0, 0.0, x) * given.inverse)
    ),
    lambda given: {"alpha": given.alpha, "1 / alpha": given.inverse},
)
