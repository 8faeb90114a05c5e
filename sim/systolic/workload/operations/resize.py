"""Resize: a tensor with another number of places along some axes, each from the nearest of its own.

Place i of a result stands at a coordinate of the source: (i + 0.5) * size / made - 0.5 for
`half_pixel`, i * size / made for `asymmetric`, i * (size - 1) / (made - 1) for `align_corners`.
`nearest` takes the place that is next to it, `linear` the two around it, each with what the other
is away; beyond the ends is the end. Axis after axis, in float32, rounded at each product and sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.image_windows import PixelNumbers
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.reduce import ReducedAxes
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    check_gives,
    of_first_type,
    plain,
)
from systolic.workload.operations.softmax import check_floats

Interpolation = Literal["nearest", "linear"]
ResizeCoordinates = Literal["half_pixel", "asymmetric", "align_corners"]
NearestPlace = Literal["round_half_down", "round_half_up", "floor", "ceil"]
HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class ResizeAttributes(Attributes):
    """How many places there are along each axis, and what stands there."""

    sizes: Annotated[PixelNumbers, Field(description="places of the result along each axis")]
    interpolation: Annotated[
        Interpolation, Field(description="what stands at a place: nearest or linear")
    ]
    axes: Annotated[
        ReducedAxes | None,
        Field(description="axes that have the sizes (default: all but the first and last)"),
    ] = None
    coordinates: Annotated[
        ResizeCoordinates,
        Field(description="where places of the result stand (default: half_pixel)"),
    ] = "half_pixel"
    nearest: Annotated[
        NearestPlace,
        Field(description="the nearest place of a coordinate (default: round_half_down)"),
    ] = "round_half_down"

    def of(self, rank: int) -> tuple[int, ...]:
        """Return the axes of a tensor of that rank."""
        return tuple(range(1, rank - 1)) if self.axes is None else tuple(self.axes)

    def at(self, size: int, made: int) -> list[Fraction]:
        """Return the coordinate of each place."""
        if self.coordinates == "asymmetric":
            return [Fraction(i * size, made) for i in range(made)]
        if self.coordinates == "align_corners":
            return [Fraction(i * (size - 1), max(made - 1, 1)) for i in range(made)]
        return [(i + HALF) * size / made - HALF for i in range(made)]

    def places(self, size: int, made: int) -> list[int]:
        """Return the nearest place of the source of each place."""
        return [min(max(_NEAREST[self.nearest](x), 0), size - 1) for x in self.at(size, made)]


_NEAREST = {
    "round_half_down": lambda x: math.ceil(x - HALF),
    "round_half_up": lambda x: math.floor(x + HALF),
    "floor": math.floor,
    "ceil": math.ceil,
}


def _result_dims(shapes: Sequence[Shape], attributes: ResizeAttributes) -> tuple[int, ...]:
    (source,) = shapes
    axes, sizes = attributes.of(source.rank), attributes.sizes
    if not axes or list(axes) != sorted({*axes} & {*range(source.rank)}):
        raise WorkloadError(
            f"axes: needs different axes of {plain(source)}, ascending, found {list(axes)}"
        )
    if len(sizes) != len(axes) or min(sizes) < 1:
        raise WorkloadError(
            f"sizes: needs {len(axes)} numbers of at least 1, for axes {list(axes)} of "
            f"{plain(source)}, found {list(sizes)}"
        )
    place = dict(zip(axes, sizes, strict=True))
    return tuple(place.get(axis, size) for axis, size in enumerate(source.dims))


def _check(shapes: Sequence[Shape], out: Shape, attributes: ResizeAttributes) -> None:
    (source,) = shapes
    check_gives(source, out.element_type, _result_dims(shapes, attributes), out)
    if attributes.interpolation == "linear":
        check_floats(source, out)
    elif source.element_type != out.element_type:
        check_gives(source, source.element_type, out.dims, out)


def _needs(shapes: Sequence[Shape], out: Shape, attributes: ResizeAttributes) -> list[int]:
    (source,) = shapes
    total = source.num_elements()
    for axis in attributes.of(source.rank):
        size, made = source.dims[axis], out.dims[axis]
        if attributes.interpolation == "nearest":
            used = {*attributes.places(size, made)}
        else:
            used = {n for low, high, share in _around(attributes, size, made)
                    for n, counts in ((low, share < 1), (high, share > 0)) if counts}  # fmt: skip
        total = total // size * len(used)
    return [total]


def _around(attributes: ResizeAttributes, size: int, made: int) -> list[tuple[int, int, Fraction]]:
    """Return of each place the places before and behind it, and how much of the latter counts."""
    found = []
    for x in attributes.at(size, made):
        inside = min(max(x, Fraction(0)), Fraction(size - 1))
        low = min(math.floor(inside), size - 1)
        found.append((low, min(low + 1, size - 1), inside - low))
    return found


def resize_parts(
    shapes: Sequence[Shape], out: Shape, attributes: ResizeAttributes
) -> list[CompositePart]:
    """Return the operations of a resize, axis after axis."""
    recipe, (source,) = Recipe(shapes), shapes
    x = "0" if attributes.interpolation == "nearest" else recipe.single("0")
    for axis in attributes.of(source.rank):
        size, made = source.dims[axis], out.dims[axis]
        if attributes.interpolation == "nearest":
            x = recipe.take(x, axis, attributes.places(size, made))
        else:
            x = _between(recipe, x, axis, _around(attributes, size, made))
    if not recipe.parts or recipe.shape(x).element_type != out.element_type:
        recipe.add("cast", (x,), out)
    return recipe.done(out)


def _between(recipe: Recipe, x: str, axis: int, around: list[tuple[int, int, Fraction]]) -> str:
    """Return places between two of the source; those with the same shares are made together."""
    shares = sorted({share for _, _, share in around})
    parts, order = [], []
    for share in shares:
        some = [n for n, each in enumerate(around) if each[2] == share]
        order += some
        low = recipe.take(x, axis, [around[n][0] for n in some])
        if share:
            high = recipe.take(x, axis, [around[n][1] for n in some])
            low = recipe.scalar("multiply", low, float(1 - share))
            high = recipe.scalar("multiply", high, float(share))
            low = recipe.binary("add", low, high, ())
        parts.append(low)
    beside = recipe.concat(parts, axis)
    return recipe.take(beside, axis, sorted(range(len(order)), key=order.__getitem__))


def _exact(arrays: Sequence[Array], out: Shape, attributes: ResizeAttributes) -> Array:
    (array,) = arrays
    if attributes.interpolation == "linear":
        array = array.astype(np.float64)
    for axis in attributes.of(array.ndim):
        size, made = array.shape[axis], out.dims[axis]
        if attributes.interpolation == "nearest":
            array = np.take(array, attributes.places(size, made), axis)
            continue
        low, high, share = zip(*_around(attributes, size, made), strict=True)
        part = np.array([float(each) for each in share]).reshape(
            [-1 if n == axis else 1 for n in range(array.ndim)]
        )
        whole = part == 0  # an infinity behind does not count
        behind = np.where(whole, 0, np.take(array, high, axis) * part)
        array = np.take(array, low, axis) * (1 - part) + behind
    return array


RESIZE = Row(
    operands=ONE_SHAPE,
    attributes=ResizeAttributes,
    check=_check,
    default_out=of_first_type(_result_dims),
    reference=reference_of(resize_parts),
    exact=_exact,
    needs=_needs,
    computes=True,
    parts=resize_parts,
)
