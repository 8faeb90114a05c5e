"""Some elements of a tensor in DRAM, among others: dimensions, each with a distance of its own.

A part of a tensor has no layout of its own, because what lies between its elements belongs to other
parts, or is padding. Not here: whole tensors, which are a `Shape`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from systolic.arrays import Integers
from systolic.layout import Shape


@dataclass(frozen=True, slots=True)
class StridedShape:
    """Type and dimensions; steps: for each of them, elements of memory from one index to the next.

    Properties that it shares with `Shape` bear the same names.
    """

    element_type: str
    dims: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def dtype(self) -> np.dtype[Any]:
        """How numpy holds one element."""
        return Shape(self.element_type, ()).dtype

    def padded_elements(self) -> int:
        """Return the elements of memory from the first one to the last."""
        return 1 + sum((n - 1) * step for n, step in zip(self.dims, self.steps, strict=True))

    def size_bytes(self) -> int:
        """Return the bytes of memory from the first element to the last."""
        return self.padded_elements() * int(self.dtype.itemsize)

    def linear_index(self, index: Sequence[Any]) -> Integers:
        """Return the place of an index, or of arrays of indices, in elements from the first."""
        parts = np.broadcast_arrays(*index)
        found: Integers = sum(
            (part * step for part, step in zip(parts, self.steps, strict=True)),
            start=np.zeros(parts[0].shape, np.int64),
        )
        return found

    def __str__(self) -> str:
        steps = ",".join(map(str, self.steps))
        return f"{self.element_type}[{','.join(map(str, self.dims))}] at steps of [{steps}]"


class ShapeInDram(Protocol):
    """What lies in a place in DRAM: a tensor (`Shape`), or some of its elements as a tensor."""

    @property
    def element_type(self) -> str:
        """The type of an element."""

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions."""

    @property
    def rank(self) -> int:
        """The number of dimensions."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """How numpy holds one element."""

    def padded_elements(self) -> int:
        """Return the elements of memory from the first one to the last."""

    def size_bytes(self) -> int:
        """Return the bytes of memory from the first element to the last."""

    def linear_index(self, index: Sequence[Any]) -> Any:
        """Return the place of an index, or of arrays of indices, in elements from the first."""

    def __hash__(self) -> int:
        """Return a number that equal values share: tables are kept by value."""
