"""Argmax: where along an axis the largest element is, the first of several, or the last.

A composite: the largest element, where it is, and the best number of those places; where an engine
searches rows, what it finds. A NaN counts as the largest, as in numpy and XLA. Nothing but
comparisons and whole numbers: the result is exact.
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
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.reduce import ReductionName, kept_axes
from systolic.workload.operations.row import (
    ONE_SHAPE,
    AnyRow,
    Attributes,
    Row,
    RowWork,
    check_gives,
    counted,
    is_integer,
    plain,
)
from systolic.workload.operations.take import check_along
from systolic.workload.operations.whole_rows import (
    DIRECT,
    EIGHT,
    MOST_SEARCHED,
    AlongAttributes,
)

MOST_PLACES = 1 << 24
"""So many places float32 counts."""


@dataclass(frozen=True, slots=True)
class PlaceAttributes(Attributes):
    """The axis along which places are looked for, and which of equal ones."""

    axis: Annotated[
        int | None, Field(description="axis along which places are counted (default: the last)")
    ] = None
    last: Annotated[bool, Field(description="of equal elements the last (default: the first)")] = (
        False
    )

    def of(self, rank: int) -> int:
        """Return the axis of a tensor of that rank."""
        return rank - 1 if self.axis is None else self.axis


def _result_dims(source: Shape, attributes: PlaceAttributes) -> tuple[int, ...]:
    axis = attributes.of(source.rank)
    check_along(source, axis)
    if source.dims[axis] > MOST_PLACES:
        raise WorkloadError(
            f"axis: needs at most {MOST_PLACES} places, found {source.dims[axis]} in "
            f"{plain(source)}"
        )
    return tuple(source.dims[n] for n in kept_axes(source.rank, (axis,)))


def _check(shapes: Sequence[Shape], out: Shape, attributes: PlaceAttributes) -> None:
    (source,) = shapes
    check_gives(source, "s32", _result_dims(source, attributes), out)


def _default_out(shapes: Sequence[Shape], attributes: PlaceAttributes) -> Shape:
    return Shape("s32", _result_dims(shapes[0], attributes))


def hits(recipe: Recipe, source: str, extreme: ReductionName, axis: int) -> tuple[str, str]:
    """Return the largest or smallest elements along an axis, and s32 1 where an element is it.

    A NaN is both, and no number beside it is.
    """
    shape = recipe.shape(source)
    others = kept_axes(shape.rank, (axis,))
    best = recipe.reduce(extreme, source, axis)
    found = recipe.combined("equal", source, best, "s32", others)
    if not is_integer(shape):
        unordered = recipe.combined("not_equal", source, source, "s32")
        found = recipe.combined("max", found, unordered, "s32")
    return best, found


def place_parts(extreme: ReductionName) -> Callable[..., list[CompositePart]]:
    """Return the function that gives the operations of an argmax or an argmin."""

    def parts(
        shapes: Sequence[Shape], out: Shape, attributes: PlaceAttributes
    ) -> list[CompositePart]:
        recipe, rank = Recipe(shapes), shapes[0].rank
        axis, count = attributes.of(rank), shapes[0].dims[attributes.of(rank)]
        source = recipe.cast("0", "s32") if is_integer(shapes[0]) else "0"
        _, found = hits(recipe, source, extreme, axis)
        base, each = (1, 1) if attributes.last else (count, -1)
        numbers = recipe.numbers(count, base, each)
        scored = recipe.combined("multiply", found, numbers, "s32", (axis,))
        best = recipe.reduce("max", scored, axis)
        if attributes.last:
            recipe.scalar("subtract", best, 1)
        else:
            recipe.scalar("subtract", best, count, reverse=True)
        return recipe.done(out)

    return parts


def searchable(source: Shape, axis: int, rows: RowWork) -> bool:
    """Return whether an engine searches rows that hold all of an axis."""
    fits = EIGHT <= source.dims[axis] <= MOST_SEARCHED
    return rows.searches and fits and rows.holds(source, axis)


def upwards(recipe: Recipe, source: str, extreme: ReductionName) -> str:
    """Return a tensor whose largest elements are the extreme ones of another."""
    shape = recipe.shape(source)
    if extreme == "max":
        return source if shape.element_type in DIRECT else recipe.cast(source, "s32")
    if is_integer(shape):
        return recipe.scalar("xor", recipe.cast(source, "s32"), -1)
    return recipe.scalar("multiply", source, -1.0)


def found_places(recipe: Recipe, now: str, best: str, axis: int) -> str:
    """Return where the eight largest elements are, which a search has found: s32.

    No search finds a NaN, and says -1. So a second one says where those are which are no numbers;
    they come first, and it says -1 of all others.
    """
    shape, along = recipe.shape(now), AlongAttributes(axis)
    made = Shape("s32", recipe.shape(best).dims)
    places = recipe.add("find", (now, best), made, along)
    if is_integer(shape):
        return places
    numbers = recipe.scalar("greater_equal", now, -np.inf, element_type="s32")
    none = recipe.constant(0, "s32", made.dims)
    unordered = recipe.add("find", (numbers, none), made, along)
    return recipe.combined("max", places, unordered, "s32")


def largest(recipe: Recipe, now: str, axis: int) -> str:
    """Return the eight largest elements along an axis, found by a search."""
    shape = recipe.shape(now)
    dims = (*shape.dims[:axis], EIGHT, *shape.dims[axis + 1 :])
    return recipe.add("largest", (now,), Shape(shape.element_type, dims), AlongAttributes(axis))


def place_row_parts(extreme: ReductionName) -> Callable[..., list[CompositePart] | None]:
    """Return the function that gives the operations where an engine searches rows."""

    def parts(
        shapes: Sequence[Shape], out: Shape, attributes: PlaceAttributes, rows: RowWork
    ) -> list[CompositePart] | None:
        axis, recipe = attributes.of(shapes[0].rank), Recipe(shapes)
        if not searchable(shapes[0], axis, rows):
            return None
        source = recipe.reverse("0", [axis]) if attributes.last else "0"
        now = upwards(recipe, source, extreme)
        places = found_places(recipe, now, largest(recipe, now, axis), axis)
        place = recipe.reshape(recipe.slice(places, axis, 0, 1), out.dims)
        if attributes.last:
            recipe.scalar("subtract", place, shapes[0].dims[axis] - 1, reverse=True)
        return recipe.done(out)

    return parts


def place_row(extreme: ReductionName, find: Callable[..., Array]) -> AnyRow:
    """Return the row of an argmax or an argmin; find: numpy's function."""

    def exact(arrays: Sequence[Array], out: Shape, attributes: PlaceAttributes) -> Array:
        array = counted(arrays[0])
        axis = attributes.of(array.ndim)
        wide = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
        if not attributes.last:
            return np.asarray(find(wide, axis=axis))
        return np.asarray(array.shape[axis] - 1 - find(np.flip(wide, axis), axis=axis))

    parts, row_parts = place_parts(extreme), place_row_parts(extreme)
    return Row(
        operands=ONE_SHAPE,
        attributes=PlaceAttributes,
        check=_check,
        default_out=_default_out,
        reference=reference_of(parts, row_parts),
        exact=exact,
        computes=True,
        parts=parts,
        row_parts=row_parts,
    )


ARGMAX = place_row("max", np.argmax)
