"""Convolutions along one, two or three axes: their sizes, and their parts, which are of two.

Tensors are [images, pixels..., channels], weights [pixels..., channels of a group, filters]. Along
one axis the pixels form an image of one row. Along three, the planes of a window lie side
by side as further channels, so that one convolution of images adds all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.conv2d import Conv2dAttributes
from systolic.workload.operations.image_windows import Dilation, Padding, Stride
from systolic.workload.operations.recipe import Recipe
from systolic.workload.operations.row import Attributes, plain


@dataclass(frozen=True, slots=True)
class ConvAttributes(Attributes):
    """Where the windows lie along any number of axes, and how many groups of channels there are."""

    stride: Stride = (1,)
    padding: Padding = (0,)
    dilation: Dilation = (1,)
    groups: Annotated[
        int, Field(description="groups of channels, each with filters of its own (default: 1)")
    ] = 1

    def along(self, count: int) -> ConvolvedAxes:
        """Return where windows lie along `count` axes."""
        return axes_of(count, self.stride, self.padding, self.dilation)


AXES = ("one axis", "two axes", "three axes")


@dataclass(frozen=True, slots=True)
class ConvolvedAxes:
    """Where windows lie along each axis: distances, (before, behind) of padding, dilation."""

    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]

    def along(self) -> Iterator[tuple[int, tuple[int, int], int]]:
        """Yield distance, padding and dilation of each axis."""
        yield from zip(self.stride, self.padding, self.dilation, strict=True)

    def reach(self, kernel: Sequence[int]) -> tuple[int, ...]:
        """Return over how many pixels a window reaches along each axis."""
        return tuple((k - 1) * d + 1 for k, d in zip(kernel, self.dilation, strict=True))

    def made(self, sizes: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
        """Return how many windows there are along each axis; below 1 if they do not fit."""
        each = zip(sizes, self.reach(kernel), self.stride, self.padding, strict=True)
        return tuple((low + n + high - reach) // step + 1 for n, reach, step, (low, high) in each)

    def spread(self, sizes: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
        """Return how many pixels `sizes` windows along each axis reach over, without padding."""
        each = zip(sizes, self.reach(kernel), self.stride, self.padding, strict=True)
        return tuple((n - 1) * step + reach - low - high for n, reach, step, (low, high) in each)


def axes_of(
    count: int, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> ConvolvedAxes:
    """Return where windows lie along `count` axes; defaults are for any number.

    Raises:
        WorkloadError: a key has numbers for another number of axes, or too small ones.

    """
    found = []
    for key, given, many, least in (
        ("stride", stride, count, 1),
        ("padding", padding, 2 * count, 0),
        ("dilation", dilation, count, 1),
    ):
        numbers = tuple(given) if set(given) - {least} else (least,) * many
        if len(numbers) != many or min(numbers) < least:
            raise WorkloadError(
                f"{key}: needs {many} numbers of at least {least} for {AXES[count - 1]}, found "
                f"{list(given)}"
            )
        found.append(numbers)
    sides = tuple(zip(found[1][::2], found[1][1::2], strict=True))
    return ConvolvedAxes(found[0], sides, found[2])


def check_operands(
    kind: str, source: Shape, weights: Shape, groups: int, ranks: Sequence[int]
) -> None:
    """Raise WorkloadError unless tensors have these ranks, and groups that go together."""
    if source.rank not in ranks or weights.rank != source.rank:
        raise WorkloadError(
            f"{kind} needs a source [images, pixels..., channels] and weights [pixels..., channels "
            f"of a group, filters] of the same rank ({' or '.join(map(str, ranks))}), found "
            f"{plain(source)} and {plain(weights)}"
        )
    channels, filters = source.dims[-1], weights.dims[-1]
    if groups < 1 or channels != groups * weights.dims[-2] or filters % groups:
        raise WorkloadError(
            f"groups: {groups} of {weights.dims[-2]} channels each, and {filters} filters shared "
            f"out among them, do not go with {plain(source)}: weights are {plain(weights)}"
        )


def convolved_dims(
    kind: str, source: Shape, weights: Shape, attributes: ConvAttributes, ranks: Sequence[int]
) -> tuple[int, ...]:
    """Return the dimensions of a convolution's result; WorkloadError as `check_operands`."""
    check_operands(kind, source, weights, attributes.groups, ranks)
    where = attributes.along(source.rank - 2)
    return (source.dims[0], *where.made(source.dims[1:-1], weights.dims[:-2]), weights.dims[-1])


def check_kinds(*shapes: Shape) -> None:
    """Raise WorkloadError unless all are integers or all are floats."""
    if len({shape.dtype.kind in "iu" for shape in shapes}) > 1:
        raise WorkloadError(
            f"{', '.join(map(plain, shapes))}: integers multiply with integers and floats with "
            f"floats, into the same"
        )


def check_dims(dims: tuple[int, ...], out: Shape, what: str) -> None:
    """Raise WorkloadError unless a result has these dimensions, and each at least one index."""
    if min(dims) < 1:
        raise WorkloadError(f"{what}: windows reach over more pixels than there are")
    if out.dims != dims:
        wanted = ",".join(map(str, dims))
        raise WorkloadError(f"{what} has dimensions [{wanted}], but out is {plain(out)}")


# what counts


