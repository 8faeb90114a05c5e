"""What the norms along the last axis have in common: keys, checks, and the factor of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.recipe import Recipe
from systolic.workload.operations.row import Attributes, Operand, check_gives, plain
from systolic.workload.operations.softmax import check_floats


@dataclass(frozen=True, slots=True)
class NormAttributes(Attributes):
    """What is added to the variance, so that nothing is divided by 0."""

    epsilon: Annotated[
        float, Field(description="added to the variance, or to the mean square", gt=0)
    ] = 1e-5


def check_norm(shapes: Sequence[Shape], out: Shape, attributes: NormAttributes) -> None:
    """Raise WorkloadError unless all are floats, with a number for each of the last axis."""
    source, *numbers = shapes
    if source.rank == 0:
        raise WorkloadError(f"needs at least one axis, found {plain(source)}")
    check_floats(*shapes, out)
    for name, shape in zip((FACTORS.name, TERMS.name), numbers, strict=False):
        if shape.dims != source.dims[-1:]:
            raise WorkloadError(
                f"{name}: needs a number for each of {source.dims[-1]} elements of the last axis "
                f"of {plain(source)}, found {plain(shape)}"
            )
    check_gives(source, out.element_type, source.dims, out)


def row_factor(recipe: Recipe, source: str, last: int, attributes: NormAttributes) -> str:
    """Return 1 / sqrt(mean square + epsilon) of each row."""
    mean = recipe.reduce("mean", recipe.activation("square", source), last)
    return recipe.activation("rsqrt", mean, bias=attributes.epsilon)


def evened(array: Array, attributes: NormAttributes) -> Array:
    """Return x / sqrt(mean square + epsilon) in float64."""
    mean = np.square(array).mean(axis=-1, keepdims=True)
    return np.asarray(array / np.sqrt(mean + attributes.epsilon))


SOURCE = Operand("source", "XLA shape of what a norm makes even")
FACTORS = Operand("factors", "XLA shape of a norm's factors, one for each element of the last axis")
TERMS = Operand("terms", "XLA shape of a norm's terms, one for each element of the last axis")
