"""Twin of `systolic.array_distances`: the array as registers, derived from chip data once more.

How many stages lie between injection and any place in the grid. The event engine derives its
distances on its own (`event.pe_array.plans`), and so do `systolic.array_distances` and the RTL, on
purpose. Distances only: nothing here knows when anything happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from systolic.hw.spec import Chip
from systolic.isa.array_tile import ArrayTile


@dataclass(frozen=True)
class Stages:
    """Register distances in a tile. Cells are groups of PEs without a register between them.

    entry: registers before the tile's first PE, registers of the array's rows and columns before it
    among them; write_latency: registers behind its last row, registers of the rows below among
    them. deep: rows of sum registers, from the first cell to the result buffer; wide: moving
    registers of a row; to_result: cycles from injection to column 0's write (D); across: further
    cycles to the last column's.
    """

    rows: int
    cols: int
    entry: int
    down: int
    right: int
    cell_rows: int
    cell_cols: int
    write_latency: int

    @classmethod
    def of(cls, chip: Chip, tile: ArrayTile) -> Stages:
        """Return the distances in a tile of that chip's array."""
        array = chip.pe_array
        (down, right), (cell_rows, cell_cols) = array.hop, array.cell
        above, before = tile.row // cell_rows, tile.col // cell_cols
        below = (array.rows - tile.row - tile.rows) // cell_rows
        return cls(
            tile.rows,
            tile.cols,
            array.entry_cycles + down * above + right * before,
            down,
            right,
            cell_rows,
            cell_cols,
            chip.result_buffer.write_latency_cycles + down * below,
        )

    @cached_property
    def is_plain(self) -> bool:
        """Return whether there is exactly one register between any two neighbours."""
        return (self.down, self.right, self.cell_rows, self.cell_cols) == (1, 1, 1, 1)

    @cached_property
    def row_cells(self) -> int:
        """Return the number of cells in a column."""
        return self.rows // self.cell_rows

    @cached_property
    def col_cells(self) -> int:
        """Return the number of cells in a row."""
        return self.cols // self.cell_cols

    @cached_property
    def deep(self) -> int:
        """Return the rows of sum registers, those behind the last PE included."""
        return self.down * self.row_cells + self.write_latency

    @cached_property
    def wide(self) -> int:
        """Return the moving registers of one row, the first cell's included."""
        return (self.col_cells - 1) * self.right + 1

    @cached_property
    def to_result(self) -> int:
        """Return D: cycles from injection to the write into partition 0."""
        return self.entry + self.down * self.row_cells - 1 + self.write_latency

    @cached_property
    def across(self) -> int:
        """Return the cycles from the write into partition 0 to that into the last one."""
        return self.across_to(self.cols - 1)

    def across_to(self, col: int) -> int:
        """Return the cycles from the write into partition 0 to that into `col`."""
        return self.right * (col // self.cell_cols)

    @cached_property
    def drained(self) -> int:
        """Return the cycles from an injection until it has left all PEs (serial buffers)."""
        return self.entry + self.down * self.row_cells + self.across

    def row_delays(self) -> npt.NDArray[np.int64]:
        """Return [R] cycles from injection to the first PE of each row."""
        return self.entry + self.down * (np.arange(self.rows) // self.cell_rows)

    def col_delays(self) -> npt.NDArray[np.int64]:
        """Return [C] cycles from the first PE of a row to each column."""
        return self.right * (np.arange(self.cols) // self.cell_cols)

    def waves(self) -> list[slice] | list[npt.NDArray[np.int64]]:
        """Return, by cycles since injection, the flat indices of the PEs reached then."""
        if self.is_plain and self.cols > 1:
            outside = [slice(0)] * self.entry
            return outside + [self._diagonal(d) for d in range(self.rows + self.cols - 1)]
        delay = (self.row_delays()[:, None] + self.col_delays()).ravel()
        order = np.argsort(delay, kind="stable")
        return np.split(order, np.cumsum(np.bincount(delay))[:-1])

    def _diagonal(self, distance: int) -> slice:
        """Return the flat indices of the PEs (r, c) with r + c = distance, as numpy likes best."""
        first, last = max(0, distance - self.cols + 1), min(self.rows - 1, distance)
        step = self.cols - 1
        return slice(first * step + distance, last * step + distance + 1, step)
