"""Slice: the elements of a box of a tensor, or one in every few of them."""

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

Places = Annotated[tuple[int, ...], Field(strict=False)]


@dataclass(frozen=True, slots=True)
class SliceAttributes(Attributes):
    """For each dimension the first element, the end, and the distance, as in numpy."""

    start: Annotated[Places, Field(description="first element of each dimension")]
    stop: Annotated[Places, Field(description="the element behind the last, of each dimension")]
    step: Annotated[
        Places | None, Field(description="distance of the elements of each dimension (default: 1)")
    ] = None

    def steps(self, rank: int) -> tuple[int, ...]:
        """Return the distance for each dimension."""
        return (1,) * rank if self.step is None else self.step

    def slices(self) -> tuple[slice, ...]:
        """Return numpy's slices."""
        steps = self.steps(len(self.start))
        return tuple(map(slice, self.start, self.stop, steps))


def _result_dims(shapes: Sequence[Shape], attributes: SliceAttributes) -> tuple[int, ...]:
    (source,) = shapes
    steps = attributes.steps(source.rank)
    for key, given in (("start", attributes.start), ("stop", attributes.stop), ("step", steps)):
        if len(given) != source.rank:
            raise WorkloadError(
                f"{key}: needs a number for each dimension of {plain(source)}, found {list(given)}"
            )
    each = zip(attributes.start, attributes.stop, steps, source.dims, strict=True)
    for axis, (start, stop, step, size) in enumerate(each):
        if not (0 <= start < stop <= size and step >= 1):
            raise WorkloadError(
                f"dimension {axis} of {plain(source)}: needs 0 <= start < stop <= {size} and a "
                f"step of at least 1, found {start}:{stop}:{step}"
            )
    slices = attributes.slices()
    return tuple(-(-(s.stop - s.start) // s.step) for s in slices)


def _exact(arrays: Sequence[Array], out: Shape, attributes: SliceAttributes) -> Array:
    return np.ascontiguousarray(arrays[0][attributes.slices()])


def _index_map(shapes: Sequence[Shape], out: Shape, attributes: SliceAttributes) -> IndexMap:
    sizes = zip(shapes[0].dims, attributes.slices(), strict=True)
    return IndexMap.of([np.arange(size)[taken] for size, taken in sizes])


SLICE = Row(
    operands=ONE_SHAPE,
    attributes=SliceAttributes,
    check=gives(_result_dims),
    default_out=of_first_type(_result_dims),
    reference=unrounded(_exact),
    exact=_exact,
    index_map=_index_map,
)
