"""Reshape: the same elements, in logical order, in other dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    check_gives,
    plain,
    unrounded,
)


def _check(shapes: Sequence[Shape], out: Shape, attributes: Attributes) -> None:
    (source,) = shapes
    if math.prod(source.dims) != math.prod(out.dims):
        raise WorkloadError(
            f"{plain(source)} has {math.prod(source.dims)} elements, "
            f"{plain(out)} {math.prod(out.dims)}"
        )
    check_gives(source, source.element_type, out.dims, out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: Attributes) -> Array:
    return arrays[0].reshape(out.dims)


RESHAPE = Row(
    operands=ONE_SHAPE,
    attributes=Attributes,
    check=_check,
    reference=unrounded(_exact),
    exact=_exact,
)
