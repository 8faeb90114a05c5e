"""Lowering of what only takes elements of tensors, slice, pad, concat, ...: gathers on the chip."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from systolic.compiler.cost.engines import some_engine_does, step_cycles
from systolic.compiler.ir.gathers import (
    GatheredBox,
    GatherPart,
    PlaceValues,
    part_of,
    parts_of,
)
from systolic.compiler.ir.lane_step import COPY
from systolic.compiler.ir.nodes import Axes, GatherNode, Matrix
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.views import physical
from systolic.isa import Buffer
from systolic.workload import Operation
from systolic.workload.operations.concat import ConcatAttributes
from systolic.workload.operations.constant import ConstantAttributes
from systolic.workload.operations.index_map import NOWHERE, IndexMap
from systolic.workload.operations.iota import IotaAttributes

MOST_LONGER = 1.5
"""A move of rows to lanes of their own may take this many times as long as copies on one lane."""


def lower_index_map(builder: LayerBuilder, op: Operation) -> None:
    """Copy elements to their places, and fill what has no source.

    Rows of a table in DRAM in any order are brought from there, and only those.
    """
    (source,), out = op.inputs, builder.graph.shape(op.output)
    found = builder.graph.index_map(op)
    by_number = op.kind == "take" or not found.in_order
    rows = _rows_alone(found) if by_number and builder.dram.holds(source) else None
    if rows is not None:
        builder.load_rows(op.output, source, rows)
        return
    axes = _axes(builder, op)
    matrix = builder.with_tiles(source, axes)
    dims = builder.graph.shape(source).dims
    sizes = [1 if axis is None else dims[axis] for axis in found.follows]
    seen = _seen_in(axes, found.follows)
    parts = tuple(parts_of(found.places, seen, sizes))
    result = builder.result(op.output, seen)
    assert len(out.dims) == sum(map(len, seen))
    builder.node(GatherNode, (matrix,), result, parts, found.fill)


def lower_constant(builder: LayerBuilder, op: Operation) -> None:
    """Fill a matrix with one value."""
    _filled(builder, op, op.attributes_as(ConstantAttributes).value)


def lower_iota(builder: LayerBuilder, op: Operation) -> None:
    """Number the columns of one row, or wherever it is wanted so the rows of one column."""
    given = op.attributes_as(IotaAttributes)
    _filled(builder, op, PlaceValues(given.base, given.per_element))


def _filled(builder: LayerBuilder, op: Operation, value: float | PlaceValues) -> None:
    """Make a result of nothing but its places, as any view in which it is wanted."""

    def made(axes: Axes | None) -> Matrix:
        axes = axes or physical(builder.graph.shape(op.output))
        *batch, rows, cols = (builder.size(op.output, group) for group in axes)
        numbers = (np.arange(count) for count in (math.prod(batch), rows, cols))
        result = builder.result(op.output, axes)
        builder.node(GatherNode, (), result, (GatherPart(None, *numbers),), value)
        return result

    builder.note_remake(op.output, made, due=True)
    made(None)


def _rows_alone(found: IndexMap) -> tuple[int, ...] | None:
    """Return the rows of a matrix that are taken; None if it is anything else."""
    if found.follows != (0, 1):
        return None
    rows, cols = found.places
    if (rows == NOWHERE).any() or not np.array_equal(cols, np.arange(len(cols))):
        return None
    return tuple(rows.tolist())


def _seen_in(axes: Axes, follows: Sequence[int | None]) -> Axes:
    """Return a view of a source as a view of a result, whose further axes come in front."""
    place = {axis: number for number, axis in enumerate(follows)}
    new = tuple((number,) for number, axis in enumerate(follows) if axis is None)
    return (*new, *(tuple(place[axis] for axis in group) for group in axes))


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


def _gather(builder: LayerBuilder, op: Operation, boxes: Sequence[GatheredBox]) -> None:
    """Make a result of boxes of its operands, all seen as the first of them is."""
    axes = _axes(builder, op)
    inputs = tuple(builder.with_tiles(name, axes) for name in op.inputs)
    dims = builder.graph.shape(op.output).dims
    parts = [
        part_of(box, axes, dims, builder.graph.shape(op.inputs[box.source or 0]).dims)
        for box in boxes
    ]
    result = builder.result(op.output, axes)
    builder.node(GatherNode, inputs, result, tuple(parts))


def _axes(builder: LayerBuilder, op: Operation) -> Axes:
    """Return the view in which boxes are copied: as the first operand lies, or on more lanes.

    Matrices of one row each lie on one lane, where engines work through one after another. A move
    that puts each row on a lane of its own takes about as long as the copies of the boxes on one
    lane; these copies, and all that engines do behind them, are done on all lanes at once then.
    """
    tensor = op.inputs[0]
    matrix, axes = builder.any_view(tensor)
    wide = physical(builder.graph.shape(tensor))
    if matrix.source.kind != "node" or matrix.rows > 1 or builder.size(tensor, wide[-2]) == 1:
        return axes
    if not some_engine_does(builder.chip, COPY, Buffer.STATE):
        return axes
    on_one_lane = matrix.matrices * step_cycles(builder.chip, COPY, matrix.cols)
    if builder.change_cost(tensor, axes, [wide]) > MOST_LONGER * on_one_lane:
        return axes
    return wide
