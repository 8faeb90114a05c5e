"""Which nodes each operation becomes: one row and one function per operation.

A lowering takes the builder and the operation; it asks for views of the inputs and makes a view
of the output. `finish` then brings outputs to where they live. The meaning of the operations is
in `systolic.workload.operations.table`.
"""

from __future__ import annotations

from collections.abc import Callable

from systolic.compiler.ir.nodes import Layers
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.matmul import lower_matmul
from systolic.compiler.lower.permute import lower_relayout, lower_transpose
from systolic.compiler.lower.reshape import lower_reshape
from systolic.compiler.lower.views import physical
from systolic.compiler.options import Options
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.workload import Graph, Operation


def lower_cast(builder: LayerBuilder, op: Operation) -> None:
    """Have an engine write the other type, in the view the source has."""
    (source,) = op.inputs
    matrix, axes = builder.any_view(source)
    builder.node("convert", (matrix,), builder.result(op.output, axes))


LOWERINGS: dict[str, Callable[[LayerBuilder, Operation], None]] = {
    "matmul": lower_matmul,
    "transpose": lower_transpose,
    "relayout": lower_relayout,
    "reshape": lower_reshape,
    "cast": lower_cast,
}


def lower_graph(graph: Graph, chip: Chip, options: Options) -> Layers:
    """Return the layers of a graph: the first pass."""
    builder = LayerBuilder(graph, chip, options)
    for op in graph.operations:
        builder.begin(op.name)
        for name in (*op.inputs, op.output):
            data_type(graph.shape(name).element_type)
        LOWERINGS[op.kind](builder, op)
    makers = {op.output: op.name for op in graph.operations}
    for name in graph.outputs:
        builder.begin(makers[name])  # bringing a result home is part of what makes it
        _finish(builder, name)
    return builder.layers()


def _finish(builder: LayerBuilder, name: str) -> None:
    """Bring an output to where it lives, if it is not there."""
    if builder.at_home(name):
        return
    tensor = builder.graph.tensor(name)
    if tensor.home == "dram":
        matrix, axes = builder.storable(name, physical(tensor.shape)[-1])
        builder.store(matrix, name, tensor.shape, axes)
    else:
        builder.keep(name)
