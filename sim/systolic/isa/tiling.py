"""Which tile of the array an instruction has, and which tiles have weights.

An instruction that names no tile has the whole array.
"""

from __future__ import annotations

from functools import lru_cache

from systolic.hw.spec import PEArray
from systolic.isa.array_tile import ArrayTile
from systolic.isa.instruction import LoadWeights, MatMul


@lru_cache(maxsize=64)
def _whole(rows: int, cols: int) -> ArrayTile:
    """Return the tile that is all of an array, the same object for all instructions."""
    return ArrayTile(0, 0, rows, cols)


def array_tile(instruction: LoadWeights | MatMul, array: PEArray) -> ArrayTile:
    """Return the tile an instruction of the array has, which is all of it if it names none."""
    return instruction.tile or _whole(array.rows, array.cols)


class LoadedTiles:
    """The weights that each tile of the array has, load by load in the order of the queue."""

    def __init__(self, array: PEArray) -> None:
        self._array = array
        self._loads = dict[ArrayTile, LoadWeights]()
        self._lost = dict[ArrayTile, ArrayTile]()

    def note(self, load: LoadWeights) -> None:
        """Load a tile; tiles that have a PE of it, and are not it, lose their weights."""
        tile = array_tile(load, self._array)
        if len(self._loads) > 1 or tile not in self._loads:
            for other in [other for other in self._loads if other != tile and other.meets(tile)]:
                del self._loads[other]
                self._lost[other] = tile
            self._lost.pop(tile, None)
        self._loads[tile] = load

    def of(self, multiply: MatMul) -> LoadWeights | None:
        """Return the load whose weights a multiply takes; None without one."""
        return self._loads.get(array_tile(multiply, self._array))

    def lost_to(self, multiply: MatMul) -> ArrayTile | None:
        """Return the tile whose load took the weights of a multiply's tile since it was loaded."""
        return self._lost.get(array_tile(multiply, self._array))
