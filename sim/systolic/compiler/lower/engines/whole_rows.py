"""Lowering of work on whole rows: an axis comes to lie along the address, all of it in one tile.

Then one instruction of an engine does all rows of a tile. Not here: what such an operation means
(`systolic.workload.operations.whole_rows`), and where a composite is made of them (`row_work`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from systolic.compiler.cost.engines import some_engine_does
from systolic.compiler.cost.last_chip import LAST_CHIP
from systolic.compiler.ir.gathers import GatherPart
from systolic.compiler.ir.lane_step import LaneStep
from systolic.compiler.ir.nodes import Axes, ConvertNode, GatherNode, Matrix, RowsNode
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.engines.reduce import as_columns
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import Buffer
from systolic.isa.instruction import (
    CopyDynamicDst,
    CopyDynamicSrc,
    FindIndex8,
    LocalGather,
    Max8,
    Scan,
)
from systolic.workload import Operation
from systolic.workload.operations.row import RowWork
from systolic.workload.operations.whole_rows import (
    GROUP,
    AlongAttributes,
    CountAttributes,
    FoldName,
    ScanAttributes,
)

LARGEST = LaneStep(Max8)
FIND = LaneStep(FindIndex8, others=("values",))


def _scan(then: str = "add", initial: float = -0.0) -> LaneStep:
    """Return (one x before) then x: with 1 beside every element nothing is rounded twice."""
    settings = {"op": "multiply", "then": then, "initial": initial}
    return LaneStep(Scan, settings, first="right", others=("left",))


def _move_from(most: int = 0) -> LaneStep:
    return LaneStep(CopyDynamicSrc, {"most": most}, others=("offset",))


def _move_to(most: int = 0) -> LaneStep:
    others = ("source", "offset")
    return LaneStep(CopyDynamicDst, {"most": most}, first="target", others=others, onto=True)


PICK = LaneStep(LocalGather, others=("index",))


def row_work(chip: Chip) -> RowWork:
    """Return what the chip's engines do with whole rows."""
    return LAST_CHIP.of(_row_work, chip)


def _row_work(chip: Chip) -> RowWork:
    def does(*steps: LaneStep) -> bool:
        return all(some_engine_does(chip, step, Buffer.STATE) for step in steps)

    return RowWork(
        scans=does(_scan()),
        searches=does(LARGEST, FIND),
        moves=does(_move_from(), _move_to()),
        picks=does(PICK) and not block_rows(chip) % GROUP,
        bytes=chip.state_buffer.bank_bytes,
        lanes=block_rows(chip),
    )


def _rows_of(builder: LayerBuilder, name: str, axis: int) -> tuple[Matrix, Axes]:
    """Return a tensor with an axis as columns, in tiles of whole rows, and the axes of the view.

    From DRAM all rows come as one matrix, so that its tiles have as many rows as there are lanes.
    """
    builder.settle(name)
    axes = as_columns(builder, name, (axis,))
    if len(axes) > 2 and builder.dram.holds(name) and not builder.is_shown(name):
        axes = tuple(each for group in axes[:-1] for each in group), axes[-1]
    return builder.in_whole_rows(builder.view(name, axes)), axes


def _made(builder: LayerBuilder, op: Operation, axes: Axes) -> Matrix:
    """Return the result as the same view, in tiles of whole rows."""
    columns = builder.size(op.output, axes[-1])
    return builder.result_in(op.output, axes, (block_rows(builder.chip), columns))


_FOLDS: dict[FoldName, tuple[str, float, float]] = {
    "sum": ("add", -0.0, 0),
    "product": ("multiply", 1.0, 1),
    "max": ("max", -np.inf, -(1 << 31)),
    "min": ("min", np.inf, (1 << 31) - 1),
}
"""What is done with two elements, and what changes no float and no integer."""


def lower_scan(builder: LayerBuilder, op: Operation) -> None:
    """Combine each element with the result before it."""
    given, (name,) = op.attributes_as(ScanAttributes), op.inputs
    source, axes = _rows_of(builder, name, given.axis)
    then, first, whole = _FOLDS[given.fold]
    accumulator = data_type(source.dtype).accumulator
    is_float = accumulator == "f32"
    ones = _filled(builder, source, accumulator, 1.0)
    step = _scan(then, first if is_float else int(whole))
    result = _made(builder, op, axes)
    builder.node(RowsNode, (source, ones), result, step=step, backwards=given.from_end)


def _filled(builder: LayerBuilder, like: Matrix, dtype: str, value: float) -> Matrix:
    """Return a column of one value for the rows of a tile."""
    rows = min(like.rows, block_rows(builder.chip))
    made = builder.scratch(like.tensor, dtype, (1, rows, 1), (block_rows(builder.chip), 1))
    part = GatherPart(None, np.arange(1), np.arange(rows), np.arange(1))
    builder.node(GatherNode, (), made, (part,), value)
    return made


def lower_largest(builder: LayerBuilder, op: Operation) -> None:
    """Take the eight largest of each row."""
    source, axes = _rows_of(builder, op.inputs[0], op.attributes_as(AlongAttributes).axis)
    builder.node(RowsNode, (source,), _made(builder, op, axes), step=LARGEST)


def lower_find(builder: LayerBuilder, op: Operation) -> None:
    """Say where in each row eight values are."""
    name, values = op.inputs
    source, axes = _rows_of(builder, name, op.attributes_as(AlongAttributes).axis)
    wanted = builder.in_whole_rows(builder.view(values, axes))
    builder.node(RowsNode, (source, wanted), _made(builder, op, axes), step=FIND)


def lower_move_from(builder: LayerBuilder, op: Operation) -> None:
    """Copy places of each row from the one on that a number says."""
    given, (name, start) = op.attributes_as(CountAttributes), op.inputs
    source, axes = _rows_of(builder, name, given.axis)
    step = _move_from(source.cols - given.count)
    builder.node(RowsNode, (source, _number(builder, start)), _made(builder, op, axes), step=step)


def lower_move_to(builder: LayerBuilder, op: Operation) -> None:
    """Copy rows, and over them others from the place on that a number says."""
    name, update, start = op.inputs
    source, axes = _rows_of(builder, name, op.attributes_as(AlongAttributes).axis)
    new = builder.in_whole_rows(builder.view(update, axes))
    step = _move_to(source.cols - new.cols)
    stays = op.output in builder.graph.outputs and builder.graph.tensor(op.output).home != "dram"
    result = _made(builder, op, axes)
    made = builder.add(replace(result, name=builder.new_name(op.output))) if stays else result
    builder.node(RowsNode, (source, new, _number(builder, start)), made, step=step)
    if stays:  # its place may lie across two banks
        builder.node(ConvertNode, (made,), result)


def lower_pick(builder: LayerBuilder, op: Operation) -> None:
    """Copy places of each row in the order of numbers."""
    name, places = op.inputs
    axes: Axes = ((0,), (1,))
    source = builder.in_whole_rows(builder.view(name, axes))
    numbers = builder.in_whole_rows(builder.view(places, ((0,), (1,))))
    builder.node(RowsNode, (source, numbers), _made(builder, op, axes), step=PICK)


def _number(builder: LayerBuilder, name: str) -> Matrix:
    """Return a tensor of one number as a matrix of one element."""
    return builder.in_whole_rows(builder.view(name, ((), (0,))))


ROW_LOWERINGS: dict[str, Callable[[LayerBuilder, Operation], None]] = {
    "scan": lower_scan,
    "largest": lower_largest,
    "find": lower_find,
    "move_from": lower_move_from,
    "move_to": lower_move_to,
    "pick": lower_pick,
}
