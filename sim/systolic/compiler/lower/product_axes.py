"""As which matrices the operands and the result of a batched product are seen.

Each is [batch..., rows, columns], K on the rows of both operands; batches broadcast as in numpy.
Matrices that all meet one operand are one longer matrix, if that costs nothing: its tiles are
then loaded once, and no chunk of moving vectors ends with a matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from systolic.compiler.ir.nodes import Axes
from systolic.compiler.lower.builder import LayerBuilder
from systolic.workload import Operation


@dataclass(frozen=True, slots=True)
class ProductAxes:
    """Axes of lhs as [.., K, M], of rhs as [.., K, N], of the result as [.., M, N]."""

    lhs: Axes
    rhs: Axes
    out: Axes


def product_axes(builder: LayerBuilder, op: Operation) -> ProductAxes:
    """Return the axes of a matmul's tensors, with one operand's batch in its columns if shared."""
    left, right = (builder.graph.shape(name) for name in op.inputs)
    lhs, rhs = _axes(left.rank), _axes(right.rank)
    *batch, row, col = _axes(builder.graph.shape(op.output).rank)
    lhs = (*lhs[:-2], lhs[-1], lhs[-2])
    if _shared(right.dims) and _can_merge(builder, op, op.inputs[0], lhs):
        every = sum(batch, ())
        return ProductAxes(_merged(lhs), rhs, ((*every, *row), col))
    if _shared(left.dims) and _can_merge(builder, op, op.inputs[1], rhs):
        every = sum(batch, ())
        return ProductAxes(lhs, _merged(rhs), (row, (*every, *col)))
    return ProductAxes(lhs, rhs, (*batch, row, col))


def _axes(rank: int) -> Axes:
    return tuple((axis,) for axis in range(rank))


def _shared(dims: tuple[int, ...]) -> bool:
    """Return whether an operand is a single matrix, which all of the other's meet."""
    return math.prod(dims[:-2]) == 1


def _merged(axes: Axes) -> Axes:
    """Return the matrices of a batch side by side: [K, batch and columns]."""
    *batch, row, col = axes
    return row, sum((*batch, col), ())


def _can_merge(builder: LayerBuilder, op: Operation, operand: str, axes: Axes) -> bool:
    """Return whether an operand can be brought so, and the result need not be taken apart.

    DRAM has any view; on the chip matrices of a batch lie apart.
    """
    if len(axes) == 2 or _shared(builder.graph.shape(operand).dims):
        return False
    stays = op.output in builder.graph.outputs and (
        builder.graph.tensor(op.output).home == "state_buffer"
    )
    row, col = _merged(axes)
    has = builder.known(operand, (row, col)) or builder.known(operand, (col, row))
    return not stays and (builder.dram.holds(operand) or has is not None)
