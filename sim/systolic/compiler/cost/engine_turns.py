"""Small matrices that an engine transposes by its own instruction: which, and at what price.

An engine's instruction turns blocks of a few rows and columns, which stay where they are or go to
other partitions one at a time. The array turns a tile of all its rows and columns at once, but the
way through it, and the copy behind it, take longer than a few such blocks.
"""

from __future__ import annotations

import math

from systolic.compiler.cost.engines import (
    cheapest_engine,
    drain_cycles,
    drain_engine,
    engine_cycles,
    engines_able,
)
from systolic.compiler.ir.nodes import Layers, Matrix, MultiplyNode, TurnNode
from systolic.compiler.ir.windows import StridedWindow
from systolic.hw.formulas.timing import load_reads, result_cycles, turn_interval_cycles
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Transpose
from systolic.workload.options import Options

SIDE = 32
"""The most rows and columns of a block."""


def may_turn(chip: Chip, options: Options, rows: int, cols: int) -> bool:
    """Return whether engines of the chip may turn matrices of this size, as far as can be said.

    They turn what is one tile of the array, if the user has not chosen how the array does it.
    """
    array = chip.pe_array
    chosen = options.via or options.block or options.drain_engine or options.drain != "block"
    engines = chip.lane_engines.values()
    return (
        not chosen
        and any("transpose" in engine.does for engine in engines)
        and rows <= min(array.rows, chip.state_buffer.partitions)
        and cols <= min(array.cols, chip.state_buffer.partitions)
    )


def turned_by_engine(
    chip: Chip, options: Options, layers: Layers, block: tuple[int, int]
) -> dict[int, int]:
    """Return the sides of the blocks of each node that an engine turns, by the node's number.

    Beside products the array turns everything: bounds of products count on it. So it does where
    rows share partitions.
    """
    if any(isinstance(node, MultiplyNode) for node in layers.nodes) or any(
        isinstance(matrix.window, StridedWindow) for matrix in layers.matrices
    ):
        return {}
    found = {}
    for number, node in enumerate(layers.nodes):
        if isinstance(node, TurnNode):
            ends = layers.matrix(node.inputs[0]), layers.matrix(node.output)
            if side := _side(chip, options, ends, block):
                found[number] = side
    return found


def _side(chip: Chip, options: Options, ends: tuple[Matrix, Matrix], block: tuple[int, int]) -> int:
    """Return the side of the blocks of a matrix that an engine turns sooner; 0: the array does."""
    source, made = ends
    rows, cols = source.rows, source.cols
    if not may_turn(chip, options, rows, cols) or source.dtype != made.dtype:
        return 0
    if any(end.window or end.lies.repeats for end in ends):
        return 0
    (p, q), (tall, wide) = source.block or block, made.block or block
    if rows > min(p, wide) or cols > min(q, tall):
        return 0
    together = math.gcd(rows, cols)
    side = next(side for side in range(SIDE, 0, -1) if together % side == 0)
    works = [
        _block(source.dtype, side, source.partition + row, made.partition + col)
        for row in range(0, rows, side)
        for col in range(0, cols, side)
    ]
    if not all(engines_able(chip, work) for work in works):
        return 0
    mine = _engine_ticks(chip, options, works, source.matrices)
    return side if mine < _array_ticks(chip, options, source) else 0


def _block(dtype: str, side: int, row: int, col: int) -> Transpose:
    """Return the transpose of a block from one partition to another, wherever in them it lies."""
    source, target = (
        Access(Buffer.STATE, dtype, partition, side, 0, ((1, side),)) for partition in (row, col)
    )
    return Transpose(engine="", source=source, target=target, side=side)


def _engine_ticks(chip: Chip, options: Options, works: list[Transpose], matrices: int) -> int:
    """Return about how many ticks an engine takes for these blocks of each matrix."""
    name = cheapest_engine(chip, options, works[0])
    each = engine_cycles(chip, name, works[0])
    blocks = matrices * len(works)
    return (blocks * each + chip.engine(name).latency_cycles) * chip.period(name)


def _array_ticks(chip: Chip, options: Options, source: Matrix) -> int:
    """Return about how many ticks the array and the engine behind it take for the matrices."""
    rows, cols, dtype, array = source.rows, source.cols, source.dtype, chip.pe_array
    passes, name = array.turns_by_passing(dtype), drain_engine(chip, options)
    period, period_behind = chip.period("pe_array"), chip.period(name)
    each = turn_interval_cycles(chip, rows, cols, dtype, is_pass_through=passes) * period
    drain = drain_cycles(chip, options, dtype, rows) * period_behind
    last = load_reads(chip, rows, cols, dtype) + rows * array.turn_cycles(dtype)
    last += result_cycles(chip, cols) + chip.post_cycles("pe_array")
    ticks = (source.matrices - 1) * max(each, drain) + last * period
    return ticks + drain + chip.engine(name).latency_cycles * period_behind
