"""Transposed convolution: each pixel adds its weights to a window of the result, and these overlap.

Source [images, pixels..., channels], weights [pixels..., channels of a group, filters], along one,
two or three axes. Result o sums source i times weight k wherever o + padding = i * stride + k *
dilation. A stride of s is s phases of results, each a convolution by every s-th weight: they are
the filters of one convolution, so that no zero between pixels is multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.convolutions import (
    ConvAttributes,
    ConvolvedAxes,
    check_dims,
    check_kinds,
    check_operands,
    convolve,
    counted_elements,
    seen,
)
from systolic.workload.operations.image_windows import PixelNumbers
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import Operand, Row, of_first_type, plain

RANKS = (3, 4, 5)


@dataclass(frozen=True, slots=True)
class ConvTransposeAttributes(ConvAttributes):
    """Where windows lie in the result, groups of channels, and how much larger the result is."""

    output_padding: Annotated[
        PixelNumbers | None,
        Field(description="further pixels at the end of each axis of the result (default: 0)"),
    ] = None

    def more(self, count: int) -> tuple[int, ...]:
        """Return the further pixels of each axis."""
        return (0,) * count if self.output_padding is None else self.output_padding


def _result_dims(shapes: Sequence[Shape], attributes: ConvTransposeAttributes) -> tuple[int, ...]:
    source, weights = shapes
    check_operands("conv_transpose", source, weights, attributes.groups, RANKS)
    count = source.rank - 2
    more, where = attributes.more(count), attributes.along(count)
    if len(more) != count or min(more) < 0:
        raise WorkloadError(
            f"output_padding: needs {count} numbers of at least 0, found {list(more)}"
        )
    sizes = where.spread(source.dims[1:-1], weights.dims[:-2])
    made = (size + n for size, n in zip(sizes, more, strict=True))
    return (source.dims[0], *made, weights.dims[-1])


def _check(shapes: Sequence[Shape], out: Shape, attributes: ConvTransposeAttributes) -> None:
    source, weights = shapes
    dims = _result_dims(shapes, attributes)
    check_dims(dims, out, f"{plain(source)} with weights {plain(weights)}")
    check_kinds(*shapes, out)


def _needs(shapes: Sequence[Shape], out: Shape, attributes: ConvTransposeAttributes) -> list[int]:
    source, weights = shapes
    where = attributes.along(out.rank - 2)
    turned = Shape("f32", (*weights.dims[:-2], weights.dims[-1], source.dims[-1]))
    _, taps, pixels = counted_elements(out, turned, source.dims[1:-1], where)
    return [pixels, taps // attributes.groups]


def conv_transpose_parts(
    shapes: Sequence[Shape], out: Shape, attributes: ConvTransposeAttributes
) -> list[CompositePart]:
    """Return the operations of a transposed convolution."""
    recipe, where = Recipe(shapes), attributes.along(out.rank - 2)
    spread_back(recipe, ("0", "1"), where, attributes.groups, out)
    return recipe.done(out)


def spread_back(
    recipe: Recipe, operands: tuple[str, str], where: ConvolvedAxes, groups: int, out: Shape
) -> str:
    """Add the parts by which pixels are spread over the windows of `out`."""
    source, weights = operands
    count, sizes, kernel = out.rank - 2, out.dims[1:-1], recipe.shape(weights).dims[:-2]
    weights, taps, dilation = _phases(recipe, weights, where, groups)
    pixels = recipe.shape(source).dims[1:-1]
    whole = tuple((q - 1) * d for q, d in zip(taps, dilation, strict=True))
    first = tuple(
        min(low // s, margin)
        for (low, _), s, margin in zip(where.padding, where.stride, whole, strict=True)
    )
    last = tuple(
        max(n + margin - 1 - max(0, (low + size - 1) // s), 0)
        for n, margin, (low, _), size, s in zip(
            pixels, whole, where.padding, sizes, where.stride, strict=True
        )
    )
    # results before the first and behind the last that are wanted are left out, but no pixels
    last = tuple(min(n, margin) for n, margin in zip(last, whole, strict=True))
    padding = tuple(
        (margin - low, margin - high) for margin, low, high in zip(whole, first, last, strict=True)
    )
    inner = ConvolvedAxes((1,) * count, padding, dilation)
    made = convolve(recipe, (source, weights), inner, groups, out.element_type)
    made = _phases_between(recipe, made, where.stride, groups)
    begin = (low - n * s for (low, _), n, s in zip(where.padding, first, where.stride, strict=True))
    there = recipe.shape(made).dims[1:-1]
    sides = [(-low, size + low - n) for low, size, n in zip(begin, sizes, there, strict=True)]
    assert len(kernel) == count
    return recipe.pad(made, [(0, 0), *sides, (0, 0)])


def _phases(
    recipe: Recipe, weights: str, where: ConvolvedAxes, groups: int
) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Return the weights backwards, the phases of a stride as filters; their taps and dilation."""
    *kernel, inside, filters = recipe.shape(weights).dims
    count = len(kernel)
    if all(stride == 1 for stride in where.stride):
        return recipe.reverse(weights, range(count)), tuple(kernel), where.dilation
    reach, none = where.reach(kernel), (0, 0)
    taps = tuple(-(-n // s) for n, s in zip(reach, where.stride, strict=True))
    sides = [(0, q * s - n) for q, s, n in zip(taps, where.stride, reach, strict=True)]
    between = (*(d - 1 for d in where.dilation), 0, 0)
    whole = recipe.pad(weights, [*sides, none, none], between=between)
    cut = [n for pair in zip(taps, where.stride, strict=True) for n in pair]
    each = filters // groups
    seen_as = recipe.reshape(whole, (*cut, inside, groups, each))
    order = [2 * n for n in range(count)]
    order += [2 * count, 2 * count + 1, *(2 * n + 1 for n in range(count)), 2 * count + 2]
    turned = recipe.reverse(recipe.transpose(seen_as, order), range(count))
    many = int(np.prod(where.stride)) * filters
    return recipe.reshape(turned, (*taps, inside, many)), taps, (1,) * count


def _phases_between(recipe: Recipe, made: str, stride: Sequence[int], groups: int) -> str:
    """Return results whose phases, which are filters, lie between one another as pixels."""
    images, *sizes, many = recipe.shape(made).dims
    count, filters = len(sizes), many // int(np.prod(stride))
    seen_as = recipe.reshape(made, (images, *sizes, groups, *stride, filters // groups))
    order = [0]
    for axis in range(count):
        order += [1 + axis, 2 + count + axis]
    turned = recipe.transpose(seen_as, [*order, 1 + count, 2 + 2 * count])
    between = (n * s for n, s in zip(sizes, stride, strict=True))
    return recipe.reshape(turned, (images, *between, filters))


def spread_exact(
    source: Array, weights: Array, where: ConvolvedAxes, groups: int, sizes: Sequence[int]
) -> Array:
    """Return pixels spread over windows in float64, or of integers in int64, tap by tap."""
    wide = np.int64 if source.dtype.kind in "iu" else np.float64
    kernel, pixels = weights.shape[:-2], source.shape[1:-1]
    filters = weights.shape[-1] // groups
    x = source.astype(wide).reshape(*source.shape[:-1], groups, -1)
    w = weights.astype(wide).reshape(*weights.shape[:-1], groups, filters)
    room = [
        max((n - 1) * s + reach, size + low)
        for n, s, reach, size, (low, _) in zip(
            pixels, where.stride, where.reach(kernel), sizes, where.padding, strict=True
        )
    ]
    total = np.zeros((source.shape[0], *room, groups, filters), wide)
    with np.errstate(all="ignore"):
        for tap in product(*map(range, kernel)):
            total[seen(tap, pixels, where)] += np.einsum("...gc,cgf->...gf", x, w[tap])
    inside = (slice(low, low + size) for (low, _), size in zip(where.padding, sizes, strict=True))
    found = total[(slice(None), *inside)]
    return found.reshape(*found.shape[:-2], -1)


def _exact(arrays: Sequence[Array], out: Shape, attributes: ConvTransposeAttributes) -> Array:
    where = attributes.along(out.rank - 2)
    source, weights = arrays
    return spread_exact(source, weights, where, attributes.groups, out.dims[1:-1])


CONV_TRANSPOSE = Row(
    operands=(
        Operand("source", "XLA shape [images, pixels.., channels] of a conv_transpose's source"),
        Operand("weights", "XLA shape [pixels.., channels, filters] of a conv_transpose's weights"),
    ),
    attributes=ConvTransposeAttributes,
    check=_check,
    default_out=of_first_type(_result_dims),
    reference=reference_of(conv_transpose_parts),
    exact=_exact,
    needs=_needs,
    computes=True,
    parts=conv_transpose_parts,
)
