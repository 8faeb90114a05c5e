"""GridHistory: schedules and operands of the array, from which any cycle's grid is drawn.

The whole history of the grid is the one-dimensional injection schedule e[], swept along the
diagonals (timing contract, section 1): nothing is stepped to know what PE (r, c) holds in cycle t.
Times here are in cycles of the array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


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
        down = self.hop[0] * (np.arange(self.rows) // self.cell[0])
        right = self.hop[1] * (np.arange(self.cols) // self.cell[1])
        return self.entry + down[:, None] + right[None, :]


@dataclass(frozen=True, eq=False)
class LoadPass:
    """One LoadWeights: cycle of each read (int64 [L]) and the tile read, [K, N]."""

    instruction: int
    reads: npt.NDArray[np.int64]
    weights: npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class MatMulPass:
    """One MatMul: injection cycles e[m] (int64 [M]), moving vectors [M, K], columns N used.

    `exchange`: the first after a load, so weights are exchanged with its first vector.
    """

    instruction: int
    injections: npt.NDArray[np.int64]
    moving: npt.NDArray[Any]
    cols: int
    exchange: bool


@dataclass(frozen=True, eq=False)
class GridState:
    """The grid in one cycle, each [R, C]: `moving` and `sum` are the PE's operand and its adder's
    output in that cycle; `weight` and `shadow` the registers as they stand at its end; `valid`
    whether a vector is there; `vector` its number (-1 where none), `matmul` its instruction (-1).
    """

    moving: npt.NDArray[Any]
    weight: npt.NDArray[Any]
    shadow: npt.NDArray[Any]
    sum: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_]
    vector: npt.NDArray[np.int64]
    matmul: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GridHistory:
    """All passes of a run, in queue order, on an array of the given shape."""

    shape: GridShape
    loads: tuple[LoadPass, ...] = ()
    matmuls: tuple[MatMulPass, ...] = ()
