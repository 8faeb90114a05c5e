"""Dynamic scatter: places along an axis replaced or combined where numbers say when running.

Updates come one after another, so equal numbers need no rule of their own: the last one stays, or
all are combined in their order. A number outside is left out, as in XLA. A composite: for each
update a `select` of the places that have its number. So cycles never depend on the numbers, and all
bits of what stays, or is put, stay too. Copies to where a number says are not used: they cannot
leave an update out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import Operand, Row, check_gives, plain
from systolic.workload.operations.scatter import UFUNCS, CombinedAttributes
from systolic.workload.operations.take import check_along

MOST_UPDATES = 256
"""So many updates follow one another at most: each is work of its own on all of the source."""


def _check(shapes: Sequence[Shape], out: Shape, attributes: CombinedAttributes) -> None:
    source, updates, places = shapes
    axis = attributes.of(source.rank)
    check_along(source, axis)
    if places.element_type != "s32" or places.rank != 1:
        raise WorkloadError(f"places: needs s32 of one dimension, found {plain(places)}")
    (count,) = places.dims
    if not 1 <= count <= MOST_UPDATES:
        raise WorkloadError(
            f"places: needs 1 to {MOST_UPDATES} numbers, since updates come one after another, "
            f"found {count}"
        )
    wanted = (*source.dims[:axis], count, *source.dims[axis + 1 :])
    if (updates.element_type, updates.dims) != (source.element_type, wanted):
        needed = plain(Shape(source.element_type, wanted))
        raise WorkloadError(f"updates: needs {needed}, found {plain(updates)}")
    check_gives(source, source.element_type, source.dims, out)


def _default_out(shapes: Sequence[Shape], attributes: CombinedAttributes) -> Shape:
    return shapes[0]


def dynamic_scatter_parts(
    shapes: Sequence[Shape], out: Shape, attributes: CombinedAttributes
) -> list[CompositePart]:
    """Return the operations of a dynamic scatter."""
    (source, _, places), recipe, now = shapes, Recipe(shapes), "0"
    axis, (count,) = attributes.of(source.rank), places.dims
    seen = [source.dims[axis] if n == axis else 1 for n in range(source.rank)]
    numbers = recipe.numbers(source.dims[axis])
    for update in range(count):
        place = recipe.reshape(recipe.slice("2", 0, update, update + 1), ())
        here = recipe.reshape(recipe.combined("equal", numbers, place, "s32"), seen)
        put = recipe.slice("1", axis, update, update + 1)
        if attributes.combiner != "none":
            put = recipe.combined(attributes.combiner, now, put, source.element_type)
        now = recipe.add("select", (here, put, now), Shape(source.element_type, source.dims))
    return recipe.done(out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: CombinedAttributes) -> Array:
    source, updates, places = arrays
    axis = attributes.of(source.ndim)
    wide = np.int64 if source.dtype.kind in "iu" else np.float64
    moving = attributes.combiner == "none"
    found = np.moveaxis(source if moving else source.astype(wide), axis, 0).copy()
    inside = (places >= 0) & (places < len(found))
    new = np.moveaxis(updates, axis, 0)[inside]
    with np.errstate(all="ignore"):
        if attributes.combiner == "none":
            for place, row in zip(places[inside], new, strict=True):
                found[place] = row
        else:
            UFUNCS[attributes.combiner](found, places[inside], new.astype(wide))
    return np.moveaxis(found, 0, axis)


DYNAMIC_SCATTER = Row(
    operands=(
        Operand("source", "XLA shape of what places are replaced in"),
        Operand("updates", "XLA shape of what replaces them"),
        Operand("places", "XLA shape of the number of the place of each update, s32"),
    ),
    attributes=CombinedAttributes,
    check=_check,
    default_out=_default_out,
    reference=reference_of(dynamic_scatter_parts),
    exact=_exact,
    numbered="places",
    computes=True,
    parts=dynamic_scatter_parts,
)
