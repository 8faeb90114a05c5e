"""A graph with its composites taken apart: each by the operations that its row names.

The parts keep the name of their composite (`part_of`), under which the summary counts them. Tensors
between the parts are called after the composite's result.
"""

from __future__ import annotations

from collections.abc import Iterator

from systolic.errors import WorkloadError
from systolic.workload.graph import Graph, make_graph
from systolic.workload.operation import Operation
from systolic.workload.operations.recipe import OUT
from systolic.workload.operations.row import NO_ROW_WORK, RowWork
from systolic.workload.tensor import Tensor


def expanded(graph: Graph, rows: RowWork = NO_ROW_WORK) -> Graph:
    """Return the graph without composites; the same graph if it has none.

    rows: what the chip's engines do with whole rows.

    Raises:
        WorkloadError: a tensor of the graph has the name of a part.

    """
    parts = {op.name: list(_parts(graph, op, rows)) for op in graph.operations}
    if not any(parts.values()):
        return graph
    tensors, operations = dict(graph.tensors), list[Operation]()
    for op in graph.operations:
        if not parts[op.name]:
            operations.append(op)
        for part, tensor in parts[op.name]:
            if part.output != op.output and part.output in tensors:
                raise WorkloadError(
                    f'tensor "{part.output}": a part of operation "{op.name}" ({op.kind}) has that '
                    f"name; another one is needed"
                )
            tensors.setdefault(part.output, tensor)
            operations.append(part)
    return make_graph(tensors, operations, graph.named)


def _parts(graph: Graph, op: Operation, rows: RowWork) -> Iterator[tuple[Operation, Tensor]]:
    """Yield the parts of a composite, each with its result; nothing of another operation."""
    shapes = [graph.shape(name) for name in op.inputs]
    names = {str(number): name for number, name in enumerate(op.inputs)} | {OUT: op.output}
    for part in op.row.parts_on(shapes, graph.shape(op.output), op.attributes, rows):
        made = names.setdefault(part.name, f"{op.output}.{part.name}")
        inputs = tuple(names[name] for name in part.inputs)
        operation = Operation(made, part.kind, inputs, made, part.attributes, part_of=op.name)
        yield operation, Tensor(part.shape, "dram")
