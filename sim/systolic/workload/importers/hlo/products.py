"""Rows of `dot` and `convolution`: both are brought to the order of our operations by layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from systolic.layout import Shape
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelForm, ModelValue, ModelView
from systolic.workload.importers.hlo.attributes import (
    convolution_labels,
    number,
    numbers,
    window,
)
from systolic.workload.importers.hlo.context import HloContext, HloRow
from systolic.workload.importers.hlo.module import HloInstruction
from systolic.workload.importers.windows import convolved


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
    """An operand of a dot: its dimensions, the batch's among them, and which are summed over."""

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
    """Bring images and weights to the order of `conv2d` by layouts."""
    labels, form = convolution_labels(made), at.form
    if number(made, "batch_group_count", 1) > 1:
        raise CannotLowerError("a convolution with groups of images")
    seen = window(made, len(labels.pixels))
    source = form.transpose(operands[0], (labels.batch, *labels.pixels, labels.channels))
    weights = form.transpose(operands[1], (*labels.weight_pixels, labels.inputs, labels.filters))
    order = (labels.out_batch, *labels.out_pixels, labels.out_filters)
    out = Shape(made.array.element_type, [made.array.dims[axis] for axis in order])
    groups = number(made, "feature_group_count", 1)
    found = convolved(form, (source, weights), seen, groups, out)
    return form.transpose(found, sorted(range(len(order)), key=lambda n: order[n]))


PRODUCTS: dict[str, HloRow] = {"dot": _dot, "convolution": _convolution}
