"""Results of products whose rows share partitions: each strand is a product of its own.

Of a result in T(8,128)(2,1) partition r has rows 2r and 2r + 1, column by column. The even columns
of the stationary operand make the even rows, which the engine that copies sums out writes to every
second column, and the odd ones the odd rows. So nothing is turned. Not here: what strands are
(`strands`), and their turns, which take longer if the product has few rows (`strand_tensors`).
"""

from __future__ import annotations

from dataclasses import replace

from systolic.compiler.ir.nodes import Axes, Matrix, MultiplyNode
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.ir.on_chip.homes import Interleaved
from systolic.compiler.ir.windows import MatrixWindow, StridedWindow
from systolic.compiler.lower.builder import LayerBuilder


def strands_of_result(builder: LayerBuilder, tensor: str, axes: Axes) -> Interleaved | None:
    """Return how an output lies in strands of the rows of a view; None if it does not."""
    if tensor not in builder.graph.outputs or builder.uses(tensor):
        return None
    if builder.graph.tensor(tensor).home != "state_buffer" or builder.is_packed(tensor):
        return None
    lies = builder.interleaved(tensor)
    return lies if lies is not None and lies.axes == axes else None


def made_in_strands(
    builder: LayerBuilder, tensor: str, axes: Axes, operands: tuple[Matrix, Matrix]
) -> bool:
    """Make an output strand by strand; return whether it is done.

    operands: the stationary one, whose columns become the rows of the view, and the moving one.
    """
    lies = strands_of_result(builder, tensor, axes)
    stationary, moving = operands
    if lies is None or not _has_steps(stationary):
        return False
    made = builder.strand_tensors.new(tensor, lies.axes, lies.ways)
    for first, result in enumerate(builder.strand_tensors.rows_of(made)):
        weights = _stepped(builder, stationary, first, result.rows, lies.ways)
        builder.node(MultiplyNode, (weights, moving), result)
    builder.choose(f"{tensor} is made strand by strand, {lies.ways} to a partition, by products")
    return True


def _has_steps(matrix: Matrix) -> bool:
    """Return whether columns at one step are one access, in any tile of a matrix."""
    match matrix.window:
        case None:
            return matrix.block is not None and matrix.block[1] >= matrix.cols
        case MatrixWindow(inner=inner):
            return len(inner.axes[-1]) == 1
    return False


def _stepped(builder: LayerBuilder, matrix: Matrix, first: int, cols: int, step: int) -> Matrix:
    """Return every `step`-th of some columns of a matrix, from `first` on, as a matrix."""
    within = matrix.window
    assert within is None or isinstance(within, MatrixWindow)
    window = StridedWindow(matrix.holder, first, step, within)
    block = matrix.block[0] if matrix.block else block_rows(builder.chip), cols
    made = matrix.seen_in(window, builder.new_name(matrix.tensor))
    return builder.add(replace(made, dims=(*made.dims[:-1], cols), block=block))
