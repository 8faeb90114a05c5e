"""Lowering of a reduction: the reduced axes come to lie along the address, then engines reduce.

An engine reduces segments of as many elements as a block has rows, each to one element: the numbers
of a tile's columns are then fewer by that factor. The results are reduced likewise, until one is
left for each row. Axes that lie on the partitions are turned first.
"""

from __future__ import annotations

from systolic.compiler.cost.engines import some_engine_does, step_cycles
from systolic.compiler.ir.lane_step import LaneStep, summed
from systolic.compiler.ir.nodes import Axes, ConvertNode, Matrix, ReduceNode
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.lower.builder import LayerBuilder
from systolic.errors import CompileError
from systolic.hw.datatypes import data_type
from systolic.isa import Buffer
from systolic.isa.instruction import Pool, TensorScalar
from systolic.workload import Operation
from systolic.workload.operations.reduce import ReduceAttributes, kept_axes

MOST_LONGER = 1.5
"""Instructions that sum up as well may take this many times as long as one that does not.

The engine that would reduce is spared about as many cycles as that one takes.
"""


def lower_reduce(builder: LayerBuilder, op: Operation) -> None:
    """Bring the reduced axes to the columns, and reduce these level by level."""
    given, (source,) = op.attributes_as(ReduceAttributes), op.inputs
    segment = _segment(builder, op)
    builder.settle(source)
    axes = as_columns(builder, source, given.reduced(builder.graph.shape(source).rank))
    matrix = builder.view(source, axes)
    count, accumulator = matrix.cols, data_type(matrix.dtype).accumulator
    kept = kept_axes(builder.graph.shape(source).rank, axes[-1])
    seen = (*(tuple(kept.index(axis) for axis in group) for group in axes[:-1]), ())
    several = count > segment
    in_order = "sum" if several and given.reduction == "mean" else given.reduction
    step = LaneStep(Pool, {"function": in_order})
    if several and in_order == "sum" and (both := _summing(builder, matrix)) is not None:
        fewer = builder.temporary(matrix, accumulator, -(-matrix.cols // segment))
        builder.sum_up(matrix, fewer, both)
        builder.choose(f"segments of {source} are summed up by the instructions that make it")
        matrix = fewer
    while matrix.cols > segment:
        fewer = builder.temporary(matrix, accumulator, -(-matrix.cols // segment))
        builder.node(ReduceNode, (matrix,), fewer, step=step)
        matrix = fewer
    if in_order == given.reduction:
        builder.node(ReduceNode, (matrix,), builder.result(op.output, seen), step=step)
        return
    total = builder.temporary(matrix, accumulator, 1)
    builder.node(ReduceNode, (matrix,), total, step=step)
    divide = LaneStep(TensorScalar, {"op": "divide", "scalar": float(count)})
    builder.node(ConvertNode, (total,), builder.result(op.output, seen), step=divide)


def _summing(builder: LayerBuilder, matrix: Matrix) -> LaneStep | None:
    """Return the step that makes a matrix and sums up its segments; None if no time is saved.

    The instruction adds float32 results before their cast, so these must be what is stored. It
    needs one for each segment: where each costs much, two instructions for many segments are less.
    """
    maker = builder.converted(matrix)
    if maker is None or matrix.dtype != "f32" or matrix.window or matrix.block:
        return None
    both = summed(maker.step)
    if both is None:
        return None
    if not all(some_engine_does(builder.chip, step, Buffer.STATE) for step in (maker.step, both)):
        return None
    columns = min(matrix.cols, builder.chip.multiply_vectors)
    segments = -(-columns // block_rows(builder.chip))
    cut = segments * step_cycles(builder.chip, both, -(-columns // segments))
    return both if cut <= MOST_LONGER * step_cycles(builder.chip, maker.step, columns) else None


def _segment(builder: LayerBuilder, op: Operation) -> int:
    """Return how many elements are reduced at once; CompileError if that is not enough."""
    given, segment = op.attributes_as(ReduceAttributes), block_rows(builder.chip)
    shape = builder.graph.shape(op.inputs[0])
    count = builder.size(op.inputs[0], given.reduced(shape.rank))
    if count > segment and (given.reduction == "median" or segment < 2):
        raise CompileError(
            f'operation "{op.name}": {given.reduction} of {count} elements: engines of '
            f"{builder.chip.name} take at most {segment} at once, the rows of a block"
        )
    return segment


def as_columns(builder: LayerBuilder, source: str, axes: tuple[int, ...]) -> Axes:
    """Return the view of a tensor with some axes as columns that takes the least to come by."""
    shape = builder.graph.shape(source)
    for _, seen in builder.views(source):
        if seen[-1] == axes:
            return seen
        if seen[-2] == axes:
            return (*seen[:-2], seen[-1], seen[-2])
    order = shape.layout.major_to_minor
    rest = tuple(axis for axis in order if axis not in axes)
    if not rest:
        return ((), axes)
    return (*((axis,) for axis in rest), axes)
