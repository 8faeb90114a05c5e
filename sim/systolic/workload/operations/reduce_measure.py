"""Sums of what is made of the elements: squares, sizes, powers; and roots and logarithms of sums.

Composites: the function, the `reduce`, and the function of the sum, each in float32 and rounded
once. Of a log_sum_exp the largest element is subtracted first, unless it is infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.operations.activation import FunctionName
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.reduce import (
    ReducedAxes,
    axes_last,
    given_axes,
    kept_axes,
    reduced_dims,
)
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    check_gives,
    of_first_type,
)
from systolic.workload.operations.softmax import check_floats

MeasureName = Literal["sum_of_squares", "l1", "l2", "log_sum", "log_sum_exp"]
LARGEST = 3.4028234663852886e38


@dataclass(frozen=True, slots=True)
class ReduceMeasureAttributes(Attributes):
    """What is summed up, and over which axes."""

    measure: Annotated[
        MeasureName,
        Field(
            description="sum_of_squares, l1 (of sizes), l2 (its root of squares), log_sum (the "
            "logarithm of the sum), log_sum_exp (of the sum of powers of e)"
        ),
    ]
    axes: Annotated[
        ReducedAxes | None, Field(description="axes that are reduced (default: all)")
    ] = None

    def reduced(self, rank: int) -> tuple[int, ...]:
        """Return the axes of a tensor of that rank, in order."""
        return tuple(sorted(given_axes(self.axes, rank)))


def _result_dims(shapes: Sequence[Shape], attributes: ReduceMeasureAttributes) -> tuple[int, ...]:
    return reduced_dims(shapes[0], attributes.reduced(shapes[0].rank))


def _check(shapes: Sequence[Shape], out: Shape, attributes: ReduceMeasureAttributes) -> None:
    (source,) = shapes
    check_gives(source, out.element_type, _result_dims(shapes, attributes), out)
    check_floats(source, out)


_STEPS: dict[MeasureName, tuple[FunctionName | None, FunctionName | None]] = {
    "sum_of_squares": ("square", None),
    "l1": ("abs", None),
    "l2": ("square", "square_root"),
    "log_sum": (None, "log"),
}
"""The function of each element, and of the sum; None: itself."""


def measure_parts(
    shapes: Sequence[Shape], out: Shape, attributes: ReduceMeasureAttributes
) -> list[CompositePart]:
    """Return the operations of a measure."""
    recipe, axes = Recipe(shapes), attributes.reduced(shapes[0].rank)
    if attributes.measure == "log_sum_exp":
        _log_sum_exp(recipe, shapes[0], axes)
        return recipe.done(out)
    before, after = _STEPS[attributes.measure]
    each = recipe.function(before, "0") if before else recipe.cast("0", "f32")
    total = recipe.reduce("sum", each, *axes)
    if after:
        recipe.function(after, total)
    return recipe.done(out)


def _log_sum_exp(recipe: Recipe, source: Shape, axes: tuple[int, ...]) -> None:
    """Subtract the largest element, but no infinity: infinity - infinity would be NaN."""
    wide, kept = recipe.cast("0", "f32"), kept_axes(source.rank, axes)
    largest = recipe.reduce("max", wide, *axes)
    shift = recipe.scalar("max", recipe.scalar("min", largest, LARGEST), -LARGEST)
    difference = recipe.combined("subtract", wide, shift, "f32", kept)
    powers = recipe.function("exponential", difference)
    total = recipe.reduce("sum", powers, *axes)
    recipe.combined("add", recipe.function("log", total), shift, "f32")


def _shifted(x: Array, axis: int) -> Array:
    largest = np.max(x, axis=axis)
    shift = np.clip(largest, -LARGEST, LARGEST)
    return np.asarray(np.log(np.exp(x - np.expand_dims(shift, axis)).sum(axis=axis)) + shift)


_EXACT: dict[MeasureName, Callable[[Array], Array]] = {
    "sum_of_squares": lambda x: np.square(x).sum(axis=-1),
    "l1": lambda x: np.abs(x).sum(axis=-1),
    "l2": lambda x: np.sqrt(np.square(x).sum(axis=-1)),
    "log_sum": lambda x: np.log(x.sum(axis=-1)),
    "log_sum_exp": lambda x: _shifted(x, -1),
}
if _EXACT.keys() != {*get_args(MeasureName)}:
    raise TypeError("reduce_measure: _EXACT and MeasureName differ")


def _exact(arrays: Sequence[Array], out: Shape, attributes: ReduceMeasureAttributes) -> Array:
    (array,) = arrays
    wide = axes_last(array.astype(np.float64), attributes.reduced(array.ndim))
    with np.errstate(all="ignore"):
        return np.asarray(_EXACT[attributes.measure](wide))


REDUCE_MEASURE = Row(
    operands=ONE_SHAPE,
    attributes=ReduceMeasureAttributes,
    check=_check,
    default_out=of_first_type(_result_dims),
    reference=reference_of(measure_parts),
    exact=_exact,
    computes=True,
    parts=measure_parts,
)
