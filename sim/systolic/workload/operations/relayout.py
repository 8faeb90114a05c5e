"""Relayout: the same elements in the same dimensions, in another layout or memory."""

from __future__ import annotations

from collections.abc import Sequence

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.operations.row import ONE_SHAPE, Attributes, Row, check_gives, unrounded


def _check(shapes: Sequence[Shape], out: Shape, attributes: Attributes) -> None:
    (source,) = shapes
    check_gives(source, source.element_type, source.dims, out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: Attributes) -> Array:
    return arrays[0]


RELAYOUT = Row(
    operands=ONE_SHAPE,
    attributes=Attributes,
    check=_check,
    reference=unrounded(_exact),
    exact=_exact,
)
