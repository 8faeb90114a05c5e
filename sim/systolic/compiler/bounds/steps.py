"""What a step along a dimension of a shape is in another shape of the same elements, for bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from systolic.layout import Shape


@dataclass(frozen=True, slots=True)
class Step:
    """A step along a dimension of one shape, in another: `steps` along `dim`.

    within: that holds for so many steps from any multiple of that number on.
    """

    dim: int
    steps: int
    within: int


def step_in(other: Shape, shape: Shape, dim: int, axes: Sequence[int] | None) -> Step | None:
    """Return what a step along a dimension of a shape is in another; None if it is no such step.

    axes: dimension i of the shape is dimension axes[i] of the other; None: a reshape.
    """
    if axes is not None:
        return Step(axes[dim], 1, shape.dims[dim])
    size, stride = shape.dims[dim], math.prod(shape.dims[dim + 1 :])
    for place, there in enumerate(other.dims):
        own = math.prod(other.dims[place + 1 :])
        steps, rest = divmod(stride, own)
        if rest or steps >= there:
            continue
        if steps < 1 or there % steps:
            return None
        within = min(there // steps, size)
        fits = size % within == 0 and there // steps % within == 0
        return Step(place, steps, within) if fits else None
    return None
