"""Is what an instruction of the array says of tiles, double rows and weights legal?

The other rules of the array are in `systolic.isa.legality.array`.
"""

from __future__ import annotations

from systolic.errors import ProgramError
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa.access import Access
from systolic.isa.array_tile import ArrayTile
from systolic.isa.instruction import (
    LoadDoubleRow,
    LoadMx,
    LoadTile,
    LoadWeights,
    MatMul,
    MatMulDoubleRow,
    MatMulMx,
    MatMulTile,
    PassThrough,
)
from systolic.isa.tiling import LoadedTiles, array_tile


def checked_tile(instruction: LoadWeights | MatMul, chip: Chip) -> ArrayTile:
    """Return the tile an instruction has; refuse one that the chip's array is not cut into."""
    array = chip.pe_array
    if not isinstance(instruction, LoadTile | MatMulTile | LoadMx | MatMulMx):
        return array_tile(instruction, array)
    size, position = instruction.tile_size, instruction.tile_position
    sizes, what = array.tile_sizes, "tiles"
    if isinstance(instruction, LoadMx | MatMulMx):
        if not size and not position:
            return array_tile(instruction, array)
        sizes, what = tuple(s for s in sizes if s[1] == array.cols), "tiles of whole rows, for MX,"
    if size not in sizes:
        known = ", ".join(f"{rows} x {cols}" for rows, cols in sizes)
        found = " x ".join(str(side) for side in size)
        raise ProgramError(
            f"tile_size: the array of {chip.name} has {what} of {known or 'no size'} "
            f"(pe_array.tile_sizes), not of {found or 'nothing'}"
        )
    sides = zip(position, size, (array.rows, array.cols), strict=False)
    if len(position) != len(size) or any(
        first % side or not 0 <= first < whole for first, side, whole in sides
    ):
        raise ProgramError(
            f"tile_position: needed a row below {array.rows} that is a multiple of {size[0]} and a "
            f"column below {array.cols} that is a multiple of {size[1]}, "
            f"found {', '.join(str(place) for place in position) or 'nothing'}"
        )
    return array_tile(instruction, array)


def check_double_row(
    name: str, instruction: LoadWeights | MatMul, access: Access, chip: Chip
) -> None:
    """Hold what only double rows must be: of a type that the PEs take so, and pairs."""
    if not isinstance(instruction, LoadDoubleRow | MatMulDoubleRow):
        return
    if access.dtype not in (known := chip.pe_array.double_row):
        raise ProgramError(
            f"{name}: the array of {chip.name} takes two rows in a PE of "
            f"{', '.join(known) or 'no type'} (pe_array.double_row), not of {access.dtype}"
        )
    if access.elements % 2:
        raise ProgramError(
            f"{name}: needed two elements for each PE, an even number in each partition, "
            f"found {access.elements}"
        )


def check_weights(matmul: MatMul, tiles: LoadedTiles) -> None:
    """Hold a multiply against the weights that its tile was loaded with."""
    loaded = tiles.of(matmul)
    if loaded is None:
        other = tiles.lost_to(matmul)
        its = "" if matmul.tile is None else f" of its tile ({matmul.tile})"
        since = "" if other is None else f": a load of {other} has taken PEs of it since"
        raise ProgramError(f"no LoadWeights{its} before it{since}")
    weights, moving = loaded.weights, matmul.moving
    if moving.partitions > weights.partitions:
        raise ProgramError(
            f"moving has {moving.partitions} rows (K), but only {weights.partitions} are loaded"
        )
    if matmul.rows_per_pe != loaded.rows_per_pe:
        raise ProgramError(
            f"moving has {matmul.rows_per_pe} elements for a PE, but the weights before it were "
            f"loaded with {loaded.rows_per_pe}"
        )
    if matmul.result.partitions > loaded.columns:
        raise ProgramError(
            f"result has {matmul.result.partitions} columns (N), "
            f"but only {loaded.columns} are loaded"
        )
    mine, theirs = data_type(moving.dtype), data_type(weights.dtype)
    if isinstance(matmul, PassThrough) and mine != theirs:
        raise ProgramError(f"moving {mine.name} cannot pass weights {theirs.name} through")
    if mine.accumulator != theirs.accumulator or (
        "f32" in {mine.name, theirs.name} and mine != theirs
    ):
        raise ProgramError(f"moving {mine.name} cannot be multiplied with weights {theirs.name}")
