"""Pad: a tensor with elements around it, and between its own; less than none takes some away.

The elements are of one value, or what stands near the edge: the edge itself, the tensor mirrored
there, or the tensor again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from systolic.arrays import Array, Integers
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.cast import convert
from systolic.workload.operations.index_map import NOWHERE, IndexMap
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    Rules,
    check_gives,
    of_first_type,
    plain,
)

PaddingCounts = Annotated[tuple[int, ...], Field(strict=False)]
PaddingMode = Literal["constant", "edge", "reflect", "symmetric", "wrap"]


@dataclass(frozen=True, slots=True)
class PadAttributes(Attributes):
    """How many elements are added before, behind and between, along each dimension, and which."""

    low: Annotated[
        PaddingCounts,
        Field(description="elements before the first of each dimension; below 0: taken away"),
    ]
    high: Annotated[
        PaddingCounts,
        Field(description="elements behind the last of each dimension; below 0: taken away"),
    ]
    value: Annotated[float, Field(description="their value (default: 0)")] = 0.0
    interior: Annotated[
        PaddingCounts | None,
        Field(description="elements between neighbours of each dimension (default: none)"),
    ] = None
    mode: Annotated[
        PaddingMode,
        Field(
            description="what they are: constant (`value`), edge, reflect (mirrored at the edge "
            "element), symmetric (mirrored behind it), wrap (the tensor again)"
        ),
    ] = "constant"

    def sides(self, rank: int) -> list[tuple[int, int, int]]:
        """Return (before, behind, between) for each dimension."""
        between = (0,) * rank if self.interior is None else self.interior
        return list(zip(self.low, self.high, between, strict=True))


def _result_dims(shapes: Sequence[Shape], attributes: PadAttributes) -> tuple[int, ...]:
    (source,) = shapes
    for key, counts in (("low", attributes.low), ("high", attributes.high)):
        if len(counts) != source.rank:
            raise WorkloadError(
                f"{key}: needs a number for each dimension of {plain(source)}, found {list(counts)}"
            )
    between = attributes.interior
    if between is not None and (len(between) != source.rank or min(between, default=0) < 0):
        raise WorkloadError(
            f"interior: needs a number of at least 0 for each dimension of {plain(source)}, found "
            f"{list(between)}"
        )
    sizes = zip(source.dims, attributes.sides(source.rank), strict=True)
    dims = tuple(
        low + size + max(size - 1, 0) * inside + high for size, (low, high, inside) in sizes
    )
    if min(dims, default=1) < 1:
        raise WorkloadError(
            f"low, high: {list(attributes.low)} and {list(attributes.high)} leave nothing of "
            f"{plain(source)}"
        )
    return dims


def _check_mode(source: Shape, attributes: PadAttributes) -> None:
    """Raise WorkloadError for padding by the tensor's own elements that it has not enough of."""
    if attributes.mode == "constant":
        return
    if any(attributes.interior or ()):
        raise WorkloadError(
            f"interior: only padding by a value goes between elements, found mode "
            f'"{attributes.mode}"'
        )
    if attributes.mode == "reflect":
        for axis, (size, (low, high, _)) in enumerate(
            zip(source.dims, attributes.sides(source.rank), strict=True)
        ):
            if max(low, high) > size - 1:
                raise WorkloadError(
                    f"dimension {axis} of {plain(source)}: reflect needs at most {size - 1} on "
                    f"either side, found {max(low, high)}"
                )


def _check(shapes: Sequence[Shape], out: Shape, attributes: PadAttributes) -> None:
    (source,) = shapes
    check_gives(source, source.element_type, _result_dims(shapes, attributes), out)
    _check_mode(source, attributes)
    check_value(attributes.value, out)


def check_value(value: float, out: Shape) -> None:
    """Raise WorkloadError for a value that an integer of a result cannot have."""
    if out.dtype.kind in "iu":
        limits = np.iinfo(out.dtype)
        if not (value == value // 1 and limits.min <= value <= limits.max):
            raise WorkloadError(
                f"value: needs a whole number from {limits.min} to {limits.max} for {plain(out)}, "
                f"found {value}"
            )


def _padded(array: Array, attributes: PadAttributes, value: Array) -> Array:
    """Return the array with elements between, then around its own, then without those cut away."""
    sides = attributes.sides(array.ndim)
    if not sides:
        return array
    for axis, (_, _, between) in enumerate(sides):
        if between:
            size = array.shape[axis]
            spread = np.full((*array.shape[:axis], size + (size - 1) * between,
                              *array.shape[axis + 1 :]), value, array.dtype)  # fmt: skip
            spread[(slice(None),) * axis + (slice(None, None, between + 1),)] = array
            array = spread
    around = [(max(low, 0), max(high, 0)) for low, high, _ in sides]
    if attributes.mode == "constant":
        array = np.pad(array, around, constant_values=value)
    else:
        array = np.pad(array, around, mode=attributes.mode)
    return array[tuple(slice(max(-low, 0), high if high < 0 else None) for low, high, _ in sides)]


def _exact(arrays: Sequence[Array], out: Shape, attributes: PadAttributes) -> Array:
    (array,) = arrays
    wide = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
    return _padded(wide, attributes, value_in(attributes.value, out).astype(wide.dtype))


def _reference(
    arrays: Sequence[Array], out: Shape, attributes: PadAttributes, rules: Rules
) -> Array:
    return _padded(arrays[0], attributes, value_in(attributes.value, out))


def value_in(number: float, out: Shape) -> Array:
    """Return a value as the type of the result holds it: it is rounded before it is used."""
    value = np.asarray(number, np.float64)
    single = value.astype(np.int64 if out.dtype.kind in "iu" else np.float32)
    return convert(single, out.dtype)


def _index_map(shapes: Sequence[Shape], out: Shape, attributes: PadAttributes) -> IndexMap:
    sizes = zip(shapes[0].dims, attributes.sides(out.rank), strict=True)
    places = [_places(size, side, attributes.mode) for size, side in sizes]
    return IndexMap.of(places, attributes.value)


def _places(size: int, side: tuple[int, int, int], mode: PaddingMode) -> Integers:
    """Return the place of each element along one dimension."""
    low, high, between = side
    step = between + 1
    numbers = np.arange(-low, (size - 1) * step + 1 + high)
    if mode == "edge":
        return np.clip(numbers, 0, size - 1)
    if mode == "wrap":
        return numbers % size
    if mode == "reflect":
        turn = 2 * max(size - 1, 1)
        return (size - 1) - np.abs(numbers % turn - (size - 1)) if size > 1 else numbers * 0
    if mode == "symmetric":
        within = numbers % (2 * size)
        return np.minimum(within, 2 * size - 1 - within)
    inside = (numbers >= 0) & (numbers <= (size - 1) * step) & (numbers % step == 0)
    return np.where(inside, numbers // step, NOWHERE)


PAD = Row(
    operands=ONE_SHAPE,
    attributes=PadAttributes,
    check=_check,
    default_out=of_first_type(_result_dims),
    reference=_reference,
    exact=_exact,
    index_map=_index_map,
)
