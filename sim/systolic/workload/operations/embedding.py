"""Embedding: rows of a table, by numbers that are known when compiling.

The numbers are a setting of the operation and no tensor, so the copies that bring the rows are
those of the program, and no number in memory changes a run's cycles.
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
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    check_gives,
    plain,
    unrounded,
)

RowNumbers = Annotated[tuple[int, ...], Field(strict=False)]


@dataclass(frozen=True, slots=True)
class EmbeddingAttributes(Attributes):
    """The row of the table for each row of the result."""

    indices: Annotated[
        RowNumbers, Field(description="row of the table for each row of the result, such as tokens")
    ]


def _result_dims(source: Shape, attributes: EmbeddingAttributes) -> tuple[int, ...]:
    if source.rank != 2:
        raise WorkloadError(f"needs a table of rows and columns, found {plain(source)}")
    rows, columns = source.dims
    wrong = [index for index in attributes.indices if not 0 <= index < rows]
    if wrong or not attributes.indices:
        found = wrong[0] if wrong else "none"
        raise WorkloadError(
            f"indices: needs numbers from 0 to {rows - 1}, rows of {plain(source)}, found {found}"
        )
    return len(attributes.indices), columns


def _check(shapes: Sequence[Shape], out: Shape, attributes: EmbeddingAttributes) -> None:
    (source,) = shapes
    check_gives(source, source.element_type, _result_dims(source, attributes), out)


def _default_out(shapes: Sequence[Shape], attributes: EmbeddingAttributes) -> Shape:
    return Shape(shapes[0].element_type, _result_dims(shapes[0], attributes))


def _exact(arrays: Sequence[Array], out: Shape, attributes: EmbeddingAttributes) -> Array:
    return np.take(arrays[0], attributes.indices, axis=0)


EMBEDDING = Row(
    operands=ONE_SHAPE,
    attributes=EmbeddingAttributes,
    check=_check,
    default_out=_default_out,
    reference=unrounded(_exact),
    exact=_exact,
)
