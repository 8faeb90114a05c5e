"""Windows that move over the pixels of images: convolutions and pools of every reader.

A window may move over one, two or three dimensions. Graphs have images of two: a third is a sum
over planes, and one alone is an image of one row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from systolic.layout import Shape
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelForm, ModelValue, ModelView


@dataclass(frozen=True, slots=True)
class ModelWindow:
    """A window over dimensions: for each its size, stride, padding, and dilations."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    base_dilation: tuple[int, ...]
    dilation: tuple[int, ...]
    reversed: tuple[bool, ...]

    def along(self, *axes: int) -> ModelWindow:
        """Return the window over some of its dimensions."""
        return ModelWindow(*(tuple(each[axis] for axis in axes) for each in astuple(self)))

    def made(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        """Return how many windows there are along each dimension."""
        found = []
        for axis, dim in enumerate(dims):
            spread = (dim - 1) * self.base_dilation[axis] + 1 if dim else 0
            reach = (self.size[axis] - 1) * self.dilation[axis] + 1
            padded = spread + self.low[axis] + self.high[axis]
            found.append(max((padded - reach) // self.stride[axis] + 1, 0))
        return tuple(found)


CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
"""By the number of dimensions along which windows move, from one on."""


def convolved(
    form: ModelForm,
    operands: tuple[ModelView, ModelView],
    seen: ModelWindow,
    groups: int,
    out: Shape,
) -> ModelView:
    """Return a convolution of [images, pixels..., channels] with [pixels..., channels, filters].

    Gaps between pixels make a transposed convolution, unless windows also step. Negative paddings
    are made before it. Reversed weights are taken from behind.
    """
    if len(seen.size) not in (1, 2, 3):
        raise CannotLowerError(f"a convolution over {len(seen.size)} dimensions")
    if max(seen.base_dilation) > 1 and max(seen.stride) == 1:
        return _transposed(form, operands, seen, groups, out)
    source, weights = operands
    sides = [
        (min(low, 0), min(high, 0), gap - 1)
        for low, high, gap in zip(seen.low, seen.high, seen.base_dilation, strict=True)
    ]
    source = form.padded(source, [(0, 0, 0), *sides, (0, 0, 0)])
    name = form.node(
        CONVOLUTIONS[len(seen.size) - 1],
        (form.whole(source), form.whole(_turned(form, weights, seen.reversed))),
        out,
        stride=_unless(1, seen.stride),
        padding=_unless(0, _in_pairs(seen.low, seen.high)),
        dilation=_unless(1, seen.dilation),
        groups=groups,
    )
    return ModelView(name, out.dims, tuple(range(out.rank)))


def _transposed(
    form: ModelForm,
    operands: tuple[ModelView, ModelView],
    seen: ModelWindow,
    groups: int,
    out: Shape,
) -> ModelView:
    """Return a convolution of pixels with gaps between them: each adds its weights to a window.

    What is padded by more than a window reaches has zeros as its first or last results.
    """
    reach = [(n - 1) * apart + 1 for n, apart in zip(seen.size, seen.dilation, strict=True)]
    sides = [
        tuple(far - 1 - n for n in each)
        for far, *each in zip(reach, seen.low, seen.high, strict=True)
    ]
    zeros = [(0, 0, 0), *((max(-low, 0), max(-high, 0), 0) for low, high in sides), (0, 0, 0)]
    made = [n - low - high for n, (low, high, _) in zip(out.dims, zeros, strict=True)]
    source, weights = operands
    name = form.node(
        "conv_transpose",
        (
            form.whole(source),
            form.whole(_turned(form, weights, tuple(not each for each in seen.reversed))),
        ),
        Shape(out.element_type, made),
        stride=seen.base_dilation,
        padding=_unless(0, _in_pairs(*zip(*sides, strict=True))),
        dilation=_unless(1, seen.dilation),
        groups=groups,
    )
    return form.padded(ModelView(name, tuple(made), tuple(range(out.rank))), zeros)


def _turned(form: ModelForm, weights: ModelView, backwards: Sequence[bool]) -> ModelView:
    """Return weights taken from behind along some axes."""
    for axis, is_turned in enumerate(backwards):
        if is_turned:
            weights = form.take(weights, axis, range(weights.dims[axis] - 1, -1, -1))
    return weights


def _in_pairs(low: Sequence[int], high: Sequence[int]) -> tuple[int, ...]:
    """Return paddings of at least 0 as operations have them: before and behind, by axis."""
    return tuple(max(n, 0) for pair in zip(low, high, strict=True) for n in pair)


def _unless(usual: int, numbers: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return numbers, None for those that are usual."""
    return None if all(n == usual for n in numbers) else numbers


def _two(given: tuple[int, ...], other: int) -> tuple[int, int]:
    """Return numbers for height and width; of one dimension the height gets the other number."""
    return (other, given[0]) if len(given) == 1 else (given[0], given[1])


NEUTRAL = {"sum": 0.0, "product": 1.0, "max": -math.inf, "min": math.inf}
"""The number that changes no result of a reduction."""
ONE_ELEMENT = (1, 1, 0, 0, 1, 1, False)
"""A window of one element: what it has along each dimension."""


def _moved(seen: ModelWindow) -> list[int]:
    """Return the dimensions along which windows have more than one element, or step."""
    each = zip(seen.size, seen.stride, seen.low, seen.high, strict=True)
    return [axis for axis, what in enumerate(each) if what != (1, 1, 0, 0)]


def pooled(
    form: ModelForm, source: ModelValue, seen: ModelWindow, reduction: str, out: Shape
) -> ModelValue:
    """Pool over two dimensions at a time: a window is one along each dimension in turn.

    Of the other dimensions the first is seen as images, and the rest as channels.

    Raises:
        CannotLowerError: elements are of a type that pools do not take.

    """
    gaps = any(each > 1 for each in seen.base_dilation)
    if gaps or min((*seen.low, *seen.high), default=0) < 0:
        if reduction not in NEUTRAL:
            raise CannotLowerError(f"a {reduction} of windows over images with gaps")
        source, seen = _without_gaps(form, source, seen, NEUTRAL[reduction])
    if form.shape(source).type.is_narrow:
        raise CannotLowerError(f"windows of {form.shape(source).element_type}")
    found, moved = source, _moved(seen)
    while moved:
        part, moved = _window_along(seen, moved[:2]), moved[2:]
        made = Shape(out.element_type, part.made(form.shape(found).dims))
        found = _pooled_images(form, found, part, reduction, made if moved else out)
    return found


def _without_gaps(
    form: ModelForm, source: ModelValue, seen: ModelWindow, neutral: float
) -> tuple[ModelValue, ModelWindow]:
    """Put neutral numbers into the gaps of a tensor and around it; return the window over this."""
    gaps = [each - 1 for each in seen.base_dilation]
    padded = form.padded(source, list(zip(seen.low, seen.high, gaps, strict=True)), neutral)
    ones, zeros = (1,) * len(gaps), (0,) * len(gaps)
    return padded, replace(seen, low=zeros, high=zeros, base_dilation=ones)


def _window_along(seen: ModelWindow, axes: Sequence[int]) -> ModelWindow:
    """Return a window along some dimensions, of one element along the others."""
    rank = len(seen.size)
    found: Any = [
        tuple(each[axis] if axis in axes else other for axis in range(rank))
        for each, other in zip(astuple(seen), ONE_ELEMENT, strict=True)
    ]
    return ModelWindow(*found)


def _pooled_images(
    form: ModelForm, source: ModelValue, seen: ModelWindow, reduction: str, out: Shape
) -> ModelView:
    shape, moved = form.shape(source), _moved(seen)
    others = [axis for axis in range(shape.rank) if axis not in moved]
    order = [*others[:1], *moved, *others[1:]]
    dims, made = _as_images(shape.dims, moved, others), _as_images(out.dims, moved, others)
    turned = form.transpose(source, order)
    folded = form.reshape(turned, Shape(shape.element_type, dims))
    low, high = _along(seen.low, moved, 0), _along(seen.high, moved, 0)
    stride, dilation = _along(seen.stride, moved, 1), _along(seen.dilation, moved, 1)
    name = form.node(
        "pool",
        (form.whole(folded),),
        Shape(out.element_type, made),
        reduction=reduction,
        window=_along(seen.size, moved, 1),
        stride=None if stride == (1, 1) else stride,
        dilation=None if dilation == (1, 1) else dilation,
        padding=(low[0], high[0], low[1], high[1]) if any((*low, *high)) else None,
    )
    back = Shape(out.element_type, [out.dims[axis] for axis in order])
    found = form.reshape(ModelView(name, made, tuple(range(4))), back)
    return form.transpose(found, sorted(range(len(order)), key=lambda n: order[n]))


def _as_images(dims: Sequence[int], moved: Sequence[int], others: Sequence[int]) -> tuple[int, ...]:
    """Return dimensions as [images, height, width, channels]."""
    images = dims[others[0]] if others else 1
    channels = math.prod(dims[axis] for axis in others[1:])
    return (images, *_along(dims, moved, 1), channels)


def _along(given: Sequence[int], moved: Sequence[int], other: int) -> tuple[int, int]:
    return _two(tuple(given[axis] for axis in moved), other)
