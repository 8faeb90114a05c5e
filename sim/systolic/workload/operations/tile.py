"""Tile: a tensor several times behind itself along its axes."""

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

Repeats = Annotated[tuple[int, ...], Field(strict=False)]


@dataclass(frozen=True, slots=True)
class TileAttributes(Attributes):
    """How often the tensor stands along each axis."""

    repeats: Annotated[Repeats, Field(description="how often a tensor stands along each axis")]


def _result_dims(shapes: Sequence[Shape], attributes: TileAttributes) -> tuple[int, ...]:
    (source,) = shapes
    repeats = attributes.repeats
    if len(repeats) != source.rank or min(repeats, default=1) < 1:
        raise WorkloadError(
            f"repeats: needs a number of at least 1 for each dimension of {plain(source)}, found "
            f"{list(repeats)}"
        )
    return tuple(n * times for n, times in zip(source.dims, repeats, strict=True))


def _exact(arrays: Sequence[Array], out: Shape, attributes: TileAttributes) -> Array:
    return np.tile(arrays[0], attributes.repeats)


def _index_map(shapes: Sequence[Shape], out: Shape, attributes: TileAttributes) -> IndexMap:
    sizes = zip(out.dims, shapes[0].dims, strict=True)
    return IndexMap.of([np.arange(made) % size for made, size in sizes])


TILE = Row(
    operands=ONE_SHAPE,
    attributes=TileAttributes,
    check=gives(_result_dims),
    default_out=of_first_type(_result_dims),
    reference=unrounded(_exact),
    exact=_exact,
    index_map=_index_map,
)
