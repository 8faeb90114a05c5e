"""A tile of the array: rows and columns of it that multiply like an array of their own.

Which tile an instruction has is in `systolic.isa.tiling`, which sizes a chip allows in
`systolic.isa.legality`; when instructions on tiles wait for one another, in each of the engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from systolic.spans import Interval


@dataclass(frozen=True, slots=True, order=True)
class ArrayTile:
    """A tile: its first row and column in the array, and how many rows and columns it has."""

    row: int
    col: int
    rows: int
    cols: int

    @classmethod
    def at(cls, position: Sequence[int], size: Sequence[int]) -> ArrayTile:
        """Return the tile of that size, (rows, columns), at that position, (row, column)."""
        (row, col), (rows, cols) = position, size
        return cls(row, col, rows, cols)

    @property
    def columns(self) -> Interval:
        """Return the columns of the array that the tile has."""
        return Interval(self.col, self.col + self.cols)

    def meets(self, other: ArrayTile) -> bool:
        """Return whether the tiles have a PE in common."""
        if other is self:  # nearly always: without tiles there is but one
            return True
        return (
            self.col < other.col + other.cols
            and other.col < self.col + self.cols
            and self.row < other.row + other.rows
            and other.row < self.row + self.rows
        )

    def __str__(self) -> str:
        return f"{self.rows} x {self.cols} at row {self.row}, column {self.col}"
