"""Gather: places along an axis by numbers that are known only when running.

A number outside is the nearest place there is, as in XLA. A composite: a row of 0 and one 1 for
each number, times the source; of integers wider than bytes an engine multiplies and adds. So cycles
never depend on the numbers: all of the source is read for any of them. An infinity or a NaN in the
source makes NaN of what stands beside it, since 0 times it is NaN.
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
    check_gives,
    is_integer,
    plain,
)
from systolic.workload.operations.take import check_along


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


def _check(shapes: Sequence[Shape], out: Shape, attributes: GatherAttributes) -> None:
    dims = _result_dims(shapes, attributes)
    check_gives(shapes[0], shapes[0].element_type, dims, out)


def _default_out(shapes: Sequence[Shape], attributes: GatherAttributes) -> Shape:
    return Shape(shapes[0].element_type, _result_dims(shapes, attributes))


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
    check=_check,
    default_out=_default_out,
    reference=reference_of(gather_parts),
    exact=_exact,
    computes=True,
    parts=gather_parts,
)
