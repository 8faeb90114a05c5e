"""Gather: places along an axis by numbers that are known only when running.

A number outside is the nearest place there is, as in XLA. A composite. Where an engine picks places
of rows by numbers, it does, and keeps all bits. Elsewhere it is a row of 0 and one 1 for each
number, times the source; of integers wider than bytes an engine multiplies and adds. An infinity or
a NaN in the source then makes NaN of what stands beside it, since 0 times it is NaN. Cycles never
depend on the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import (
    Attributes,
    Operand,
    Row,
    RowWork,
    gives,
    is_integer,
    of_first_type,
    plain,
)
from systolic.workload.operations.take import check_along
from systolic.workload.operations.whole_rows import GROUP, MOST_PICKED, CountAttributes


@dataclass(frozen=True, slots=True)
class GatherAttributes(Attributes):
    """The axis along which places are taken."""

    axis: Annotated[
        int | None, Field(description="axis along which places are taken (default: the last)")
    ] = None

    def of(self, rank: int) -> int:
        """Return the axis of a tensor of that rank."""
        return rank - 1 if self.axis is None else self.axis


def _result_dims(shapes: Sequence[Shape], attributes: GatherAttributes) -> tuple[int, ...]:
    source, indices = shapes
    axis = attributes.of(source.rank)
    check_along(source, axis)
    check_indices(indices)
    return (*source.dims[:axis], *indices.dims, *source.dims[axis + 1 :])


def check_indices(indices: Shape) -> None:
    """Raise WorkloadError unless numbers of places are s32."""
    if indices.element_type != "s32":
        raise WorkloadError(f"places: needs s32, found {plain(indices)}")


def within(recipe: Recipe, indices: str, most: int) -> str:
    """Return numbers, those below 0 as 0 and those above `most` as `most`."""
    return recipe.scalar("min", recipe.scalar("max", indices, 0), most)


def gather_parts(
    shapes: Sequence[Shape], out: Shape, attributes: GatherAttributes
) -> list[CompositePart]:
    """Return the operations of a gather."""
    (source, indices), recipe = shapes, Recipe(shapes)
    axis, many = attributes.of(source.rank), math.prod(indices.dims)
    count = source.dims[axis]
    order = [axis] + [n for n in range(source.rank) if n != axis]
    rest = [source.dims[n] for n in order[1:]]
    table = recipe.transpose("0", order) if axis else "0"
    rows = recipe.reshape(table, [count, math.prod(rest)])
    wanted = within(recipe, recipe.reshape("1", [many, 1]), count - 1)
    numbers = recipe.reshape(recipe.numbers(count), [1, count])
    picked = _picked(recipe, wanted, numbers, rows)
    made = recipe.reshape(picked, [*indices.dims, *rest])
    back = [*range(indices.rank, indices.rank + axis), *range(indices.rank),
            *range(indices.rank + axis, out.rank)]  # fmt: skip
    recipe.transpose(made, back)
    return recipe.done(out)


def _row_parts(
    shapes: Sequence[Shape], out: Shape, attributes: GatherAttributes, rows: RowWork
) -> list[CompositePart] | None:
    """Return the operations where an engine picks places of rows by numbers."""
    (source, indices), recipe = shapes, Recipe(shapes)
    axis, many = attributes.of(source.rank), math.prod(indices.dims)
    if not (rows.picks and rows.holds(source, axis) and 1 <= many <= MOST_PICKED):
        return None
    others = [n for n in range(source.rank) if n != axis]
    rest = [source.dims[n] for n in others]
    count, lines = source.dims[axis], math.prod(rest)
    table = recipe.reshape(recipe.transpose("0", [*others, axis]), [lines, count])
    table = recipe.pad(table, [(0, -lines % GROUP), (0, 0)])
    wanted = _arranged(recipe, many, min(rows.lanes, recipe.shape(table).dims[0]), count - 1)
    made = Shape(source.element_type, (recipe.shape(table).dims[0], many))
    picked = recipe.add("pick", (table, wanted), made, CountAttributes(1, many))
    found = recipe.reshape(recipe.slice(picked, 0, 0, lines), [*rest, *indices.dims])
    last = range(len(rest), out.rank)
    back = [*range(axis), *last, *range(axis, len(rest))]
    if list(back) == sorted(back) and recipe.parts[-1].name != found:
        recipe.add("reshape", (found,), out)
    recipe.transpose(found, back)
    return recipe.done(out)


def _arranged(recipe: Recipe, many: int, lanes: int, most: int) -> str:
    """Return numbers from 0 to `most`: j in row j % GROUP of each GROUP, column j // GROUP."""
    numbers = recipe.pad(recipe.reshape("1", [many]), [(0, -many % GROUP)])
    columns = recipe.transpose(recipe.reshape(numbers, [-(-many // GROUP), GROUP]), [1, 0])
    repeated = recipe.take(columns, 0, [n % GROUP for n in range(lanes)])
    return within(recipe, repeated, most)


def _picked(recipe: Recipe, wanted: str, numbers: str, rows: str) -> str:
    """Return rows [many, columns] of a matrix, in its type."""
    dtype, columns = recipe.shape(rows).element_type, recipe.shape(rows).dims[1]
    many = recipe.shape(wanted).dims[0]
    if is_integer(recipe.shape(rows)) and dtype != "s8":
        hit = recipe.combined("equal", wanted, numbers, "s32")
        count = recipe.shape(hit).dims[1]
        here = recipe.reshape(hit, [many, count, 1])
        there = recipe.reshape(rows, [1, count, columns])
        each = recipe.combined("multiply", here, recipe.cast(there, "s32"), "s32")
        return recipe.cast(recipe.reduce("sum", each, 1), dtype)
    hit = recipe.cast(recipe.combined("equal", wanted, numbers, "s32"), dtype)
    return recipe.cast(recipe.matmul(hit, rows, "s32" if dtype == "s8" else "f32"), dtype)


def _exact(arrays: Sequence[Array], out: Shape, attributes: GatherAttributes) -> Array:
    source, indices = arrays
    axis = attributes.of(source.ndim)
    return np.take(source, indices.astype(np.int64), axis=axis, mode="clip")


GATHER = Row(
    operands=(
        Operand("source", "XLA shape of what places are taken of"),
        Operand("places", "XLA shape of the numbers of the places, s32"),
    ),
    attributes=GatherAttributes,
    check=gives(_result_dims),
    default_out=of_first_type(_result_dims),
    reference=reference_of(gather_parts, _row_parts),
    exact=_exact,
    numbered="places",
    computes=True,
    parts=gather_parts,
    row_parts=_row_parts,
)
