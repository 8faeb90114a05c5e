"""Twin of `event.pe_array.operand`: numbers that share scales (MX), read a column at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from systolic.arrays import Array
from systolic.isa import Access, LoadWeights, MatMul
from systolic.isa.effects import scales_touched
from systolic.machine.register.planes import Planes
from systolic.machine.values.microscaling import scaled


class Lane(NamedTuple):
    """Words that were read: their access, and their elements of a partition, [K, elements]."""

    access: Access
    addresses: Array
    values: Array


class ScaledOperand:
    """The weights, or the moving vectors, of an instruction; a column is one vector of the second.

    Each PE of a column takes four values, of one element or of four, and their scale.
    """

    def __init__(self, instruction: LoadWeights | MatMul, access: Access, planes: Planes) -> None:
        self._access, self._per_pe = access, instruction.elements_per_pe
        self._rows, self._offsets = planes.rows_of(access), access.offsets()
        self._scales = [(s, planes.rows_of(s), s.offsets()) for s in scales_touched(instruction)]

    def of(self, column: int) -> list[Array]:
        """Return the values for the first to the fourth row of the PEs, float32 [K] each."""
        data, *scales = self.words(column)
        together = np.concatenate([part.values for part in scales])
        values = scaled(data.values, together, self._access.dtype)
        return [np.ascontiguousarray(row) for row in values.T]

    def words(self, column: int) -> list[Lane]:
        """Return what is read of a column: its elements, and its scales, by quadrant."""
        at = self._offsets[column * self._per_pe : (column + 1) * self._per_pe]
        found = [Lane(self._access, at, self._rows[:, at])]
        for access, rows, offsets in self._scales:
            one = offsets[column : column + 1]
            found.append(Lane(access, one, rows[:, one]))
        return found


def scaled_operand(
    instruction: LoadWeights | MatMul, access: Access, planes: Planes
) -> ScaledOperand | None:
    """Return the operand of an instruction whose numbers share scales; None of any other."""
    return ScaledOperand(instruction, access, planes) if scales_touched(instruction) else None