def counted_elements(
    source: Shape, weights: Shape, made: Sequence[int], where: ConvolvedAxes
) -> tuple[int, int, int]:
    """Return how many elements of source, weights and results meet another in a convolution.

    made: how many results there are along each axis.
    """
    found = [1, 1, 1]
    axes = zip(source.dims[1:-1], weights.dims[:-2], made, where.along(), strict=True)
    for size, kernel, many, (step, (low, _), apart) in axes:
        pairs = [
            (number * step + tap * apart - low, tap, number)
            for number in range(many)
            for tap in range(kernel)
        ]
        met = [each for each in pairs if 0 <= each[0] < size]
        for place in range(3):
            found[place] *= len({each[place] for each in met})
    pixels, taps, results = found
    images, filters = source.dims[0], weights.dims[-1]
    return (
        images * pixels * source.dims[-1],
        taps * weights.dims[-2] * filters,
        (images * results * filters),
    )


# parts


def convolve(
    recipe: Recipe, operands: tuple[str, str], where: ConvolvedAxes, groups: int, kind: str
) -> str:
    """Add the parts of a convolution along one, two or three axes; the result is of type `kind`.

    operands: the source and the weights.
    """
    return _CONVOLVE[len(where.stride)](recipe, operands, where, groups, kind)


def _of_images(
    recipe: Recipe, operands: tuple[str, str], where: ConvolvedAxes, groups: int, kind: str
) -> str:
    x, w = (recipe.shape(name) for name in operands)
    dims = (x.dims[0], *where.made(x.dims[1:-1], w.dims[:-2]), w.dims[-1])
    padding = tuple(n for pair in where.padding for n in pair)
    attributes = Conv2dAttributes(where.stride, padding, where.dilation, groups)
    return recipe.add("conv2d", operands, Shape(kind, dims), attributes)


def _of_rows(
    recipe: Recipe, operands: tuple[str, str], where: ConvolvedAxes, groups: int, kind: str
) -> str:
    source, weights = operands
    images, length, channels = recipe.shape(source).dims
    as_image = recipe.reshape(source, (images, 1, length, channels))
    flat = ConvolvedAxes((1, *where.stride), ((0, 0), *where.padding), (1, *where.dilation))
    taps = recipe.reshape(weights, (1, *recipe.shape(weights).dims))
    made = _of_images(recipe, (as_image, taps), flat, groups, kind)
    dims = recipe.shape(made).dims
    return recipe.reshape(made, (dims[0], *dims[2:]))


def _of_volumes(
    recipe: Recipe, operands: tuple[str, str], where: ConvolvedAxes, groups: int, kind: str
) -> str:
    """Put the planes of each window side by side as channels, the planes of a group together."""
    source, weights = operands
    planes, *kernel, inside, filters = recipe.shape(weights).dims
    images, _, height, width, channels = recipe.shape(source).dims
    depth = where.made(recipe.shape(source).dims[1:-1], (planes, *kernel))[0]
    none = (0, 0)
    padded = recipe.pad(source, [none, where.padding[0], none, none, none])
    parts = []
    for plane in range(planes):
        first = plane * where.dilation[0]
        stop = first + (depth - 1) * where.stride[0] + 1
        part = recipe.slice(padded, 1, first, stop, where.stride[0])
        parts.append(recipe.reshape(part, (images * depth, height, width, groups, inside)))
    beside = recipe.reshape(
        recipe.concat(parts, 4), (images * depth, height, width, planes * channels)
    )
    turned = recipe.transpose(weights, (1, 2, 0, 3, 4))
    taps = recipe.reshape(turned, (*kernel, planes * inside, filters))
    flat = ConvolvedAxes(where.stride[1:], where.padding[1:], where.dilation[1:])
    made = _of_images(recipe, (beside, taps), flat, groups, kind)
    return recipe.reshape(made, (images, depth, *recipe.shape(made).dims[1:]))


_CONVOLVE = {1: _of_rows, 2: _of_images, 3: _of_volumes}


# meaning


def windows_exact(source: Array, weights: Array, where: ConvolvedAxes, groups: int) -> Array:
    """Return a convolution in float64, or of integers in int64, tap by tap."""
    wide = np.int64 if source.dtype.kind in "iu" else np.float64
    kernel = weights.shape[:-2]
    made = where.made(source.shape[1:-1], kernel)
    padded = np.pad(source.astype(wide), [(0, 0), *where.padding, (0, 0)])
    filters = weights.shape[-1] // groups
    w = weights.astype(wide).reshape(*weights.shape[:-1], groups, filters)
    total = np.zeros((source.shape[0], *made, groups, filters), wide)
    with np.errstate(all="ignore"):
        for tap in product(*map(range, kernel)):
            x = padded[seen(tap, made, where)]
            x = x.reshape(*x.shape[:-1], groups, -1)
            total += np.einsum("...gc,cgf->...gf", x, w[tap])
    return total.reshape(*total.shape[:-2], -1)


def seen(tap: Sequence[int], made: Sequence[int], where: ConvolvedAxes) -> tuple[slice, ...]:
    """Return the pixels of a padded source that one tap of all windows takes."""
    return (
        slice(None),
        *(
            slice(k * d, k * d + (n - 1) * s + 1, s)
            for k, d, n, s in zip(tap, where.dilation, made, where.stride, strict=True)
        ),
    )
