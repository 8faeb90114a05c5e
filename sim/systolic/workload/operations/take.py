"""Take: elements of a tensor by their numbers along one axis, which are known when compiling.

The numbers are a setting of the operation and no tensor, so no number in memory changes a run's
cycles. Rows of a table by tokens, and the nearest pixels of another size, are of this kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.index_map import IndexMap
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    gives,
    of_first_type,
    plain,
    unrounded,
)

PlaceNumbers = Annotated[tuple[int, ...], Field(strict=False)]


@dataclass(frozen=True, slots=True)
class TakeAttributes(Attributes):
    """The axis, and for each place along it in the result the place in the source."""

    indices: Annotated[
        PlaceNumbers,
        Field(description="place in the source for each place of the result, such as tokens"),
    ]
    axis: Annotated[
        int | None, Field(description="axis along which places are taken (default: the last)")
    ] = None

    def of(self, rank: int) -> int:
        """Return the axis of a tensor of that rank."""
        return rank - 1 if self.axis is None else self.axis


def check_along(source: Shape, axis: int) -> None:
    """Raise WorkloadError unless a tensor has an axis."""
    if not 0 <= axis < source.rank:
        raise WorkloadError(
            f"axis: needs 0 to {source.rank - 1}, an axis of {plain(source)}, found {axis}"
        )


def check_places(source: Shape, axis: int, indices: Sequence[int]) -> None:
    """Raise WorkloadError unless all indices are places along an axis, and there are some."""
    check_along(source, axis)
    size = source.dims[axis]
    wrong = [index for index in indices if not 0 <= index < size]
    if wrong or not indices:
        found = wrong[0] if wrong else "none"
        raise WorkloadError(
            f"indices: needs numbers from 0 to {size - 1}, places along axis {axis} of "
            f"{plain(source)}, found {found}"
        )


def _result_dims(shapes: Sequence[Shape], attributes: TakeAttributes) -> tuple[int, ...]:
    (source,) = shapes
    axis = attributes.of(source.rank)
    check_places(source, axis, attributes.indices)
    return (*source.dims[:axis], len(attributes.indices), *source.dims[axis + 1 :])


def _exact(arrays: Sequence[Array], out: Shape, attributes: TakeAttributes) -> Array:
    return np.take(arrays[0], attributes.indices, axis=attributes.of(arrays[0].ndim))


def _index_map(shapes: Sequence[Shape], out: Shape, attributes: TakeAttributes) -> IndexMap:
    axis = attributes.of(out.rank)
    return IndexMap.along(shapes[0].dims, axis, np.array(attributes.indices, np.int64))


TAKE = Row(
    operands=ONE_SHAPE,
    attributes=TakeAttributes,
    check=gives(_result_dims),
    default_out=of_first_type(_result_dims),
    reference=unrounded(_exact),
    exact=_exact,
    index_map=_index_map,
)
