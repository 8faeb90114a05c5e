"""Looking at the grid from outside: the planes of one cycle, copied, in the accumulator's type.

A run whose grid nobody looks at pays nothing for this.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systolic.arrays import Array
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import LoadWeights, MatMul, PassThrough, Program
from systolic.machine.register.pe_array.grid import Grid
from systolic.machine.register.pe_array.pass_through import elements_of
from systolic.machine.register.pe_array.tile import TileRegisters
from systolic.trace.grid import GridState
from systolic.trace.passes import GridPlace


class GridStates:
    """Makes a GridState of the registers as they stand."""

    def __init__(self, program: Program) -> None:
        self._dtypes = _accumulators(program)
        self._passing = {
            index: each.result.dtype
            for index, each in enumerate(program.instructions)
            if isinstance(each, PassThrough)
        }

    @property
    def is_mixed(self) -> bool:
        """Return whether the program uses both accumulators."""
        return len(self._dtypes) > 1

    def of_all(self, tiles: Sequence[TileRegisters], chip: Chip) -> GridState:
        """Return the grid at the end of the present cycle: registers of the tile loaded last."""
        shape = chip.pe_array.rows, chip.pe_array.cols
        if shape == (tiles[0].tile.rows, tiles[0].tile.cols) and len(tiles) == 1:
            return self.of(tiles[0].grid)
        dtype: type = np.float64 if self.is_mixed else self._dtypes[0]
        nowhere = np.full(shape, -1, np.int64)
        numbers: Array = np.zeros(shape, dtype)
        found = GridState(
            moving=numbers,
            weight=numbers.copy(),
            shadow=numbers.copy(),
            sum=numbers.copy(),
            valid=np.zeros(shape, bool),
            vector=nowhere,
            matmul=nowhere.copy(),
        )
        for each in sorted(tiles, key=lambda one: one.loaded):
            tile = each.tile
            place = GridPlace(tile.row, tile.col, tile.rows, tile.cols)
            found.put(place, self.of(each.grid))
        return found

    def of(self, grid: Grid) -> GridState:
        """Return the grid of a tile at the end of the present cycle."""
        control, base, weights = grid.control, grid.base, grid.weights
        shape = grid.stages.rows, grid.stages.cols
        valid = control.valid(base)
        integer = control.integer(base)
        matmul = np.where(valid, control.at_pes(control.owner, base), -1)
        return GridState(
            moving=self._words(np.where(control.active(base), grid.operands(), 0), integer),
            weight=self._words(weights.active, weights.active_is_integer).reshape(shape),
            shadow=self._words(weights.shadow, weights.shadow_is_integer).reshape(shape),
            sum=self._sums(grid.adders(), integer, matmul),
            valid=valid,
            vector=np.where(valid, control.at_pes(control.vector, base), -1),
            matmul=matmul,
        )

    def _sums(self, bits: Array, integer: Array, matmul: Array) -> Array:
        """Return the sums as numbers, and of what passes through its elements."""
        sums = self._words(bits, integer)
        for index, dtype in self._passing.items():
            here = matmul == index
            sums[here] = elements_of(bits[here], dtype)
        return sums

    def _words(self, bits: Array, integer: Array) -> Array:
        """Return the words as numbers; a run with both accumulators needs float64 for that."""
        if not self.is_mixed:
            return bits.copy().view(self._dtypes[0])
        return np.where(integer, bits.astype(np.float64), bits.view(np.float32))


def _accumulators(program: Program) -> list[type]:
    names = set()
    for instruction in program.instructions:
        if isinstance(instruction, LoadWeights):
            names.add(data_type(instruction.weights.dtype).accumulator)
        elif isinstance(instruction, MatMul):
            names.add(data_type(instruction.moving.dtype).accumulator)
    return [np.int32 if name == "s32" else np.float32 for name in sorted(names or {"f32"})]
