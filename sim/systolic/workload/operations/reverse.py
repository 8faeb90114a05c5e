"""Reverse: a tensor with the places along some axes in the opposite order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.operations.index_map import IndexMap
from systolic.workload.operations.reduce import ReducedAxes, check_axes, given_axes
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    check_gives,
    first_shape,
    unrounded,
)


@dataclass(frozen=True, slots=True)
class ReverseAttributes(Attributes):
    """The axes that run backwards."""

    axes: Annotated[
        ReducedAxes | None, Field(description="axes that are reversed (default: all)")
    ] = None

    def of(self, rank: int) -> tuple[int, ...]:
        """Return the axes of a tensor of that rank."""
        return given_axes(self.axes, rank)


def _check(shapes: Sequence[Shape], out: Shape, attributes: ReverseAttributes) -> None:
    (source,) = shapes
    check_axes(source, attributes.of(source.rank))
    check_gives(source, source.element_type, source.dims, out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: ReverseAttributes) -> Array:
    return np.flip(arrays[0], attributes.of(out.rank))


def _index_map(shapes: Sequence[Shape], out: Shape, attributes: ReverseAttributes) -> IndexMap:
    axes = attributes.of(out.rank)
    return IndexMap.of(
        [np.arange(n)[::-1] if axis in axes else np.arange(n) for axis, n in enumerate(out.dims)]
    )


REVERSE = Row(
    operands=ONE_SHAPE,
    attributes=ReverseAttributes,
    check=_check,
    default_out=first_shape,
    reference=unrounded(_exact),
    exact=_exact,
    index_map=_index_map,
)
