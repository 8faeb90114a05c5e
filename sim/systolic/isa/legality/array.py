"""Are loads of weights, multiplies and passes through the array legal on a chip?

What they say of tiles, double rows and weights: `tiles`; of scales: `scales`.
"""

from __future__ import annotations

from systolic.errors import ProgramError
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa.access import Access, Buffer
from systolic.isa.array_tile import ArrayTile
from systolic.isa.instruction import LoadMx, LoadWeights, MatMul, MatMulMx, PassThrough
from systolic.isa.legality.accesses import at_most, check_access, need
from systolic.isa.legality.scales import check_mx
from systolic.isa.legality.tiles import check_double_row, checked_tile


def check_load(load: LoadWeights, chip: Chip) -> None:
    """Raise ProgramError unless the array can take these weights."""
    weights, tile = load.weights, checked_tile(load, chip)
    check_access("weights", weights, chip)
    check_mx("weights", load, weights, chip)
    _check_operand("weights", load, weights, tile, chip)
    check_double_row("weights", load, weights, chip)
    at_most("weights: elements per partition (N)", load.columns, "array columns", tile.cols)
    is_cut = weights.bank(chip.state_buffer.bank_bytes) is None
    if chip.pe_array.weight_path == "top" and is_cut:
        raise ProgramError("weights: on the top path a row must lie in one bank")


def check_matmul(matmul: MatMul, chip: Chip) -> None:
    """Raise ProgramError unless the array can take these vectors, and PSUM their results."""
    moving, result, tile = matmul.moving, matmul.result, checked_tile(matmul, chip)
    check_access("moving", moving, chip)
    check_mx("moving", matmul, moving, chip)
    _check_operand("moving", matmul, moving, tile, chip)
    check_double_row("moving", matmul, moving, chip)
    check_access("result", result, chip)
    need("result", result, result.buffer is Buffer.RESULT, "in the result buffer")
    if result.elements != matmul.vectors:
        raise ProgramError(
            f"result: needed a word in each partition for each of {matmul.vectors} vectors, "
            f"found {result.elements}"
        )
    if isinstance(matmul, PassThrough):
        _check_pass_through(matmul, chip)
    elif result.dtype != (accumulator := data_type(moving.dtype).accumulator):
        raise ProgramError(
            f"result: {moving.dtype} operands accumulate in {accumulator}, found {result.dtype}"
        )
    if result.partition != tile.col:
        raise ProgramError(f"result: must begin at partition {tile.col}, found {result.partition}")
    if matmul.tile is not None:
        at_most("result: partitions (N)", result.partitions, "columns of the tile", tile.cols)
    most = chip.pe_array.moving_max
    if most is not None and matmul.vectors > most:
        raise ProgramError(
            f"moving: a multiply takes at most {most} vectors (pe_array.moving_max), "
            f"found {matmul.vectors}"
        )
    bank = chip.result_buffer.bank_bytes
    if result.bank(bank) is None:
        low, high = result.span
        raise ProgramError(
            f"result: rows must lie in one bank of {bank} bytes, found bytes {low} to {high}"
        )


def _check_pass_through(through: PassThrough, chip: Chip) -> None:
    """Hold what only a PassThrough must be: of a type that passes, unchanged, and on its own."""
    dtype, known = through.moving.dtype, chip.pe_array.pass_through
    if dtype not in known:
        raise ProgramError(
            f"moving: through the array of {chip.name} {', '.join(known) or 'no type'} may pass "
            f"(pe_array.pass_through), not {dtype}"
        )
    if through.result.dtype != dtype:
        raise ProgramError(
            f"result: what passes through keeps its type, {dtype}, found {through.result.dtype}"
        )
    if through.accumulate:
        raise ProgramError("accumulate: what passes through is added to nothing")


def _check_operand(
    name: str, instruction: LoadWeights | MatMul, access: Access, tile: ArrayTile, chip: Chip
) -> None:
    need(name, access, access.buffer is Buffer.STATE, "in the state buffer")
    if isinstance(instruction, LoadMx | MatMulMx):
        check_access("scales", instruction.scales, chip)
    elif access.dtype not in chip.pe_array.cycles_per_vector:
        known = ", ".join(chip.pe_array.cycles_per_vector)
        raise ProgramError(f"{name}: the array of {chip.name} takes {known}, not {access.dtype}")
    if access.partition % chip.pe_array.rows != tile.row:
        behind = f"row {tile.row} of its tile behind a " if tile.row else ""
        raise ProgramError(
            f"{name}: row r is fed by partitions r, r + R, r + 2R, ..., so the first must be "
            f"{behind or 'a '}multiple of R = {chip.pe_array.rows}, found {access.partition}"
        )
    at_most(f"{name}: partitions (K)", access.partitions, "array rows", tile.rows)
