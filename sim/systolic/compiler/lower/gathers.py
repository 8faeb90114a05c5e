"""Lowering of what only takes boxes of tensors: slice, concat and pad, as gathers on the chip."""

from __future__ import annotations

from collections.abc import Sequence

from systolic.compiler.cost.engines import some_engine_does, step_cycles
from systolic.compiler.ir.gathers import Gather, GatheredBox, around, part_of
from systolic.compiler.ir.lane_step import COPY
from systolic.compiler.ir.nodes import Axes
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.views import physical
from systolic.isa import Buffer
from systolic.workload import Operation
from systolic.workload.operations.concat import ConcatAttributes
from systolic.workload.operations.pad import PadAttributes
from systolic.workload.operations.slice import SliceAttributes
from systolic.workload.operations.take import TakeAttributes

MOST_LONGER = 1.5
"""A move of rows to lanes of their own may take so many times as long as copies on one lane."""


def lower_slice(builder: LayerBuilder, op: Operation) -> None:
    """Copy the elements of a box, or every n-th of them along each dimension."""
    given, dims = op.attributes_as(SliceAttributes), builder.graph.shape(op.output).dims
    steps = given.steps(len(dims))
    _gather(builder, op, [GatheredBox((0,) * len(dims), dims, 0, given.start, steps)])


def lower_concat(builder: LayerBuilder, op: Operation) -> None:
    """Copy every operand to its place behind the one before."""
    axis = op.attributes_as(ConcatAttributes).of(builder.graph.shape(op.output).rank)
    boxes, begin = list[GatheredBox](), 0
    for number, name in enumerate(op.inputs):
        dims = builder.graph.shape(name).dims
        first = tuple(begin if each == axis else 0 for each in range(len(dims)))
        boxes.append(GatheredBox(first, dims, number, (0,) * len(dims), (1,) * len(dims)))
        begin += dims[axis]
    _gather(builder, op, boxes)


def lower_take(builder: LayerBuilder, op: Operation) -> None:
    """Copy the elements at places along one axis."""
    dims = builder.graph.shape(op.output).dims
    given = op.attributes_as(TakeAttributes)
    picked = (given.of(len(dims)), given.indices)
    origin, steps = (0,) * len(dims), (1,) * len(dims)
    _gather(builder, op, [GatheredBox(origin, dims, 0, origin, steps, picked)])


def lower_pad(builder: LayerBuilder, op: Operation) -> None:
    """Copy the operand, and fill what is around it."""
    given, dims = op.attributes_as(PadAttributes), builder.graph.shape(op.inputs[0]).dims
    inner = GatheredBox(given.low, dims, 0, (0,) * len(dims), (1,) * len(dims))
    boxes = [*around(inner, builder.graph.shape(op.output).dims), inner]
    _gather(builder, op, boxes, given.value)


def _gather(
    builder: LayerBuilder, op: Operation, boxes: Sequence[GatheredBox], value: float = 0.0
) -> None:
    """Make a result of boxes of its operands, all seen as the first of them is."""
    axes = _axes(builder, op)
    inputs = tuple(builder.with_tiles(name, axes) for name in op.inputs)
    dims = builder.graph.shape(op.output).dims
    parts = [
        part_of(box, axes, dims, builder.graph.shape(op.inputs[box.source or 0]).dims)
        for box in boxes
    ]
    result = builder.result(op.output, axes)
    builder.node("gather", inputs, result, gather=Gather(tuple(parts), value))


def _axes(builder: LayerBuilder, op: Operation) -> Axes:
    """Return the view in which boxes are copied: as the first operand lies, or on more lanes.

    Matrices of one row each lie on one lane, where engines work through one after another. A move
    that puts each row on a lane of its own takes about as long as the copies of the boxes on one
    lane; these copies, and all that engines do behind them, are done on all lanes at once then.
    """
    tensor = op.inputs[0]
    matrix, axes = builder.any_view(tensor)
    wide = physical(builder.graph.shape(tensor))
    if matrix.source != "node" or matrix.rows > 1 or builder.size(tensor, wide[-2]) == 1:
        return axes
    if not some_engine_does(builder.chip, COPY, Buffer.STATE):
        return axes
    on_one_lane = matrix.matrices * step_cycles(builder.chip, COPY, matrix.cols)
    if builder.change_cost(tensor, axes, [wide]) > MOST_LONGER * on_one_lane:
        return axes
    return wide
