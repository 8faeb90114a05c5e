"""Top-k: the k largest elements along an axis, the largest first, or where they are.

Of equal elements the first comes first, and a NaN before all numbers, or behind them. A composite.
A few are found one after another, each among those that are left. Many are put in order at once:
an element's rank is how many others come before it. Both give the same elements. Where an engine
searches rows, it finds up to eight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.argmax import (
    found_places,
    hits,
    largest,
    searchable,
    upwards,
)
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.reduce import ReductionName
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    RowWork,
    check_gives,
    counted,
    is_integer,
    plain,
)
from systolic.workload.operations.take import check_along
from systolic.workload.operations.whole_rows import EIGHT

FEW = 16
"""So many are found one after another, unless to rank all takes fewer elements."""


@dataclass(frozen=True, slots=True)
class TopKAttributes(Attributes):
    """How many elements along which axis, from which end, and whether they or their places."""

    k: Annotated[int, Field(description="how many elements")]
    axis: Annotated[
        int | None, Field(description="axis along which they are found (default: the last)")
    ] = None
    largest: Annotated[bool, Field(description="the largest, or else the smallest")] = True
    gives: Annotated[
        Literal["values", "indices"], Field(description="the elements, or their places along axis")
    ] = "values"
    nan_last: Annotated[
        bool, Field(description="a NaN comes behind all numbers (default: before them)")
    ] = False

    def of(self, rank: int) -> int:
        """Return the axis of a tensor of that rank."""
        return rank - 1 if self.axis is None else self.axis


def _result_dims(source: Shape, attributes: TopKAttributes) -> tuple[int, ...]:
    axis = attributes.of(source.rank)
    check_along(source, axis)
    if not 1 <= attributes.k <= source.dims[axis]:
        raise WorkloadError(
            f"k: needs 1 to {source.dims[axis]}, the size of axis {axis} of {plain(source)}, found "
            f"{attributes.k}"
        )
    return (*source.dims[:axis], attributes.k, *source.dims[axis + 1 :])


def _result_type(source: Shape, attributes: TopKAttributes) -> str:
    return "s32" if attributes.gives == "indices" else source.element_type


def _check(shapes: Sequence[Shape], out: Shape, attributes: TopKAttributes) -> None:
    (source,) = shapes
    dims = _result_dims(source, attributes)
    check_gives(source, _result_type(source, attributes), dims, out)


def _default_out(shapes: Sequence[Shape], attributes: TopKAttributes) -> Shape:
    return Shape(_result_type(shapes[0], attributes), _result_dims(shapes[0], attributes))


def top_k_parts(
    shapes: Sequence[Shape], out: Shape, attributes: TopKAttributes
) -> list[CompositePart]:
    """Return the operations of a top-k."""
    recipe, source = Recipe(shapes), shapes[0]
    axis, k = attributes.of(source.rank), attributes.k
    count, order = source.dims[axis], [n for n in range(source.rank) if n != axis] + [axis]
    now = recipe.cast("0", "s32") if is_integer(source) else "0"
    now = recipe.transpose(now, order)  # so that no tensor with infinities of its own is turned
    one_by_one = k <= FEW and 9 * k <= 7 * count + 3 * k and not attributes.nan_last
    found = (_one_by_one if one_by_one else _ranked)(recipe, now, attributes)
    found = recipe.cast(found, out.element_type)
    recipe.transpose(found, [order.index(n) for n in range(source.rank)])
    return recipe.done(out)


def _row_parts(
    shapes: Sequence[Shape], out: Shape, attributes: TopKAttributes, rows: RowWork
) -> list[CompositePart] | None:
    """Return the operations where an engine searches rows."""
    (source,), axis = shapes, attributes.of(shapes[0].rank)
    if attributes.k > EIGHT or attributes.nan_last or not searchable(source, axis, rows):
        return None
    recipe = Recipe(shapes)
    extreme: ReductionName = "max" if attributes.largest else "min"
    now = upwards(recipe, "0", extreme)
    best = largest(recipe, now, axis)
    if attributes.gives == "indices":
        best = found_places(recipe, now, best, axis)
    best = recipe.slice(best, axis, 0, attributes.k)
    if attributes.gives == "values" and now != "0":
        best = upwards(recipe, best, extreme)  # back again
    if recipe.parts[-1].name != best or recipe.shape(best).element_type != out.element_type:
        recipe.add("cast", (best,), out)
    return recipe.done(out)


def _least(shape: Shape, *, largest: bool) -> float:
    """Return the value of what is found already: no other comes behind it."""
    if is_integer(shape):
        limits = np.iinfo(np.int32)
        return float(limits.min if largest else limits.max)
    return float(-np.inf if largest else np.inf)


def _one_by_one(recipe: Recipe, now: str, attributes: TopKAttributes) -> str:
    """Return the elements, or their places, found one after another along the last axis."""
    shape, axis = recipe.shape(now), recipe.shape(now).rank - 1
    count, others = shape.dims[axis], tuple(range(axis))
    extreme: ReductionName = "max" if attributes.largest else "min"
    numbers, left, found = recipe.numbers(count, count, -1), "", list[str]()
    single = [*shape.dims[:axis], 1]
    behind = ""
    for turn in range(attributes.k):
        best, hit = hits(recipe, now, extreme, axis)
        if left:
            hit = recipe.combined("multiply", hit, left, "s32")
        if attributes.gives == "indices" or turn < attributes.k - 1:
            scored = recipe.combined("multiply", hit, numbers, "s32", (axis,))
            number = recipe.reduce("max", scored, axis)  # count - place
        if attributes.gives == "values":
            found.append(recipe.reshape(best, single))
        else:
            place = recipe.scalar("subtract", number, count, reverse=True)
            found.append(recipe.reshape(place, single))
        if turn < attributes.k - 1:
            other = recipe.combined("not_equal", scored, number, "s32", others)
            left = recipe.combined("multiply", other, left, "s32") if left else other
            least = _least(shape, largest=attributes.largest)
            behind = behind or recipe.constant(least, shape.element_type)
            now = recipe.select(left, now, behind)
    return recipe.concat(found, axis)


def _ranked(recipe: Recipe, now: str, attributes: TopKAttributes) -> str:
    """Return the elements, or their places, by the ranks of all along the last axis."""
    shape, last = recipe.shape(now), recipe.shape(now).rank - 1
    count, k, batch = shape.dims[last], attributes.k, shape.dims[:last]
    numbers = recipe.numbers(count)
    rank = recipe.reduce("sum", _ahead(recipe, now, numbers, attributes), last + 1)
    ranks = recipe.reshape(rank, [*batch, 1, count])
    turns = recipe.reshape(recipe.numbers(k), [*([1] * len(batch)), k, 1])
    found = recipe.combined("equal", ranks, turns, "s32")
    if attributes.gives == "indices":
        placed = recipe.combined("multiply", found, numbers, "s32", (last + 1,))
        return recipe.reduce("sum", placed, last + 1)
    least = recipe.constant(_least(shape, largest=attributes.largest), shape.element_type)
    wide = recipe.reshape(now, [*batch, 1, count])
    made = Shape(shape.element_type, (*batch, k, count))
    taken = recipe.add("select", (found, wide, least), made)
    return recipe.reduce("max" if attributes.largest else "min", taken, last + 1)


def _ahead(recipe: Recipe, now: str, numbers: str, attributes: TopKAttributes) -> str:
    """Return s32 1 where another element, the last axis, comes before one, the axis before it."""
    shape, last = recipe.shape(now), recipe.shape(now).rank - 1
    count, batch = shape.dims[last], shape.dims[:last]
    ends = ((count, 1), (1, count))
    here, there = (recipe.reshape(now, [*batch, *end]) for end in ends)
    before = recipe.combined("greater" if attributes.largest else "less", there, here, "s32")
    alike = recipe.combined("equal", there, here, "s32")
    if not is_integer(shape):
        nan = recipe.combined("not_equal", now, now, "s32")
        one, other = (recipe.reshape(nan, [*batch, *end]) for end in ends)
        pair = (one, other) if attributes.nan_last else (other, one)
        more = recipe.combined("greater", *pair, "s32")
        before = recipe.combined("max", before, more, "s32")
        both = recipe.combined("multiply", other, one, "s32")
        alike = recipe.combined("max", alike, both, "s32")
    down, across = (recipe.reshape(numbers, end) for end in ends)
    earlier = recipe.combined("less", across, down, "s32")
    first = recipe.combined("multiply", alike, earlier, "s32", (last, last + 1))
    return recipe.combined("add", before, first, "s32")


def _exact(arrays: Sequence[Array], out: Shape, attributes: TopKAttributes) -> Array:
    array = counted(arrays[0])
    axis = attributes.of(array.ndim)
    wide = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
    by = wide if attributes.largest else -wide
    if wide.dtype.kind == "f":
        by = np.where(np.isnan(wide), np.inf, by)
        front = np.isnan(wide) == attributes.nan_last
        order = np.lexsort((-by, front), axis=axis)
    else:
        order = np.argsort(-by, axis=axis, kind="stable")
    first = np.take(order, np.arange(attributes.k), axis=axis)
    return first if attributes.gives == "indices" else np.take_along_axis(wide, first, axis)


TOP_K = Row(
    operands=ONE_SHAPE,
    attributes=TopKAttributes,
    check=_check,
    default_out=_default_out,
    reference=reference_of(top_k_parts, _row_parts),
    exact=_exact,
    computes=True,
    parts=top_k_parts,
    row_parts=_row_parts,
)
