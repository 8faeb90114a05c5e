"""Expand: a tensor spread over more dimensions, or along those in which its size is 1.

Nothing is multiplied: the same elements are read again, by a step of 0.
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
from systolic.workload.operations.binary import Dimensions
from systolic.workload.operations.index_map import IndexMap
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    check_gives,
    plain,
    unrounded,
)


@dataclass(frozen=True, slots=True)
class ExpandAttributes(Attributes):
    """With which dimensions of the result the source's are matched."""

    broadcast_dimensions: Annotated[
        Dimensions | None,
        Field(
            description="for each dimension of the source, that of the result with which it is "
            "matched (default: the last)",
        ),
    ] = None

    def matched(self, rank: int, out_rank: int) -> tuple[int, ...]:
        """Return, for each dimension of the source, the result's: if not given, the last."""
        if self.broadcast_dimensions is not None:
            return tuple(self.broadcast_dimensions)
        return tuple(range(out_rank - rank, out_rank))


def _check(shapes: Sequence[Shape], out: Shape, attributes: ExpandAttributes) -> None:
    (source,) = shapes
    check_gives(source, source.element_type, out.dims, out)
    matched = attributes.matched(source.rank, out.rank)
    fits = len(matched) == source.rank and list(matched) == sorted({*matched})
    fits = fits and all(0 <= axis < out.rank for axis in matched)
    if not fits or any(
        n not in (1, out.dims[axis]) for n, axis in zip(source.dims, matched, strict=True)
    ):
        raise WorkloadError(
            f"broadcast_dimensions: needs, for each dimension of {plain(source)}, one of "
            f"{plain(out)} in increasing order, of its size unless it is 1; found {list(matched)}"
        )


def _exact(arrays: Sequence[Array], out: Shape, attributes: ExpandAttributes) -> Array:
    (array,) = arrays
    shape = [1] * out.rank
    for axis, size in zip(attributes.matched(array.ndim, out.rank), array.shape, strict=True):
        shape[axis] = size
    return np.ascontiguousarray(np.broadcast_to(array.reshape(shape), out.dims))


def _index_map(shapes: Sequence[Shape], out: Shape, attributes: ExpandAttributes) -> IndexMap:
    (source,) = shapes
    axis_of = {axis: n for n, axis in enumerate(attributes.matched(source.rank, out.rank))}
    follows = tuple(axis_of.get(axis) for axis in range(out.rank))
    places = tuple(
        np.zeros(size, np.int64)
        if axis is None or source.dims[axis] < size
        else np.arange(size, dtype=np.int64)
        for axis, size in zip(follows, out.dims, strict=True)
    )
    return IndexMap(places, follows)


EXPAND = Row(
    operands=ONE_SHAPE,
    attributes=ExpandAttributes,
    check=_check,
    reference=unrounded(_exact),
    exact=_exact,
    index_map=_index_map,
)
