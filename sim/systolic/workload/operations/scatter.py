"""Scatter: a tensor with some places along an axis replaced by, or combined with, others.

The numbers of the places are known when compiling. A composite: places that are combined are taken,
combined, and put behind the tensor, from where a `take` puts all in their places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.binary import OperatorName
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import (
    Attributes,
    Operand,
    Row,
    check_gives,
    first_shape,
    plain,
)
from systolic.workload.operations.take import PlaceNumbers, check_places

Combiner = Literal["none", "add", "multiply", "max", "min"]


@dataclass(frozen=True, slots=True)
class CombinedAttributes(Attributes):
    """The axis, and what is done where an update comes."""

    axis: Annotated[
        int | None, Field(description="axis along which places are counted (default: the last)")
    ] = None
    combiner: Annotated[
        Combiner,
        Field(description="what an update does with an element: none (replaces it), add, ..."),
    ] = "none"

    def of(self, rank: int) -> int:
        """Return the axis of a tensor of that rank."""
        return rank - 1 if self.axis is None else self.axis


@dataclass(frozen=True, slots=True)
class ScatterAttributes(CombinedAttributes):
    """The place of each update along the axis too."""

    indices: Annotated[
        PlaceNumbers,
        Field(description="place in the source for each place of the updates"),
    ] = field(kw_only=True)


def _check(shapes: Sequence[Shape], out: Shape, attributes: ScatterAttributes) -> None:
    source, updates = shapes
    axis = attributes.of(source.rank)
    check_places(source, axis, attributes.indices)
    wanted = (*source.dims[:axis], len(attributes.indices), *source.dims[axis + 1 :])
    if (updates.element_type, updates.dims) != (source.element_type, wanted):
        needed = plain(Shape(source.element_type, wanted))
        raise WorkloadError(f"updates: needs {needed}, found {plain(updates)}")
    check_gives(source, source.element_type, source.dims, out)
    index, often = Counter(attributes.indices).most_common(1)[0]
    if often > 1 and attributes.combiner == "none":
        raise WorkloadError(
            f"indices: {index} is there {often} times, and no combiner says what becomes of it"
        )


def _rounds(indices: Sequence[int]) -> list[list[int]]:
    """Return the numbers of the updates, in rounds in which each index comes once at most."""
    seen, found = Counter[int](), list[list[int]]()
    for number, index in enumerate(indices):
        if seen[index] == len(found):
            found.append([])
        found[seen[index]].append(number)
        seen[index] += 1
    return found


def scatter_parts(
    shapes: Sequence[Shape], out: Shape, attributes: ScatterAttributes
) -> list[CompositePart]:
    """Return the operations of a scatter."""
    recipe, source = Recipe(shapes), shapes[0]
    axis, now = attributes.of(source.rank), "0"
    for some in _rounds(attributes.indices):
        indices, put = [attributes.indices[n] for n in some], "1"
        if len(some) < len(attributes.indices):
            put = recipe.take("1", axis, some)
        if attributes.combiner != "none":
            old = recipe.take(now, axis, indices)
            operator: OperatorName = attributes.combiner
            put = recipe.combined(operator, old, put, source.element_type)
        both = recipe.concat([now, put], axis)
        places = np.arange(source.dims[axis])
        places[indices] = source.dims[axis] + np.arange(len(indices))
        now = recipe.take(both, axis, places.tolist())
    return recipe.done(out)


UFUNCS: dict[Combiner, Callable[..., None]] = {
    "add": np.add.at,
    "multiply": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


def _exact(arrays: Sequence[Array], out: Shape, attributes: ScatterAttributes) -> Array:
    source, updates = arrays
    axis = attributes.of(source.ndim)
    wide = np.int64 if source.dtype.kind in "iu" else np.float64
    with np.errstate(all="ignore"):
        found = np.moveaxis(source.astype(wide), axis, 0).copy()
        new = np.moveaxis(updates.astype(wide), axis, 0)
        if attributes.combiner == "none":
            found[list(attributes.indices)] = new
        else:
            UFUNCS[attributes.combiner](found, np.array(attributes.indices), new)
    return np.moveaxis(found, 0, axis)


SCATTER = Row(
    operands=(
        Operand("source", "XLA shape of what places are replaced in"),
        Operand("updates", "XLA shape of what replaces them"),
    ),
    attributes=ScatterAttributes,
    check=_check,
    default_out=first_shape,
    reference=reference_of(scatter_parts),
    exact=_exact,
    computes=True,
    parts=scatter_parts,
)
