"""What PEs have besides for a further row of the contraction: moving and weight registers.

Both move as in the first row. The sum is the first row's: see `register.pe_array.grid`.
"""

from __future__ import annotations

import numpy as np

from systolic.arrays import Array
from systolic.hw.spec import Chip
from systolic.machine.register.pe_array.distances import Stages
from systolic.machine.register.pe_array.weights import Weights

SPARE = 256
"""Cycles until the planes are moved back. A matter of speed only."""


def operands_in(moving: Array, stages: Stages, base: int) -> Array:
    """Return the bits [R, C] of every PE's operand in a plane of moving registers (a view or not).

    The first register lies at `base`.
    """
    size = moving.itemsize
    cells: Array = np.ndarray(
        (stages.rows, stages.col_cells, stages.cell_cols),
        np.int32,
        buffer=moving,
        offset=base * size,
        strides=(stages.wide * size, stages.right * size, 0),
    )
    return cells.reshape(stages.rows, stages.cols)


class FurtherRows:
    """The registers of the second rows of all PEs, or of their third, or of their fourth.

    `base`, as of the grid, is where its planes begin.
    """

    def __init__(self, chip: Chip, stages: Stages, *, is_mixed: bool) -> None:
        size = stages.rows * stages.cols
        self._stages = stages
        self._moving = np.zeros(SPARE + stages.rows * stages.wide, np.int32)
        self._skew = np.zeros((SPARE + stages.drained, stages.rows), np.int32)
        self._entries = stages.row_delays() * stages.rows + np.arange(stages.rows)
        active, shadow = np.zeros(size, np.int32), np.zeros(size, np.int32)
        self.weights = Weights(chip, stages, active, shadow, is_mixed=is_mixed)

    def inject(self, base: int, operand: Array, dtype: type) -> None:
        """Read the elements [K] of a vector into the skew registers."""
        self._skew.view(dtype)[base, : len(operand)] = operand

    def enter(self, base: int) -> None:
        """Let what has come through the skew registers into the first column."""
        stages = self._stages
        words = self._skew.reshape(-1)[self._entries + base * stages.rows]
        self._moving[base : base + stages.rows * stages.wide : stages.wide] = words

    def wrap(self) -> None:
        """Move all back to the far end; what is to come is empty."""
        for plane in (self._moving, self._skew):
            plane[SPARE:] = plane[:-SPARE].copy()
            plane[:SPARE] = 0

    def operands(self, base: int) -> Array:
        """Return the bits [R, C] of every PE's moving operand."""
        return operands_in(self._moving, self._stages, base)

    def held(self) -> Array:
        """Return the bits [R, C] of every PE's weight."""
        return self.weights.active.reshape(self._stages.rows, self._stages.cols)
