"""Reduce: the largest, the sum, ... over any axes, which the result no longer has.

The contract (docs/operations.md, "Values"): the elements, in row-major order of the reduced axes,
are taken to float32 or int32 and cut into segments of `rules.segment`. Each segment is reduced in
order, from its first element on; the results likewise, until one is left. Segments of one element
would never be fewer: WorkloadError. A mean is the sum divided in float32 by the count. The result
is then cast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.cast import convert
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    Rules,
    check_gives,
    counted,
    is_integer,
    of_first_type,
    plain,
)

ReductionName = Literal["max", "min", "mean", "median", "sum", "product"]
ReducedAxes = Annotated[tuple[int, ...], Field(strict=False)]


@dataclass(frozen=True, slots=True)
class ReduceAttributes(Attributes):
    """The reduction, and the axes that are reduced."""

    reduction: Annotated[ReductionName, Field(description="max, min, mean, median, sum or product")]
    axes: Annotated[
        ReducedAxes | None, Field(description="axes that are reduced (default: all)")
    ] = None

    def reduced(self, rank: int) -> tuple[int, ...]:
        """Return the axes of a tensor of that rank that are reduced, ascending."""
        return tuple(sorted(given_axes(self.axes, rank)))


def given_axes(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Return the axes that an operation names; all of a tensor of that rank if it names none."""
    return tuple(range(rank)) if axes is None else tuple(axes)


def check_axes(source: Shape, axes: Sequence[int], least: int = 0) -> None:
    """Raise WorkloadError unless these are different axes of a tensor, at least `least`."""
    if not least <= len(set(axes)) == len(axes) or not {*axes} <= {*range(source.rank)}:
        raise WorkloadError(
            f"axes: needs different numbers from 0 to {source.rank - 1}, axes of {plain(source)}, "
            f"found {list(axes)}"
        )


def kept_axes(rank: int, reduced: Sequence[int]) -> tuple[int, ...]:
    """Return the axes of a tensor that its reduction keeps."""
    return tuple(axis for axis in range(rank) if axis not in reduced)


def reduced_dims(source: Shape, axes: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions that are left without some axes; WorkloadError if these are none."""
    check_axes(source, axes, least=1)
    return tuple(source.dims[axis] for axis in kept_axes(source.rank, axes))


def _result_dims(shapes: Sequence[Shape], attributes: ReduceAttributes) -> tuple[int, ...]:
    return reduced_dims(shapes[0], attributes.reduced(shapes[0].rank))


def _check(shapes: Sequence[Shape], out: Shape, attributes: ReduceAttributes) -> None:
    (source,) = shapes
    check_gives(source, out.element_type, _result_dims(shapes, attributes), out)
    fraction = attributes.reduction in ("mean", "median")
    if not fraction and is_integer(source) != is_integer(out):
        kind = "integers" if is_integer(source) else "floats"
        raise WorkloadError(
            f"{attributes.reduction} of {plain(source)} gives {kind}, but out is {plain(out)}"
        )


def _larger(a: Any, b: Any) -> Any:
    return np.where(np.isnan(a), a, np.where(a > b, a, b))


def _smaller(a: Any, b: Any) -> Any:
    return np.where(np.isnan(a), a, np.where(a < b, a, b))


def _fold(step: Callable[[Any, Any], Any]) -> Callable[[Array], Array]:
    """Return the reduction of the last axis by a step from element to element, in order."""

    def of(segment: Array) -> Array:
        elements = [segment[..., n] for n in range(segment.shape[-1])]
        return np.asarray(reduce(step, elements)).astype(segment.dtype)

    return of


def _middle(segment: Array) -> Array:
    """Return the median in float32, half the sum of the two middle elements if there are two."""
    ordered, size = np.sort(segment.astype(np.float64), axis=-1), segment.shape[-1]
    below, above = ordered[..., (size - 1) // 2], ordered[..., size // 2]
    middle = above if size % 2 else (below + above) / 2
    return np.asarray(np.where(np.isnan(segment).any(axis=-1), np.nan, middle)).astype(np.float32)


_IN_ORDER: dict[str, Callable[[Array], Array]] = {
    "max": _fold(_larger),
    "min": _fold(_smaller),
    "mean": _fold(np.add),
    "median": _middle,
    "sum": _fold(np.add),
    "product": _fold(np.multiply),
}
_EXACT: dict[str, Callable[[Array], Array]] = {
    "max": lambda x: x.max(axis=-1),
    "min": lambda x: x.min(axis=-1),
    "mean": lambda x: x.mean(axis=-1, dtype=np.float64),
    "median": lambda x: np.median(x.astype(np.float64), axis=-1),
    "sum": lambda x: x.sum(axis=-1),
    "product": lambda x: x.prod(axis=-1),
}
if not _IN_ORDER.keys() == _EXACT.keys() == {*get_args(ReductionName)}:
    raise TypeError("reduce: _IN_ORDER, _EXACT and ReductionName differ")


def axes_last(array: Array, axes: Sequence[int]) -> Array:
    """Return an array with some axes as one, the last."""
    kept = kept_axes(array.ndim, axes)
    moved = array.transpose((*kept, *axes))
    return moved.reshape((*(array.shape[axis] for axis in kept), -1))


def _exact(arrays: Sequence[Array], out: Shape, attributes: ReduceAttributes) -> Array:
    array = counted(arrays[0])
    wide = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
    with np.errstate(all="ignore"):
        return np.asarray(
            _EXACT[attributes.reduction](axes_last(wide, attributes.reduced(array.ndim)))
        )


def _reference(
    arrays: Sequence[Array], out: Shape, attributes: ReduceAttributes, rules: Rules
) -> Array:
    array = counted(arrays[0])
    accumulator = np.int32 if array.dtype.kind in "iu" else np.float32
    values = axes_last(array, attributes.reduced(array.ndim)).astype(accumulator)
    count, done = values.shape[-1], False
    if count > 1 and rules.segment == 1:
        raise WorkloadError(
            f"{attributes.reduction} of {count} elements, one at a time: "
            "needs segments of 2 or more"
        )
    with np.errstate(all="ignore"):
        while not done or values.shape[-1] > 1:
            values, done = _one_level(values, _IN_ORDER[attributes.reduction], rules.segment), True
        found = values[..., 0]
        if attributes.reduction == "mean":
            found = found.astype(np.float32) / np.float32(count)
        return convert(np.asarray(found), out.dtype)


def _one_level(values: Array, in_order: Callable[[Array], Array], segment: int) -> Array:
    """Return [..., n] reduced segment by segment."""
    size = values.shape[-1]
    firsts = range(0, size, segment or size)
    parts = [in_order(values[..., first : first + (segment or size)]) for first in firsts]
    return np.stack(parts, axis=-1)


REDUCE = Row(
    operands=ONE_SHAPE,
    attributes=ReduceAttributes,
    check=_check,
    default_out=of_first_type(_result_dims),
    reference=_reference,
    exact=_exact,
    computes=True,
)
