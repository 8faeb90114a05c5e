"""One operation alone as a graph, which is the meaning of a [workload] table with `op`.

The tensors have the names that the operation's row gives them. The shape of the result may be left
out if it follows from the shapes of the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from systolic.workload.graph import Graph, make_graph
from systolic.workload.operation import Operation, default_shape
from systolic.workload.operations.row import NO_ATTRIBUTES, Attributes
from systolic.workload.operations.table import OPERATIONS
from systolic.workload.tensor import Tensor


def default_out(kind: str, inputs: Sequence[Tensor], attributes: Attributes) -> Tensor | None:
    """Return the result that follows from the inputs, in the memory of the first, or else None.

    Raises:
        WorkloadError: the attributes do not fit the shapes.

    """
    shape = default_shape(OPERATIONS[kind], [tensor.shape for tensor in inputs], attributes)
    return None if shape is None else Tensor(shape, inputs[0].home)


def lone_graph(
    kind: str, inputs: Sequence[Tensor], out: Tensor, attributes: Attributes = NO_ATTRIBUTES
) -> Graph:
    """Return the graph of one operation; WorkloadError if the parts do not fit."""
    row = OPERATIONS[kind]
    names = tuple(operand.name for operand in row.operands)
    tensors = dict(zip(names, inputs, strict=True)) | {row.result: out}
    return make_graph(tensors, [Operation(kind, kind, names, row.result, attributes)])
