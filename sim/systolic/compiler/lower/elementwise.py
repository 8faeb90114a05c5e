"""Lowering of operations element by element: an engine's instruction for each tile."""

from __future__ import annotations

from collections.abc import Callable

from systolic.compiler.ir.nodes import EngineInstruction
from systolic.compiler.lower.builder import LayerBuilder
from systolic.workload import Operation


def each_element(
    instruction: Callable[[Operation], EngineInstruction],
) -> Callable[[LayerBuilder, Operation], None]:
    """Return the lowering of an operation of one input that is one instruction of an engine.

    The result is a matrix of the view that the input has, so nothing is moved. `instruction`
    gives, for an operation, what makes an instruction of engine, source and target: `Copy`, or
    ``partial(Activate, function="tanh")``.
    """

    def lower(builder: LayerBuilder, op: Operation) -> None:
        (source,) = op.inputs
        matrix, axes = builder.any_view(source)
        result = builder.result(op.output, axes)
        builder.node("convert", (matrix,), result, instruction=instruction(op))

    return lower
