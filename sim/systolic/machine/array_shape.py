"""The array's shape as the trace keeps it; the same for both engines. No timing."""

from __future__ import annotations

from systolic.hw.spec import Chip
from systolic.isa import LoadWeights, MatMul
from systolic.trace.passes import GridPlace, GridShape


def grid_shape(chip: Chip) -> GridShape:
    """Return the array's shape and register distances, as the trace keeps them."""
    spec = chip.pe_array
    return GridShape(
        rows=spec.rows,
        cols=spec.cols,
        entry=spec.entry_cycles,
        hop=spec.hop,
        cell=spec.cell,
        fast_load=spec.fast_load,
        weight_path=spec.weight_path,
        weight_buffer=spec.weight_buffer,
        fused=spec.fused_multiply_add,
    )


def placed(instruction: LoadWeights | MatMul) -> GridPlace | None:
    """Return the tile of an instruction as the trace keeps it; None: all of the array."""
    tile = instruction.tile
    return None if tile is None else GridPlace(tile.row, tile.col, tile.rows, tile.cols)
