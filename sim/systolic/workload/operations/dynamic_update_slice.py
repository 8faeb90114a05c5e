"""Dynamic update slice: a tensor with a box replaced that begins where numbers say when running.

A box that would not lie inside begins at the nearest place where it does, as in XLA. A composite:
the update is moved to its place bit by bit, as in a `dynamic_slice`, and taken by a `select` where
the places of the result lie in the box. Where an engine copies to where a number says, one such
copy along each axis puts the update over the source.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.dynamic_slice import (
    STARTS,
    bits_of,
    check_box,
    check_starts,
    clamped,
    free_axes,
    moved_from,
    one_start,
    start_of,
)
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import (
    Attributes,
    Operand,
    Row,
    RowWork,
    check_gives,
    first_shape,
    plain,
)
from systolic.workload.operations.whole_rows import AlongAttributes


def _check(shapes: Sequence[Shape], out: Shape, attributes: Attributes) -> None:
    source, update, starts = shapes
    if update.element_type != source.element_type:
        raise WorkloadError(f"update: needs {source.element_type}, found {plain(update)}")
    check_box(source, update.dims, "update")
    check_starts(source, starts)
    check_gives(source, source.element_type, source.dims, out)


def dynamic_update_slice_parts(
    shapes: Sequence[Shape], out: Shape, attributes: Attributes
) -> list[CompositePart]:
    """Return the operations of a dynamic update slice."""
    recipe, (source, update, _) = Recipe(shapes), shapes
    now, inside = "1", ""
    for axis, (size, count) in enumerate(zip(source.dims, update.dims, strict=True)):
        most = size - count
        if not most:
            continue
        start = start_of(recipe, "2", axis, most)
        if count > 1:
            now = _padded(recipe, now, axis, 0, most)
            for worth, bit in bits_of(recipe, start, most):
                now = recipe.select(bit, _padded(recipe, now, axis, worth, -worth), now)
        inside = _joined(recipe, inside, _inside(recipe, start, axis, (size, count), source))
    if inside:
        # a box of one place is spread over all of them
        recipe.add("select", (inside, now, "0"), source)
    else:  # all of it, wherever it begins
        recipe.select(start_of(recipe, "2", 0, 0), "0", "1")
    return recipe.done(out)


def _row_parts(
    shapes: Sequence[Shape], out: Shape, attributes: Attributes, rows: RowWork
) -> list[CompositePart] | None:
    """Return the operations where an engine copies to where a number says."""
    axes = free_axes(shapes[0], shapes[1].dims, rows)
    if axes is None:
        return None
    recipe = Recipe(shapes)
    _put(recipe, "0", [(axis, one_start(recipe, "2", axis, most)) for axis, most in axes])
    return recipe.done(out)


def _put(recipe: Recipe, source: str, axes: Sequence[tuple[int, str]]) -> str:
    """Return a tensor with the update in it, from the starts of some axes on.

    Of several axes, the places of the first are taken, changed along the others, and put back.
    """
    (axis, start), *others = axes
    update = "1"
    if others:
        count = recipe.shape("1").dims[axis]
        update = _put(recipe, moved_from(recipe, source, start, axis, count), others)
    given = AlongAttributes(axis)
    return recipe.add("move_to", (source, update, start), recipe.shape(source), given)


def _padded(recipe: Recipe, now: str, axis: int, low: int, high: int) -> str:
    """Return a tensor with zeros before or behind along an axis."""
    rank = recipe.shape(now).rank
    return recipe.pad(now, [(low, high) if n == axis else (0, 0) for n in range(rank)])


def _inside(recipe: Recipe, start: str, axis: int, sizes: tuple[int, int], source: Shape) -> str:
    """Return s32 1 for the places of an axis that lie in the box, seen along that axis."""
    size, count = sizes
    numbers = recipe.combined("subtract", recipe.numbers(size), start, "s32")
    behind = recipe.scalar("greater_equal", numbers, 0)
    both = recipe.combined("multiply", behind, recipe.scalar("less", numbers, count), "s32")
    return recipe.reshape(both, [size if n == axis else 1 for n in range(source.rank)])


def _joined(recipe: Recipe, one: str, other: str) -> str:
    return recipe.combined("multiply", one, other, "s32") if one else other


def _exact(arrays: Sequence[Array], out: Shape, attributes: Attributes) -> Array:
    source, update, starts = arrays
    found = np.array(source)
    found[clamped(starts, source.shape, update.shape)] = update
    return found


DYNAMIC_UPDATE_SLICE = Row(
    operands=(
        Operand("source", "XLA shape of what a box is replaced in"),
        Operand("update", "XLA shape of what replaces it"),
        STARTS,
    ),
    attributes=Attributes,
    check=_check,
    default_out=first_shape,
    reference=reference_of(dynamic_update_slice_parts, _row_parts),
    exact=_exact,
    numbered="starts",
    computes=True,
    parts=dynamic_update_slice_parts,
    row_parts=_row_parts,
)
