"""What went through the array's grid: its shape, the loads and the multiplies, with their operands.

Times are in cycles of the array. What the grid held in a cycle follows from these
(`systolic.trace.grid`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from systolic.array_distances import cycles_to


@dataclass(frozen=True, slots=True)
class GridPlace:
    """A tile of the array: its first row and column, and how many rows and columns it has."""

    row: int
    col: int
    rows: int
    cols: int

    @property
    def within(self) -> tuple[slice, slice]:
        """Return the index of the tile in a plane [R, C]."""
        return slice(self.row, self.row + self.rows), slice(self.col, self.col + self.cols)


@dataclass(frozen=True, slots=True)
class GridShape:
    """Rows, columns and register distances of an array (chip data)."""

    rows: int
    cols: int
    entry: int
    hop: tuple[int, int]
    cell: tuple[int, int]
    fast_load: int
    weight_path: str
    weight_buffer: str
    fused: bool = False

    def delay(self) -> npt.NDArray[np.int64]:
        """Return [R, C] cycles from injection to the multiplication in PE (r, c)."""
        down = cycles_to(np.arange(self.rows), self.hop[0], self.cell[0])
        right = cycles_to(np.arange(self.cols), self.hop[1], self.cell[1])
        return self.entry + down[:, None] + right[None, :]

    def part(self, place: GridPlace) -> GridShape:
        """Return the shape of a tile: an array whose first PE is reached as late as the tile's."""
        row, col = place.row // self.cell[0], place.col // self.cell[1]
        entry = self.entry + self.hop[0] * row + self.hop[1] * col
        return replace(self, rows=place.rows, cols=place.cols, entry=entry)

    def read_of(self, rows: int, cols: int, columns: int = 0) -> npt.NDArray[np.int64]:
        """Return [rows, cols]: which read of a load of that size brings the weight of each PE.

        columns: of a read, see `LoadPass`.
        """
        r, c = np.indices((rows, cols))
        if self.weight_path == "left":
            return c // (columns or self.fast_load)
        together = columns or cols
        return r // self.fast_load * -(-cols // together) + c // together


@dataclass(frozen=True, eq=False)
class LoadPass:
    """One LoadWeights: cycle of each read (int64 [L]) and the tile read, [K, N].

    columns: that a read brings, of all rows on the left path, of f rows on the top path (0: as
    many as the array takes, f or all N). place: the tile of the array (None: all of it).
    further: of several rows in a PE, [K, N] of its second row, its third, ...; `weights` are the
    weights of the first.
    """

    instruction: int
    reads: npt.NDArray[np.int64]
    weights: npt.NDArray[Any]
    columns: int = 0
    place: GridPlace | None = None
    further: tuple[npt.NDArray[Any], ...] = ()


@dataclass(frozen=True, eq=False)
class MatMulPass:
    """One MatMul: injection cycles e[m] (int64 [M]), moving vectors [M, K], columns N used.

    `exchange`: the first after a load, so weights are exchanged with its first injection.
    `silent`: the injections before e[0], of the passes whose vectors the PEs do not see.
    `is_pass_through`: weights pass through unchanged where the moving element is not 0.
    `place`: the tile of the array that multiplies (None: all of it).
    `further`: of several rows in a PE, [M, K] for its second row, its third, ...; `moving` is for
    the first.
    """

    instruction: int
    injections: npt.NDArray[np.int64]
    moving: npt.NDArray[Any]
    cols: int
    exchange: bool
    silent: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    is_pass_through: bool = False
    place: GridPlace | None = None
    further: tuple[npt.NDArray[Any], ...] = ()

    @property
    def first(self) -> int:
        """Return the cycle of the first injection, silent or not."""
        return int((self.silent if self.silent.size else self.injections)[0])
