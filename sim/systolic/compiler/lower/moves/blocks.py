"""Transposes in blocks of equation 1: when they are used, the blocks, and whether they fit.

A tensor of blocks lies in the state buffer as its tiles T(p,q): the row in the tile is the
partition, and tile number * q + column the address. So blocks are tiles.
"""

from __future__ import annotations

from collections.abc import Sequence

from systolic.compiler.cost.turns import carrier, placed_as
from systolic.compiler.ir.on_chip.homes import in_unbroken_rows, lies_unbroken
from systolic.compiler.lower.recognise import MatrixSet, moves_nothing, recognise_transpose
from systolic.errors import CompileError, RoomError
from systolic.hw.datatypes import PSUM_WORD_BYTES, data_type
from systolic.hw.spec import Chip
from systolic.layout import Decomposition, Shape, decompose
from systolic.workload import Graph, Tensor, TransposeAttributes
from systolic.workload.options import Options


def blocks_of(matrices: MatrixSet, chip: Chip, options: Options) -> Decomposition:
    """Return the blocks p x q of equation 1, and their sub-blocks no larger than the array."""
    partitions = chip.state_buffer.partitions
    p, q = options.block or (partitions, partitions)
    if options.via == "dram":
        return decompose(matrices.shape, (p, q))
    sub = min(p, chip.pe_array.rows), min(q, chip.pe_array.cols)
    return decompose(matrices.shape, (p, q), sub)


def equation_1(graph: Graph, chip: Chip, options: Options) -> Decomposition | None:
    """Return the blocks of a graph that is one transpose; None for any other graph."""
    if len(graph.operations) > 1 or graph.operations[0].kind != "transpose":
        return None
    (op,) = graph.operations
    before, after = graph.shape(op.inputs[0]), graph.shape(op.output)
    home = graph.tensor(op.output).home
    axes = op.attributes_as(TransposeAttributes).axes
    if moves_nothing(before, after, axes) or (
        home == "state_buffer"
        and not goes_in_blocks(
            graph.tensor(op.inputs[0]), graph.tensor(op.output), axes, chip, options
        )
    ):
        return None
    return blocks_of(recognise_transpose(before, after, axes), chip, options)


def goes_in_blocks(
    source: Tensor, result: Tensor, permutation: Sequence[int], chip: Chip, options: Options
) -> bool:
    """Return whether tensors on the chip are transposed in blocks of equation 1.

    They are if the run file says how. Otherwise the array must take the type, and many small
    matrices, each in a block of its own, must have room. If not, views are changed, which needs
    neither.
    """
    before, after = source.shape, result.shape
    if not _tiles_allow(source, result, permutation, chip, options):
        if options.block:
            raise CompileError(
                f"compile.block: {before} and {after} lie on the chip in their own tiles, so no "
                f"blocks can be chosen"
            )
        return False
    if options.via or options.block or (before.rank == 2 and _array_takes(chip, before)):
        return True
    matrices = recognise_transpose(before, after, permutation)
    try:
        check_room(matrices, chip, options)
    except CompileError:
        return False
    return _array_takes(chip, before)


def _tiles_allow(
    source: Tensor, result: Tensor, permutation: Sequence[int], chip: Chip, options: Options
) -> bool:
    """Return whether source and result lie in the rows that blocks use: chosen so, or by tiles."""
    before, after = source.shape, result.shape
    if not before.layout.tiles and not after.layout.tiles:
        return True
    if source.partition or result.partition:
        return False
    matrices = recognise_transpose(before, after, permutation)
    p, q = blocks_of(matrices, chip, options).block
    *_, rows, columns = matrices.dims
    sides = ((before, matrices.source, rows, p), (after, matrices.result, columns, q))
    return all(
        not shape.layout.tiles
        or (in_unbroken_rows(shape, axes, tall) == shape and lies_unbroken(rows, tall, chip))
        for shape, axes, rows, tall in sides
    )


def _array_takes(chip: Chip, shape: Shape) -> bool:
    return shape.element_type in chip.pe_array.cycles_per_vector


def check_room(matrices: MatrixSet, chip: Chip, options: Options) -> None:
    """Raise CompileError unless blocks, results and an identity have room on the chip."""
    blocks, height = blocks_of(matrices, chip, options), 0
    if options.via != "dram":
        height = min(chip.pe_array.rows, blocks.block[0], matrices.dims[-2])
        _check_result_bank(chip, height)
    dtype = matrices.element_type
    given = placed_as(chip, dtype)
    carried = carrier(chip, given) if options.via != "dram" else dtype
    others = data_type(carried).size_bytes if carried not in (None, given) else 0
    _check_state_buffer(chip, blocks, (data_type(dtype).size_bytes, others), height)


def _check_state_buffer(
    chip: Chip, blocks: Decomposition, sizes: tuple[int, int], identity_rows: int
) -> None:
    """Raise CompileError unless blocks, their transposes and an identity fit the state buffer.

    Args:
        chip: the hardware.
        blocks: the tensor's blocks p x q; transposed they are q x p.
        sizes: the bytes of an element, and of one that carries it through the array (0: itself).
        identity_rows: of the identity matrix (0: none is needed).

    """
    p, q = blocks.block
    size_bytes, carried_bytes = sizes
    need = {
        "block": blocks.count * q * size_bytes,
        "result at its second address": blocks.count * p * size_bytes,
    }
    if carried_bytes:
        need["block in the type that carries it"] = blocks.count * q * carried_bytes
    if identity_rows:
        need["identity"] = identity_rows * (carried_bytes or size_bytes)
    have = chip.state_buffer.bytes_per_partition
    room = have
    for what, size in need.items():
        if size > room:
            everything = " + ".join(f"{name} {bytes_}" for name, bytes_ in need.items())
            raise RoomError(
                f"state_buffer of {chip.name} has no room for the {what}: {blocks.tiled} in "
                f"{blocks.count} blocks of {p} x {q} needs {everything} = {sum(need.values())} "
                f"bytes per partition, found {have}"
            )
        room -= size


def _check_result_bank(chip: Chip, rows: int) -> None:
    """Raise CompileError if a bank of the result buffer does not hold `rows` rows of a block."""
    buffer = chip.result_buffer
    if rows > buffer.bank_words:
        raise CompileError(
            f"result_buffer of {chip.name} is too small for one block: {rows} rows of "
            f"{PSUM_WORD_BYTES} bytes are needed in a bank, found bank_bytes = {buffer.bank_bytes}"
        )
