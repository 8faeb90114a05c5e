"""Rows of `dot` and `convolution`: both are brought to the order of our operations by layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from systolic.layout import Shape
from systolic.workload.importers.form import ModelForm, ModelValue, ModelView
from systolic.workload.importers.hlo.attributes import (
    HloWindow,
    convolution_labels,
    number,
    numbers,
    window,
)
from systolic.workload.importers.hlo.context import (
    CannotLowerError,
    HloContext,
    HloRow,
)
from systolic.workload.importers.hlo.module import HloInstruction


def _dot(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    """Bring the operands to [batch, M, K] and [batch, K, N] by layouts."""
    lhs, rhs = (at.form.view(each) for each in operands)
    left = _Side(
        lhs.dims, numbers(made, "lhs_batch_dims", ()), numbers(made, "lhs_contracting_dims", ())
    )
    right = _Side(
        rhs.dims, numbers(made, "rhs_batch_dims", ()), numbers(made, "rhs_contracting_dims", ())
    )
    if not left.inner:
        return _outer(at.form, (lhs, left), (rhs, right), made.array)
    one = _matrices(at.form, lhs, left, (*left.batch, *left.free, *left.inner), last=left.inner)
    other = _matrices(
        at.form, rhs, right, (*right.batch, *right.inner, *right.free), last=right.free
    )
    batch = tuple(left.dims[axis] for axis in left.batch)
    rows = math.prod(left.dims[axis] for axis in left.free)
    cols = math.prod(right.dims[axis] for axis in right.free)
    product = Shape(made.array.element_type, (*batch, rows, cols))
    out = made.array if made.array.dims == product.dims else product
    name = at.form.node("matmul", (one, other), out)
    return at.form.reshape(ModelView(name, product.dims, tuple(range(product.rank))), made.array)


def _outer(
    form: ModelForm, one: tuple[ModelView, _Side], other: tuple[ModelView, _Side], out: Shape
) -> ModelValue:
    """Return a product that sums over no dimension: each element by each, as far as spread."""
    batch, rows = len(one[1].batch), len(one[1].free)
    seen = list[ModelView]()
    for (value, side), first in ((one, batch), (other, batch + rows)):
        view = form.transpose(value, (*side.batch, *side.free))
        if form.shape(view).element_type != out.element_type:
            view = form.unary(view, "cast", out.element_type)
        own = range(first, first + len(side.free))
        seen.append(view.spread(out.dims, (*range(batch), *own)))
    return form.binary("multiply", seen[0], seen[1], out)


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand of a dot: its dimensions, those of the batch, and those that are summed over."""

    dims: tuple[int, ...]
    batch: tuple[int, ...]
    inner: tuple[int, ...]

    @property
    def free(self) -> tuple[int, ...]:
        used = (*self.batch, *self.inner)
        return tuple(axis for axis in range(len(self.dims)) if axis not in used)


def _matrices(
    form: ModelForm, value: ModelView, side: _Side, order: tuple[int, ...], last: Sequence[int]
) -> str:
    """Return an operand as [batch, rows, columns], `last` being the dimensions of its columns."""
    turned = form.transpose(
        form.view(ModelView(form.whole(value), value.dims, tuple(range(len(value.dims))))), order
    )
    cols = math.prod(side.dims[axis] for axis in last)
    batch = tuple(side.dims[axis] for axis in side.batch)
    rows = math.prod(value.dims) // max(cols * math.prod(batch), 1)
    element_type = form.shape(value).element_type
    return form.whole(form.reshape(turned, Shape(element_type, (*batch, rows, cols))))


