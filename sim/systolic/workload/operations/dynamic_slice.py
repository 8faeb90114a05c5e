"""Dynamic slice: a box of a tensor that begins where numbers say that are known when running.

A box that would not lie inside begins at the nearest place where it does, as in XLA. A composite:
for each bit of a start the tensor is taken as it is or moved by that many places, a `select` of
two boxes; where an engine copies from where a number says, one such copy along each axis. So cycles
never depend on the numbers, and all bits of what is taken stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.gather import within
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import (
    Attributes,
    Operand,
    Row,
    RowWork,
    check_gives,
    plain,
)
from systolic.workload.operations.whole_rows import CountAttributes

BoxSizes = Annotated[tuple[int, ...], Field(strict=False)]


@dataclass(frozen=True, slots=True)
class DynamicSliceAttributes(Attributes):
    """The sizes of the box."""

    sizes: Annotated[BoxSizes, Field(description="size of the box in each dimension")]


def check_starts(source: Shape, starts: Shape) -> None:
    """Raise WorkloadError unless there is a start for each dimension."""
    if (starts.element_type, starts.dims) != ("s32", (source.rank,)):
        raise WorkloadError(
            f"starts: needs s32[{source.rank}], a number for each dimension of {plain(source)}, "
            f"found {plain(starts)}"
        )


def check_box(source: Shape, sizes: Sequence[int], what: str) -> None:
    """Raise WorkloadError unless a box fits into a tensor."""
    fits = len(sizes) == source.rank
    if not fits or any(not 1 <= n <= size for n, size in zip(sizes, source.dims, strict=True)):
        raise WorkloadError(
            f"{what}: needs for each dimension of {plain(source)} a size from 1 to its own, found "
            f"{list(sizes)}"
        )


def _check(shapes: Sequence[Shape], out: Shape, attributes: DynamicSliceAttributes) -> None:
    source, starts = shapes
    check_box(source, attributes.sizes, "sizes")
    check_starts(source, starts)
    check_gives(source, source.element_type, attributes.sizes, out)


def _default_out(shapes: Sequence[Shape], attributes: DynamicSliceAttributes) -> Shape:
    return Shape(shapes[0].element_type, attributes.sizes)


def start_of(recipe: Recipe, starts: str, axis: int, most: int) -> str:
    """Return the start of a dimension, from 0 to `most`: s32, one number."""
    return within(recipe, recipe.reshape(recipe.slice(starts, 0, axis, axis + 1), ()), most)


def bits_of(recipe: Recipe, number: str, most: int) -> list[tuple[int, str]]:
    """Return (worth, whether a number up to `most` has that bit), the highest first."""
    worths = [1 << n for n in reversed(range(most.bit_length()))]
    return [(worth, recipe.scalar("and", number, worth)) for worth in worths]


def dynamic_slice_parts(
    shapes: Sequence[Shape], out: Shape, attributes: DynamicSliceAttributes
) -> list[CompositePart]:
    """Return the operations of a dynamic slice."""
    recipe, source, now = Recipe(shapes), shapes[0], "0"
    for axis, (size, count) in enumerate(zip(source.dims, attributes.sizes, strict=True)):
        most = size - count
        if not most:
            continue
        for worth, bit in bits_of(recipe, start_of(recipe, "1", axis, most), most):
            there = recipe.shape(now).dims[axis]
            length = min(count + worth - 1, there)
            places = np.minimum(np.arange(length) + worth, there - 1)
            moved = recipe.take(now, axis, places.tolist())
            now = recipe.select(bit, moved, recipe.slice(now, axis, 0, length))
    if now == "0":  # all of it, wherever it begins
        recipe.select(start_of(recipe, "1", 0, 0), "0", "0")
    return recipe.done(out)


def free_axes(source: Shape, sizes: Sequence[int], rows: RowWork) -> list[tuple[int, int]] | None:
    """Return the axes along which a box may begin in several places, each with the last of them.

    None if engines do not copy rows from where a number says, or a row does not hold an axis.
    """
    found = [(axis, size - sizes[axis]) for axis, size in enumerate(source.dims)]
    found = [(axis, most) for axis, most in found if most]
    fits = rows.moves and all(rows.holds(source, axis) for axis, _ in found)
    return found if fits and found else None


def one_start(recipe: Recipe, starts: str, axis: int, most: int) -> str:
    """Return the start of a dimension, from 0 to `most`: s32[1]."""
    return within(recipe, recipe.slice(starts, 0, axis, axis + 1), most)


def moved_from(recipe: Recipe, source: str, start: str, axis: int, count: int) -> str:
    """Return a number of places along an axis, from the one on that memory says."""
    shape = recipe.shape(source)
    made = Shape(shape.element_type, (*shape.dims[:axis], count, *shape.dims[axis + 1 :]))
    return recipe.add("move_from", (source, start), made, CountAttributes(axis, count))


def _row_parts(
    shapes: Sequence[Shape], out: Shape, attributes: DynamicSliceAttributes, rows: RowWork
) -> list[CompositePart] | None:
    """Return the operations where an engine copies from where a number says."""
    axes = free_axes(shapes[0], attributes.sizes, rows)
    if axes is None:
        return None
    recipe, now = Recipe(shapes), "0"
    for axis, most in axes:
        start = one_start(recipe, "1", axis, most)
        now = moved_from(recipe, now, start, axis, attributes.sizes[axis])
    return recipe.done(out)


def clamped(starts: Array, dims: Sequence[int], sizes: Sequence[int]) -> tuple[slice, ...]:
    """Return the box that numbers say, moved inside."""
    firsts = np.clip(starts.astype(np.int64), 0, np.subtract(dims, sizes))
    return tuple(slice(int(a), int(a) + n) for a, n in zip(firsts, sizes, strict=True))


def _exact(arrays: Sequence[Array], out: Shape, attributes: DynamicSliceAttributes) -> Array:
    source, starts = arrays
    return np.ascontiguousarray(source[clamped(starts, source.shape, attributes.sizes)])


STARTS = Operand("starts", "XLA shape of the first place in each dimension, s32")

DYNAMIC_SLICE = Row(
    operands=(Operand("source", "XLA shape of what a box is taken of"), STARTS),
    attributes=DynamicSliceAttributes,
    check=_check,
    default_out=_default_out,
    reference=reference_of(dynamic_slice_parts, _row_parts),
    exact=_exact,
    numbered="starts",
    computes=True,
    parts=dynamic_slice_parts,
    row_parts=_row_parts,
)
