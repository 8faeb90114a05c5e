"""Lowering of what only moves elements from one place in DRAM to another: the cheapest way.

Whatever the operation is called, it is a move (`systolic.compiler.ir.factors`). A move of the same
bytes is a copy. Any other goes by the cheapest of the ways (`ways`), unless the lowering of the
operation itself has a cheaper one. Not here: moves on the chip.
"""

from __future__ import annotations

from collections.abc import Sequence

from systolic.compiler.cost.arrangements import Planner
from systolic.compiler.cost.dma import load_cost
from systolic.compiler.cost.turns import turn_cost
from systolic.compiler.ir.factors import Move, move_of
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.ways import Ends, cheapest
from systolic.workload.options import Options

MATRICES = 2
"""The factors of a transpose of one matrix, which has a lowering of its own: square tiles."""


def move_in_dram(
    builder: LayerBuilder, source: str, output: str, permutation: Sequence[int] | None,
    other_cycles: int | None = None,
) -> bool:  # fmt: skip
    """Bring a tensor in DRAM to the place of an output in DRAM; return whether it is done.

    permutation: of the axes (None: a reshape). other_cycles: about how many of the array's cycles
    another lowering takes; it is left to that unless a way is cheaper.
    """
    if _asked(builder.options):
        return False
    shape = builder.graph.shape(output)
    move = move_of(builder.dram.shape(source), shape, permutation)
    if move is None:
        return False
    if move.same_bytes and builder.chip.dram.organisation is not None:
        return False  # its estimate knows no rows that reads and writes close for one another
    if move.same_bytes:
        builder.choose(f"{output} has the bytes of {source}: they are copied by all DMA queues")
        builder.copied(builder.dram.of(source), output)
        builder.come_home(output)
        return True
    if len(move.sizes) == MATRICES and other_cycles is None and builder.can_turn(move.dtype):
        other_cycles = _matrix_cycles(builder, move)
        if not _arranged(builder, move, (source, output), other_cycles):
            _as_a_matrix(builder, move, source, output)
        return True
    return _arranged(builder, move, (source, output), other_cycles)


def _asked(options: Options) -> bool:
    """Return whether the run file says how elements are to be moved."""
    return options.via is not None or options.block is not None or options.tile_columns is not None


def _matrix_cycles(builder: LayerBuilder, move: Move) -> int:
    """Return about how many of the array's cycles one matrix takes that the array turns."""
    chip = builder.chip
    rows, cols = (0,), (1,)
    moved = load_cost(chip, move.source, (rows, cols)) + load_cost(chip, move.result, (cols, rows))
    dma = moved // chip.dma.queues * chip.period("dma")
    return dma // chip.period("pe_array") + turn_cost(chip, move.sizes, move.dtype)


def _as_a_matrix(builder: LayerBuilder, move: Move, source: str, output: str) -> None:
    """Transpose the one matrix of a reshape: long runs in, identity products, long runs out."""
    builder.choose(f"{output} is the transpose of a matrix, by identity products")
    ends = _ends(builder, move, source, output)
    rows, cols = (0,), (1,)
    brought = builder.place_matrix(move.source, (rows, cols), output, dram=ends.source)
    turned = builder.place_matrix(move.source, (cols, rows), output)
    builder.node("turn", (builder.carried(brought),), turned)
    builder.store_at(turned, ends.target, (cols, rows))
    builder.come_home(output)


def _ends(builder: LayerBuilder, move: Move, source: str, output: str) -> Ends:
    """Give the places of source and result names under which their dimensions are the factors."""
    ends = Ends(f"{output}.from", f"{output}.to", output)
    builder.dram.alias(ends.source, builder.dram.of(source), move.source)
    builder.dram.alias(ends.target, output, move.result)
    return ends


def _arranged(
    builder: LayerBuilder, move: Move, names: tuple[str, str], other_cycles: int | None
) -> bool:
    """Let a move go the cheapest way; return False if none suits or another lowering is cheaper.

    names: of the source and of the result.
    """
    source, output = names
    choice = cheapest(move, Planner(builder.chip, builder.options))
    if choice is None:
        return False
    cycles = choice.ticks // builder.chip.period("pe_array")
    if other_cycles is not None and other_cycles <= cycles:
        return False
    others = "" if other_cycles is None else f"; as matrices: {other_cycles}"
    builder.choose(f"{source} goes to {output} {choice.way.name} (about {cycles} cycles{others})")
    ends = _ends(builder, choice.plan.move, source, output)
    choice.way.emit(builder, choice.plan, ends)
    builder.come_home(output)
    return True
