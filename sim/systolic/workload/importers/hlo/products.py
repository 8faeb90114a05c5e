"""Rows of `dot` and `convolution`: both are brought to the order of our operations by layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from systolic.layout import Shape
from systolic.workload.importers.form import Form, Value, View
from systolic.workload.importers.hlo.attributes import (
    convolution_labels,
    number,
    numbers,
    window,
)
from systolic.workload.importers.hlo.context import (
    CannotLowerError,
    Context,
    Row,
)
from systolic.workload.importers.hlo.module import Instruction


def _dot(at: Context, made: Instruction, operands: list[Value]) -> Value:
    """Bring the operands to [batch, M, K] and [batch, K, N] by layouts."""
    lhs, rhs = (at.form.view(each) for each in operands)
    left = _Side(
        lhs.dims, numbers(made, "lhs_batch_dims", ()), numbers(made, "lhs_contracting_dims", ())
    )
    right = _Side(
        rhs.dims, numbers(made, "rhs_batch_dims", ()), numbers(made, "rhs_contracting_dims", ())
    )
    if not left.inner:
        raise CannotLowerError("a product that sums over no dimension")
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
    return at.form.reshape(View(name, product.dims, tuple(range(product.rank))), made.array)


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
    form: Form, value: View, side: _Side, order: tuple[int, ...], last: Sequence[int]
) -> str:
    """Return an operand as [batch, rows, columns], `last` being the dimensions of its columns."""
    turned = form.transpose(
        form.view(View(form.whole(value), value.dims, tuple(range(len(value.dims))))), order
    )
    cols = math.prod(side.dims[axis] for axis in last)
    batch = tuple(side.dims[axis] for axis in side.batch)
    rows = math.prod(value.dims) // max(cols * math.prod(batch), 1)
    element_type = form.shape(value).element_type
    return form.whole(form.reshape(turned, Shape(element_type, (*batch, rows, cols))))


def _convolution(at: Context, made: Instruction, operands: list[Value]) -> Value:
    """Bring images and weights to the order of `conv2d` by layouts."""
    labels = convolution_labels(made)
    if len(labels.pixels) not in (1, 2):
        raise CannotLowerError(f"a convolution over {len(labels.pixels)} dimensions")
    seen = window(made, len(labels.pixels))
    if any(each > 1 for each in seen.base_dilation) or any(seen.reversed):
        raise CannotLowerError("a transposed convolution, or one with reversed weights")
    if min((*seen.low, *seen.high)) < 0 or number(made, "batch_group_count", 1) > 1:
        raise CannotLowerError("a convolution with negative padding, or with groups of images")
    source = at.form.transpose(operands[0], (labels.batch, *labels.pixels, labels.channels))
    weights = at.form.transpose(operands[1], (*labels.weight_pixels, labels.inputs, labels.filters))
    one = len(labels.pixels) == 1
    if one:
        source, weights = _flat_images(at.form, source), _flat_weights(at.form, weights)
    stride, dilation = two(seen.stride, 1), two(seen.dilation, 1)
    low, high = two(seen.low, 0), two(seen.high, 0)
    inner = [
        made.array.dims[axis] for axis in (labels.out_batch, *labels.out_pixels, labels.out_filters)
    ]
    dims = [inner[0], 1, *inner[1:]] if one else inner
    name = at.form.node(
        "conv2d",
        (at.form.whole(source), at.form.whole(weights)),
        Shape(made.array.element_type, dims),
        stride=None if stride == (1, 1) else stride,
        padding=(low[0], high[0], low[1], high[1]) if any((*low, *high)) else None,
        dilation=None if dilation == (1, 1) else dilation,
        groups=number(made, "feature_group_count", 1),
    )
    found: Value = View(name, tuple(dims), tuple(range(4)))
    if one:
        found = at.form.reshape(found, Shape(made.array.element_type, inner))
    wanted = (labels.out_batch, *labels.out_pixels, labels.out_filters)
    order = sorted(range(len(wanted)), key=lambda n: wanted[n])
    return at.form.transpose(found, order)


def two(given: tuple[int, ...], other: int) -> tuple[int, int]:
    """Return numbers for height and width; of one dimension the height gets the other number."""
    return (other, given[0]) if len(given) == 1 else (given[0], given[1])


def _flat_images(form: Form, source: View) -> View:
    images, width, channels = source.dims
    element_type = form.shape(source).element_type
    return form.reshape(source, Shape(element_type, (images, 1, width, channels)))


def _flat_weights(form: Form, weights: View) -> View:
    return form.reshape(weights, Shape(form.shape(weights).element_type, (1, *weights.dims)))


PRODUCTS: dict[str, Row] = {"dot": _dot, "convolution": _convolution}
