"""Iota: whole numbers at equal distances, made on the chip: 0, 1, 2, ... along one axis.

An operation without inputs. Its numbers follow from their places, so nothing of it is in memory.
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
from systolic.workload.operations.cast import convert
from systolic.workload.operations.row import Attributes, Row, Rules, plain

MOST = (1 << 31) - 1
"""The largest number: an engine counts in 32 bits."""


@dataclass(frozen=True, slots=True)
class IotaAttributes(Attributes):
    """The first number, and the distance from one to the next."""

    base: Annotated[int, Field(description="first number (default: 0)")] = 0
    per_element: Annotated[
        int, Field(description="distance from a number to the next (default: 1)")
    ] = 1

    def numbers(self, count: int) -> Array:
        """Return the numbers, int64."""
        return self.base + self.per_element * np.arange(count, dtype=np.int64)


def _check(shapes: Sequence[Shape], out: Shape, attributes: IotaAttributes) -> None:
    if out.rank != 1:
        raise WorkloadError(f"needs a result of one dimension, found {plain(out)}")
    ends = attributes.base, attributes.base + attributes.per_element * (out.dims[0] - 1)
    if max(map(abs, ends)) > MOST:
        raise WorkloadError(
            f"base, per_element: needs numbers from {-MOST} to {MOST}, found {ends[0]} to {ends[1]}"
        )


def _exact(arrays: Sequence[Array], out: Shape, attributes: IotaAttributes) -> Array:
    return attributes.numbers(out.dims[0])


def _reference(
    arrays: Sequence[Array], out: Shape, attributes: IotaAttributes, rules: Rules
) -> Array:
    return convert(attributes.numbers(out.dims[0]).astype(np.int32), out.dtype)


IOTA = Row(
    operands=(),
    attributes=IotaAttributes,
    check=_check,
    reference=_reference,
    exact=_exact,
    computes=True,
)
