"""Lowerings of operations that put elements in another order: transpose, relayout.

The places of a tensor before and after say what must move (`recognise`): nothing, whole rows, or
matrices that are transposed. Transposed matrices go through the array (identity products, patent,
para 56-85) or through DRAM (para 13, 98). [compile] via says which way; without it the cheaper way
is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from systolic.compiler.ir.nodes import Axes, BounceNode, Matrix
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.moves.blocks import (
    blocks_of,
    check_room,
    goes_in_blocks,
)
from systolic.compiler.lower.recognise import (
    MatrixSet,
    moves_nothing,
    recognise_rows,
    recognise_transpose,
)
from systolic.compiler.lower.views import physical
from systolic.errors import CompileError
from systolic.hw.spec import Chip
from systolic.workload import Graph, Home, Operation, TransposeAttributes


def lower_transpose(builder: LayerBuilder, op: Operation) -> None:
    """Permute the axes: axis i of the result is axis permutation[i] of the source."""
    _permute(builder, op, op.attributes_as(TransposeAttributes).axes)


def lower_relayout(builder: LayerBuilder, op: Operation) -> None:
    """Lower a relayout: a transpose that leaves every axis in its place."""
    _permute(builder, op, range(builder.graph.shape(op.output).rank))


def _permute(builder: LayerBuilder, op: Operation, permutation: Sequence[int]) -> None:
    (source,) = op.inputs
    home = _home(builder, op)
    before, after = builder.graph.shape(source), builder.graph.shape(op.output)
    if home is None or moves_nothing(before, after, permutation):
        _see(builder, source, op.output, permutation)
    elif home == "dram" and (rows := recognise_rows(before, after, permutation)):
        builder.store_home(builder.load(source, rows.source), op.output, rows.result)
    elif home == "dram":
        _from_dram(builder, op, recognise_transpose(before, after, permutation))
    elif goes_in_blocks(
        builder.graph.tensor(source),
        builder.graph.tensor(op.output),
        permutation,
        builder.chip,
        builder.options,
    ):
        _in_blocks(builder, op, recognise_transpose(before, after, permutation))
    else:
        _see(builder, source, op.output, permutation)


def _home(builder: LayerBuilder, op: Operation) -> Home | None:
    """Return the memory in which all of an operation is done; None if it takes views of tensors."""
    packed = [name for name in (*op.inputs, op.output) if builder.is_packed(name)]
    if packed and builder.options.block:
        raise CompileError(
            f"compile.block: {packed[0].removesuffix('.elements')} lies on the chip with several "
            f"elements in a byte, so no blocks can be chosen"
        )
    return None if packed else both_at(builder.graph, op)


def both_at(graph: Graph, op: Operation) -> Home | None:
    """Return the memory in which source and result both live, if no other operation uses them."""
    source = op.inputs[0]
    alone = sum(source in other.inputs for other in graph.operations) == 1
    if source not in graph.inputs or op.output not in graph.outputs or not alone:
        return None
    home = graph.tensor(source).home
    return home if home == graph.tensor(op.output).home else None


def _in_blocks(builder: LayerBuilder, op: Operation, matrices: MatrixSet) -> None:
    """Transpose a tensor on the chip block by block; block (i, j) becomes block (j, i)."""
    chip, options = builder.chip, builder.options
    (p, q), array = blocks_of(matrices, chip, options).block, options.via != "dram"
    _refuse_sides(chip, (p, q))
    if options.via == "pe" or (options.block and array):
        _refuse_type(builder, op)
    check_room(matrices, chip, options)
    source = builder.place(op.inputs[0], matrices.source, (p, q))
    result = builder.result(op.output, matrices.result, (q, p))
    if array:
        builder.turn(source, result)
    else:
        builder.node(BounceNode, (source,), result)
    builder.keep_matrix(op.output, result, matrices.result)


def _from_dram(builder: LayerBuilder, op: Operation, matrices: MatrixSet) -> None:
    """Bring a matrix, transpose it and store it; or transpose it on the way in."""
    (source,), options = op.inputs, builder.options
    *batch, rows, cols = matrices.source
    turned = (*batch, cols, rows)
    block = options.block and blocks_of(matrices, builder.chip, options).block
    if block and options.via != "dram":
        _refuse_sides(builder.chip, block)
    if options.via == "pe":
        _refuse_type(builder, op)
    elif matrices.dims[-2] == 1:  # a row and the column that it becomes lie alike: whole runs
        *others, column, row = matrices.result
        matrix = builder.load(source, matrices.source, block)
        builder.store_home(matrix, op.output, (*others, row, column))
        return
    if options.via == "dram" or not builder.turn_is_cheaper(source, turned):
        matrix = builder.load(source, turned, block and block[::-1])
    else:
        loaded = builder.load(source, matrices.source, block)
        matrix = builder.result(source, turned, block and block[::-1])
        builder.turn(loaded, matrix)
    builder.store_home(matrix, op.output, matrices.result)


def _refuse_sides(chip: Chip, block: tuple[int, int]) -> None:
    partitions = chip.state_buffer.partitions
    for name, side in zip(("rows", "columns"), block, strict=True):
        if side > partitions:
            raise CompileError(
                f"compile.block: {name} of a block lie in partitions before or after the "
                f"transpose; {side} are wanted, {chip.name} has {partitions}"
            )


def _refuse_type(builder: LayerBuilder, op: Operation) -> None:
    shape = builder.graph.shape(op.inputs[0])
    known = builder.chip.pe_array.cycles_per_vector
    if shape.element_type not in known:
        raise CompileError(
            f'operation "{op.name}": {shape}: the array of {builder.chip.name} cannot take '
            f"{shape.element_type}; it takes {', '.join(known)}"
        )


def _see(builder: LayerBuilder, source: str, output: str, permutation: Sequence[int]) -> None:
    """Show `source` as the result: axis i of the result is axis permutation[i] of the source."""
    if _is_same_in_dram(builder, source, output, permutation):
        place = f"{output}.seen"
        builder.dram.alias(place, builder.dram.of(source), builder.graph.shape(output))
        builder.dram.put(output, place)
        return
    back = {axis: place for place, axis in enumerate(permutation)}
    builder.place_tiled(source)
    if (strands := builder.strands(source)) and builder.uses(source) == 1:
        axes = tuple(tuple(back[d] for d in group) for group in strands.axes)
        builder.rename_strands(strands, output, axes)
        return
    if builder.has_remake(source):
        again = partial(_seen_again, builder, source, permutation, output)
        builder.note_remake(output, again, due=builder.is_due(source))
    builder.settle(source)
    seen = builder.views(source)
    if builder.dram.holds(source):
        wanted = physical(builder.graph.shape(output))
        in_source: Axes = tuple(tuple(permutation[d] for d in group) for group in wanted)
        if not builder.known(source, in_source):
            in_source = _by_turning(builder, source, in_source)
        builder.view(source, in_source)
        views = builder.views(source)
        seen = [view for view in views if view[1] == in_source] or views
    for matrix, axes in seen:
        builder.rename(matrix, output, tuple(tuple(back[d] for d in group) for group in axes))


def _is_same_in_dram(
    builder: LayerBuilder, source: str, output: str, permutation: Sequence[int]
) -> bool:
    """Return whether an input in DRAM has the bytes of the result, which others take from there."""
    graph = builder.graph
    before, after = graph.shape(source), graph.shape(output)
    if source not in graph.inputs or output in graph.outputs or not builder.dram.holds(source):
        return False
    plain = not before.layout.tiles and not after.layout.tiles
    return plain and not builder.views(source) and moves_nothing(before, after, permutation)


def _seen_again(
    builder: LayerBuilder, source: str, permutation: Sequence[int], output: str, axes: Axes | None
) -> Matrix:
    """Show as the result the source in the view that makes it `axes`."""
    axes = physical(builder.graph.shape(output)) if axes is None else axes
    matrix = builder.view(source, tuple(tuple(permutation[d] for d in group) for group in axes))
    builder.rename(matrix, output, axes)
    return matrix


def _by_turning(builder: LayerBuilder, source: str, wanted: Axes) -> Axes:
    """Return the view that a load with long runs and then a turn give, if the columns differ."""
    have = physical(builder.dram.shape(source))[-1]
    if len(wanted) < 2 or have == wanted[-1] or have not in wanted:
        return wanted
    batch = tuple(group for group in wanted[:-1] if group != have)
    return (*batch, have, wanted[-1])
