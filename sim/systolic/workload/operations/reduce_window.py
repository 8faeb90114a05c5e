"""Reduce window: the largest, the mean, ... of each window that moves along any axes of a tensor.

It is made of `pool`, which has windows along two axes of images: two axes at a time. A mean may
leave padding out of its count; windows may reach beyond the end (`ceil_mode`), and what is there
never counts. Such a mean is the sum divided by the count of its place, axis by axis, in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.convolutions import ConvolvedAxes, axes_of
from systolic.workload.operations.image_windows import Dilation, Padding, PixelNumbers, Stride
from systolic.workload.operations.pool import PoolAttributes
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.reduce import (
    REDUCE,
    ReduceAttributes,
    ReducedAxes,
    ReductionName,
)
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    check_gives,
    is_integer,
    of_first_type,
    plain,
)

MOST_AXES = 3
BESIDE = ConvolvedAxes((1,), ((0, 0),), (1,))
"""Along an axis of one place, or whose windows take one."""
PooledWindows = tuple[Sequence[int], ConvolvedAxes]
"""The sizes of windows along some axes, and where they lie there."""


@dataclass(frozen=True, slots=True)
class ReduceWindowAttributes(Attributes):
    """The reduction, the axes along which windows move, and where they lie there."""

    reduction: Annotated[ReductionName, Field(description="what is made of a window")]
    window: Annotated[PixelNumbers, Field(description="elements of a window along each axis")]
    stride: Stride = (1,)
    padding: Padding = (0,)
    dilation: Dilation = (1,)
    axes: Annotated[
        ReducedAxes | None,
        Field(description="axes that windows move along (default: all but the first and last)"),
    ] = None
    ceil_mode: Annotated[
        bool,
        Field(description="windows that begin inside may reach beyond the end (default: false)"),
    ] = False
    count_padding: Annotated[
        bool, Field(description="a mean counts the elements of the padding (default: true)")
    ] = True

    def of(self, rank: int) -> tuple[int, ...]:
        """Return the axes of a tensor of that rank."""
        return tuple(range(1, rank - 1)) if self.axes is None else tuple(self.axes)

    def along(self, sizes: Sequence[int]) -> ConvolvedAxes:
        """Return where windows lie along axes of these sizes, with what they need at the end."""
        where = axes_of(len(sizes), self.stride, self.padding, self.dilation)
        if not self.ceil_mode:
            return where
        sides = []
        for n, k, (step, (low, high), apart) in zip(sizes, self.window, where.along(), strict=True):
            reach = (k - 1) * apart + 1
            made = -(-(low + n + high - reach) // step) + 1
            if (made - 1) * step >= low + n:  # a window begins inside, or in the padding before
                made -= 1
            sides.append((low, max(high, (made - 1) * step + reach - low - n)))
        return ConvolvedAxes(where.stride, tuple(sides), where.dilation)

    def counts(self, sizes: Sequence[int]) -> list[tuple[int, ...]]:
        """Return for each axis how many elements of each window a mean counts."""
        given, found = axes_of(len(sizes), self.stride, self.padding, self.dilation), []
        made = self.along(sizes).made(sizes, self.window)
        for n, k, many, (step, (low, high), apart) in zip(
            sizes, self.window, made, given.along(), strict=True
        ):
            first, stop = (-low, n + high) if self.count_padding else (0, n)
            places = [[at * step + tap * apart - low for tap in range(k)] for at in range(many)]
            found.append(tuple(sum(first <= p < stop for p in window) for window in places))
        return found


def _sizes(source: Shape, attributes: ReduceWindowAttributes) -> tuple[int, ...]:
    return tuple(source.dims[axis] for axis in attributes.of(source.rank))


def _result_dims(shapes: Sequence[Shape], attributes: ReduceWindowAttributes) -> tuple[int, ...]:
    (source,) = shapes
    axes, window = attributes.of(source.rank), attributes.window
    if not 1 <= len(axes) <= MOST_AXES or list(axes) != sorted({*axes} & {*range(source.rank)}):
        raise WorkloadError(
            f"axes: needs one to {MOST_AXES} different axes of {plain(source)}, ascending, found "
            f"{list(axes)}"
        )
    if len(window) != len(axes) or min(window) < 1:
        raise WorkloadError(
            f"window: needs {len(axes)} numbers of at least 1, for axes {list(axes)} of "
            f"{plain(source)}, found {list(window)}"
        )
    sizes = _sizes(source, attributes)
    where = attributes.along(sizes)
    made = where.made(sizes, window)
    if min(made) < 1:
        raise WorkloadError(
            f"a window reaches over {list(where.reach(window))} elements, more than there are in "
            f"{plain(source)} with its padding"
        )
    padded = any(map(any, where.padding))
    if attributes.reduction == "median" and (padded or len(axes) > 2):
        raise WorkloadError("a median has no padding, and windows along two axes at most")
    if attributes.reduction == "mean" and min(map(min, attributes.counts(sizes))) < 1:
        raise WorkloadError("a mean of a window of padding alone, which has no elements that count")
    place = dict(zip(axes, made, strict=True))
    return tuple(place.get(axis, size) for axis, size in enumerate(source.dims))


def _check(shapes: Sequence[Shape], out: Shape, attributes: ReduceWindowAttributes) -> None:
    (source,) = shapes
    check_gives(source, out.element_type, _result_dims(shapes, attributes), out)
    # The types are the same as in a reduction.
    seen = Shape(source.element_type, (*out.dims, 1))
    REDUCE.check([seen], out, ReduceAttributes(attributes.reduction, (out.rank,)))


def _needs(
    shapes: Sequence[Shape], out: Shape, attributes: ReduceWindowAttributes
) -> Sequence[int]:
    (source,) = shapes
    sizes = _sizes(source, attributes)
    where, total = attributes.along(sizes), source.num_elements() // math.prod(sizes)
    made = where.made(sizes, attributes.window)
    for n, k, many, (step, (low, _), apart) in zip(
        sizes, attributes.window, made, where.along(), strict=True
    ):
        places = {at * step + tap * apart - low for at in range(many) for tap in range(k)}
        total *= len(places & {*range(n)})
    return [total]


# parts


def reduce_window_parts(
    shapes: Sequence[Shape], out: Shape, attributes: ReduceWindowAttributes
) -> list[CompositePart]:
    """Return the operations of windows along any axes."""
    recipe, (source,) = Recipe(shapes), shapes
    axes, sizes = attributes.of(source.rank), _sizes(source, attributes)
    where, reduction = attributes.along(sizes), attributes.reduction
    counts = attributes.counts(sizes)
    at_once = reduction != "mean" or (len(axes) <= 2 and counts == _whole(attributes, counts))
    others = [axis for axis in range(source.rank) if axis not in axes]
    order = [*others[:1], *axes, *others[1:]]
    x = recipe.transpose("0", order, lies=True)
    dims = recipe.shape(x).dims
    first = dims[: len(others[:1])]
    x = recipe.reshape(x, (math.prod(first), *sizes, math.prod(dims[len(first) + len(axes) :])))
    each = reduction if at_once else "sum"
    kind = out.element_type if at_once else ("s32" if is_integer(source) else "f32")
    x = _pooled(recipe, x, (attributes.window, where), each, kind)
    if not at_once:
        x = _divided(recipe, recipe.single(x), counts)
        x = recipe.cast(x, out.element_type)
    made = where.made(sizes, attributes.window)
    x = recipe.reshape(x, (*first, *made, *dims[len(first) + len(axes) :]))
    back = sorted(range(len(order)), key=order.__getitem__)
    recipe.transpose(x, back, lies=True)
    return recipe.done(out)


def _whole(attributes: ReduceWindowAttributes, counts: Sequence[Sequence[int]]) -> list[object]:
    """Return the counts of windows that all count all of their elements."""
    return [(k,) * len(each) for k, each in zip(attributes.window, counts, strict=True)]


def _pooled(
    recipe: Recipe, x: str, windows: PooledWindows, reduction: ReductionName, kind: str
) -> str:
    """Pool [images, pixels..., channels], the last two axes first, then one before them."""
    window, where = windows
    images, *sizes, channels = recipe.shape(x).dims
    made = where.made(sizes, window)
    if len(sizes) == 3:
        flat = recipe.reshape(x, (images * sizes[0], *sizes[1:], channels))
        inner = "s32" if is_integer(recipe.shape(x)) else "f32"
        pair = _pool(recipe, flat, (window[1:], _some(where, 1, 3)), reduction, inner)
        column = recipe.reshape(pair, (images, sizes[0], made[1] * made[2], channels))
        down = (window[0], 1), _both(_some(where, 0, 1), BESIDE)
        found = _pool(recipe, column, down, reduction, kind)
    elif len(sizes) == 1:
        row = recipe.reshape(x, (images, 1, sizes[0], channels))
        across = (1, window[0]), _both(BESIDE, where)
        found = _pool(recipe, row, across, reduction, kind)
    else:
        found = _pool(recipe, x, windows, reduction, kind)
    return recipe.reshape(found, (images, *made, channels))


def _some(where: ConvolvedAxes, first: int, stop: int) -> ConvolvedAxes:
    return ConvolvedAxes(
        where.stride[first:stop], where.padding[first:stop], where.dilation[first:stop]
    )


def _both(one: ConvolvedAxes, other: ConvolvedAxes) -> ConvolvedAxes:
    return ConvolvedAxes(
        one.stride + other.stride, one.padding + other.padding, one.dilation + other.dilation
    )


def _pool(
    recipe: Recipe, x: str, windows: PooledWindows, reduction: ReductionName, kind: str
) -> str:
    window, where = windows
    images, *sizes, channels = recipe.shape(x).dims
    padding = tuple(n for pair in where.padding for n in pair)
    attributes = PoolAttributes(reduction, tuple(window), where.stride, padding, where.dilation)
    dims = (images, *where.made(sizes, window), channels)
    return recipe.add("pool", (x,), Shape(kind, dims), attributes)


def _divided(recipe: Recipe, x: str, counts: Sequence[Sequence[int]]) -> str:
    """Return sums [images, pixels..., channels] divided by the count of each place."""
    alike = math.prod(each[0] for each in counts if len({*each}) == 1)
    for axis, each in enumerate(counts, start=1):
        if len({*each}) == 1:
            continue
        parts, first = [], 0
        for count, run in groupby(each):
            stop = first + len([*run])
            part = recipe.slice(x, axis, first, stop)
            parts.append(recipe.scalar("divide", part, float(count * alike)))
            first = stop
        x, alike = recipe.concat(parts, axis), 1
    return recipe.scalar("divide", x, float(alike)) if alike > 1 else x


# meaning


def _exact(arrays: Sequence[Array], out: Shape, attributes: ReduceWindowAttributes) -> Array:
    (array,) = arrays
    axes = attributes.of(array.ndim)
    sizes = tuple(array.shape[axis] for axis in axes)
    where = attributes.along(sizes)
    wide = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
    value = PoolAttributes(attributes.reduction, ()).value(array.dtype)
    sides = dict(zip(axes, where.padding, strict=True))
    padded = np.pad(
        wide, [sides.get(axis, (0, 0)) for axis in range(array.ndim)], constant_values=value
    )
    taps = []
    for tap in product(*map(range, attributes.window)):
        cut = [slice(None)] * array.ndim
        for axis, k, step, apart in zip(axes, tap, where.stride, where.dilation, strict=True):
            cut[axis] = slice(k * apart, k * apart + (out.dims[axis] - 1) * step + 1, step)
        taps.append(padded[tuple(cut)])
    seen = np.stack(taps, axis=-1)
    if attributes.reduction != "mean":
        return REDUCE.exact([seen], out, ReduceAttributes(attributes.reduction, (out.rank,)))
    total: Array = seen.astype(np.float64).sum(axis=-1)
    for axis, each in zip(axes, attributes.counts(sizes), strict=True):
        total = total / np.array(each).reshape([-1 if n == axis else 1 for n in range(out.rank)])
    return total


REDUCE_WINDOW = Row(
    operands=ONE_SHAPE,
    attributes=ReduceWindowAttributes,
    check=_check,
    default_out=of_first_type(_result_dims),
    reference=reference_of(reduce_window_parts),
    exact=_exact,
    needs=_needs,
    computes=True,
    parts=reduce_window_parts,
)
