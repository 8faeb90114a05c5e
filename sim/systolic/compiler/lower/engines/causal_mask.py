"""Lowering of a causal mask: the select of an engine, which knows rows and columns by their places.

If a product makes the tensor and nothing else takes it, its sums leave the result buffer through
the select, and tiles where no element stays are not computed (`tile`).
"""

from __future__ import annotations

from systolic.compiler.ir.lane_step import LaneStep, select_up_to
from systolic.compiler.ir.nodes import Axes, ConvertNode
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.engines.elementwise import join
from systolic.compiler.lower.views import physical, swap
from systolic.workload import Operation
from systolic.workload.operations.causal_mask import CausalMaskAttributes


def lower_causal_mask(builder: LayerBuilder, op: Operation) -> None:
    """Take the tensor in a view that has the masked rows or columns on its partitions."""
    (source,), rank = op.inputs, builder.graph.shape(op.output).rank
    plain: Axes = ((rank - 2,), (rank - 1,))
    if builder.maker(source) is not None:
        ((_, axes),) = builder.views(source)
        if _fits(axes, plain) and join(builder, op, source, _step(op, axes, plain)):
            return
    builder.settle(source)
    axes = _wanted(builder, source, plain)
    matrix = builder.view(source, axes)
    result = builder.result_like(op.output, axes, matrix)
    builder.node(ConvertNode, (matrix,), result, step=_step(op, axes, plain))


def _step(op: Operation, axes: Axes, plain: Axes) -> LaneStep:
    given = op.attributes_as(CausalMaskAttributes)
    is_turned = axes[-2:] != plain
    return select_up_to(given.offset, given.value, turned=is_turned, upper=given.upper)


def _fits(axes: Axes, plain: Axes) -> bool:
    """Return whether a view's rows and columns are the mask's, or the other way round."""
    return axes[-2:] in (plain, swap(plain))


def _wanted(builder: LayerBuilder, tensor: str, plain: Axes) -> Axes:
    """Return the view that is there, or that takes the least to come by."""
    for _, axes in builder.views(tensor):
        if _fits(axes, plain):
            return axes
    lies = physical(builder.graph.shape(tensor))
    if _fits(lies, plain):
        return lies
    return (*((axis,) for axis in range(plain[0][0])), *plain)