def _convolution(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    """Bring images and weights to the order of `conv2d` by layouts.

    Gaps between pixels (a transposed convolution) and negative paddings are made before it.
    Reversed weights are taken from behind.
    """
    labels, form = convolution_labels(made), at.form
    rank = len(labels.pixels)
    if rank not in (1, 2, 3):
        raise CannotLowerError(f"a convolution over {rank} dimensions")
    if number(made, "batch_group_count", 1) > 1:
        raise CannotLowerError("a convolution with groups of images")
    seen = window(made, rank)
    source = form.transpose(operands[0], (labels.batch, *labels.pixels, labels.channels))
    weights = form.transpose(operands[1], (*labels.weight_pixels, labels.inputs, labels.filters))
    sides = [
        (min(low, 0), min(high, 0), gap - 1)
        for low, high, gap in zip(seen.low, seen.high, seen.base_dilation, strict=True)
    ]
    source = form.padded(source, [(0, 0, 0), *sides, (0, 0, 0)])
    for axis, backwards in enumerate(seen.reversed):
        if backwards:
            weights = form.take(weights, axis, range(seen.size[axis] - 1, -1, -1))
    order = (labels.out_batch, *labels.out_pixels, labels.out_filters)
    out = Shape(made.array.element_type, [made.array.dims[axis] for axis in order])
    groups = number(made, "feature_group_count", 1)
    made_images = _images if rank < 3 else _volumes
    found = made_images(form, (source, weights), seen, groups, out)
    return form.transpose(found, sorted(range(len(order)), key=lambda n: order[n]))


def _images(
    form: ModelForm, operands: tuple[ModelView, ModelView], seen: HloWindow, groups: int, out: Shape
) -> ModelView:
    """Return a convolution of images [images, (height,) width, channels] with weights."""
    source, weights = operands
    kind = form.shape(source).element_type
    if len(seen.size) == 1:
        images, width, channels = source.dims
        source = form.reshape(source, Shape(kind, (images, 1, width, channels)))
        weights = form.reshape(weights, Shape(form.shape(weights).element_type, (1, *weights.dims)))
    stride, dilation = two(seen.stride, 1), two(seen.dilation, 1)
    low, high = (two(tuple(max(n, 0) for n in each), 0) for each in (seen.low, seen.high))
    dims = (out.dims[0], *two(out.dims[1:-1], 1), out.dims[-1])
    name = form.node(
        "conv2d",
        (form.whole(source), form.whole(weights)),
        out if out.rank == 4 else Shape(out.element_type, dims),
        stride=None if stride == (1, 1) else stride,
        padding=(low[0], high[0], low[1], high[1]) if any((*low, *high)) else None,
        dilation=None if dilation == (1, 1) else dilation,
        groups=groups,
    )
    return form.reshape(ModelView(name, dims, tuple(range(4))), out)


def _volumes(
    form: ModelForm, operands: tuple[ModelView, ModelView], seen: HloWindow, groups: int, out: Shape
) -> ModelView:
    """Return a convolution of volumes: for each plane of the weights one of images, added up."""
    source, weights = operands
    flat = seen.along(1, 2)
    source = form.padded(
        source,
        [
            (0, 0, 0),
            (max(seen.low[0], 0), max(seen.high[0], 0), 0),
            (0, 0, 0),
            (0, 0, 0),
            (0, 0, 0),
        ],
    )
    images, _, height, width, channels = source.dims
    kind, depth = form.shape(source).element_type, out.dims[1]
    plane = Shape(out.element_type, (images * depth, *out.dims[2:]))
    total: ModelView | None = None
    for at in range(seen.size[0]):
        first = at * seen.dilation[0]
        last = first + (depth - 1) * seen.stride[0] + 1
        cut = [slice(0, n, 1) for n in source.dims]
        cut[1] = slice(first, last, seen.stride[0])
        planes = form.reshape(
            form.box(source, cut), Shape(kind, (images * depth, height, width, channels))
        )
        each = form.box(
            weights, [slice(at, at + 1, 1), *(slice(0, n, 1) for n in weights.dims[1:])]
        )
        flat_weights = form.reshape(each, Shape(form.shape(weights).element_type, weights.dims[1:]))
        made = _images(form, (planes, flat_weights), flat, groups, plane)
        total = made if total is None else form.binary("add", total, made, plane)
    assert total is not None
    return form.reshape(total, out)


def two(given: tuple[int, ...], other: int) -> tuple[int, int]:
    """Return numbers for height and width; of one dimension the height gets the other number."""
    return (other, given[0]) if len(given) == 1 else (given[0], given[1])


PRODUCTS: dict[str, HloRow] = {"dot": _dot, "convolution": _convolution}
