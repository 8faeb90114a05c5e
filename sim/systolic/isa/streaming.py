"""How the array streams the vectors of a multiply, told from the chip: for reports and estimates.

The engines have it from the chip on their own.
"""

from __future__ import annotations

from typing import NamedTuple

from systolic.hw.spec import PEArray
from systolic.isa.instruction import MatMul, MatMulDoubleRow, MatMulMx, PassThrough


class Streaming(NamedTuple):
    """spacing: cycles from a vector to the next; passes: how often all vectors are streamed."""

    spacing: int
    passes: int

    @property
    def vector_cycles(self) -> int:
        """Return the cycles that a vector takes in all passes together."""
        return self.spacing * self.passes


def streaming(multiply: MatMul, array: PEArray) -> Streaming:
    """Return how the array streams the vectors of a multiply, or of a pass-through."""
    dtype = multiply.moving.dtype
    if isinstance(multiply, PassThrough):
        return Streaming(array.pass_through[dtype], 1)
    if isinstance(multiply, MatMulDoubleRow):
        return Streaming(array.double_row[dtype], 1)
    if isinstance(multiply, MatMulMx):
        return Streaming(array.mx[dtype], 1)
    return Streaming(array.cycles_per_vector[dtype], array.passes.get(dtype, 1))
