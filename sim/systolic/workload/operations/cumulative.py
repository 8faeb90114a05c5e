"""Cumulative sums, products and extremes along an axis: each element with all before it.

A composite. Where an engine scans rows, elements are combined one after another. Elsewhere it is a
tensor and itself, moved by 1, 2, 4, ... places, so that after log2(n) steps each element has all
before it. Floats are combined in float32, integers in int32, in the order of these steps. An
element before the first is -0.0 or 1, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.binary import OperatorName
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    RowWork,
    check_gives,
    counted,
    first_shape,
    is_integer,
    plain,
)
from systolic.workload.operations.take import check_along
from systolic.workload.operations.whole_rows import DIRECT, FoldName, ScanAttributes


@dataclass(frozen=True, slots=True)
class CumulativeAttributes(Attributes):
    """What is done with the elements before each, along which axis, and from which end."""

    axis: Annotated[
        int | None, Field(description="axis that is gone along (default: the last)")
    ] = None
    fold: Annotated[
        FoldName, Field(description="sum, product, max or min of all up to each element")
    ] = "sum"
    exclusive: Annotated[
        bool, Field(description="of all before each element, without itself (default: false)")
    ] = False
    from_end: Annotated[
        bool, Field(description="from the last element to the first (default: false)")
    ] = False

    def of(self, rank: int) -> int:
        """Return the axis of a tensor of that rank."""
        return rank - 1 if self.axis is None else self.axis


def _check(shapes: Sequence[Shape], out: Shape, attributes: CumulativeAttributes) -> None:
    (source,) = shapes
    check_along(source, attributes.of(source.rank))
    check_gives(source, out.element_type, source.dims, out)
    if is_integer(source) != is_integer(out):
        kind = "integers" if is_integer(source) else "floats"
        raise WorkloadError(
            f"{attributes.fold} of {plain(source)} gives {kind}, but out is {plain(out)}"
        )
    if attributes.exclusive and attributes.fold in ("max", "min"):
        raise WorkloadError(
            f"exclusive: nothing comes before the first element, and nothing has no "
            f"{attributes.fold}; only a sum or a product is exclusive"
        )


_OPERATORS: dict[FoldName, OperatorName] = {
    "sum": "add", "product": "multiply", "max": "max", "min": "min"
}  # fmt: skip


def cumulative_parts(
    shapes: Sequence[Shape], out: Shape, attributes: CumulativeAttributes
) -> list[CompositePart]:
    """Return the operations of a cumulative sum, product or extreme."""
    (source,), recipe = shapes, Recipe(shapes)
    axis, wide = attributes.of(source.rank), "s32" if is_integer(source) else "f32"
    count, now = source.dims[axis], recipe.cast("0", wide)
    distances = [1 << n for n in range((count - 1).bit_length())]
    if attributes.exclusive:
        now = _moved(recipe, now, attributes, 1)
    if not distances:
        recipe.add("cast", (now,), out)
    for distance in distances:
        before = _moved(recipe, now, attributes, distance)
        now = recipe.combined(_OPERATORS[attributes.fold], before, now, wide)
    return recipe.done(out)


def _row_parts(
    shapes: Sequence[Shape], out: Shape, attributes: CumulativeAttributes, rows: RowWork
) -> list[CompositePart] | None:
    """Return the operations where an engine scans a row that holds all of the axis."""
    (source,), axis = shapes, attributes.of(shapes[0].rank)
    if not (rows.scans and rows.holds(source, axis)):
        return None
    recipe, now = Recipe(shapes), "0"
    if source.element_type not in DIRECT:
        now = recipe.cast("0", "s32" if is_integer(source) else "f32")
    if attributes.exclusive:
        now = _moved(recipe, now, attributes, 1)
    given = ScanAttributes(axis, attributes.fold, attributes.from_end)
    recipe.add("scan", (now,), recipe.shape(now), given)
    return recipe.done(out)


def _moved(recipe: Recipe, now: str, attributes: CumulativeAttributes, distance: int) -> str:
    """Return for each element the one `distance` places before it.

    An element that has none gets what changes nothing; of a max or a min the end itself, which it
    has already.
    """
    shape = recipe.shape(now)
    axis = attributes.of(shape.rank)
    step = -distance if attributes.from_end else distance
    if attributes.fold in ("max", "min"):
        count = shape.dims[axis]
        return recipe.take(now, axis, np.clip(np.arange(count) - step, 0, count - 1).tolist())
    neutral = 1.0 if attributes.fold == "product" else -0.0
    sides = [(step, -step) if n == axis else (0, 0) for n in range(shape.rank)]
    return recipe.pad(now, sides, neutral)


_EXACT: dict[FoldName, Callable[..., Array]] = {
    "sum": np.cumsum,
    "product": np.cumprod,
    "max": np.maximum.accumulate,
    "min": np.minimum.accumulate,
}


def _exact(arrays: Sequence[Array], out: Shape, attributes: CumulativeAttributes) -> Array:
    array = counted(arrays[0])
    axis = attributes.of(array.ndim)
    wide = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
    wide = np.moveaxis(wide, axis, -1)
    wide = wide[..., ::-1] if attributes.from_end else wide
    with np.errstate(all="ignore"):
        found = np.asarray(_EXACT[attributes.fold](wide, axis=-1))
    if attributes.exclusive:
        first = np.full_like(found[..., :1], attributes.fold == "product")
        found = np.concatenate([first, found[..., :-1]], axis=-1)
    found = found[..., ::-1] if attributes.from_end else found
    return np.moveaxis(found, -1, axis)


CUMULATIVE = Row(
    operands=ONE_SHAPE,
    attributes=CumulativeAttributes,
    check=_check,
    default_out=first_shape,
    reference=reference_of(cumulative_parts, _row_parts),
    exact=_exact,
    computes=True,
    parts=cumulative_parts,
    row_parts=_row_parts,
)
