"""Which nodes each operation becomes, and how long it takes at least: one row per operation.

A lowering takes the builder and the operation; it asks for views of the inputs and makes a view
of the output. `_finish` then brings outputs to where they live. The meaning of the operations is
in `systolic.workload.operations.table`, which has the same keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from systolic.compiler.cost.products import Mapping, product_cost, turn_cost
from systolic.compiler.ir.nodes import Layers
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.elementwise import each_element
from systolic.compiler.lower.permute import lower_relayout, lower_transpose
from systolic.compiler.lower.product_axes import ProductAxes, product_axes
from systolic.compiler.lower.reshape import lower_reshape
from systolic.compiler.lower.views import physical
from systolic.compiler.options import Options
from systolic.errors import CompileError
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa.instruction import Copy
from systolic.workload import OPERATIONS, Graph, Operation


def lower_matmul(builder: LayerBuilder, op: Operation) -> None:
    """Choose which operand is stationary; bring both with K on partitions."""
    _refuse_types(builder, op)
    sizes = product_axes(builder, op)
    mapping = _mapping(builder, op, sizes)
    left = builder.view(op.inputs[0], sizes.lhs)
    right = builder.view(op.inputs[1], sizes.rhs)
    if mapping == "rhs":
        *batch, row, col = sizes.out
        builder.node("multiply", (right, left), builder.result(op.output, (*batch, col, row)))
    else:
        builder.node("multiply", (left, right), builder.result(op.output, sizes.out))


def _refuse_types(builder: LayerBuilder, op: Operation) -> None:
    graph, known = builder.graph, builder.chip.pe_array.cycles_per_vector
    types = [graph.shape(name).element_type for name in op.inputs]
    for name, dtype in zip(op.inputs, types, strict=True):
        if dtype not in known:
            raise CompileError(
                f'operation "{op.name}": {graph.shape(name)}: the array of {builder.chip.name} '
                f"cannot take {dtype}; it takes {', '.join(known)}"
            )
    if "f32" in types and len(set(types)) > 1:
        raise CompileError(
            f'operation "{op.name}": {types[0]} cannot be multiplied with {types[1]}: f32 goes '
            f"with f32 only"
        )


def _mapping(builder: LayerBuilder, op: Operation, axes: ProductAxes) -> Mapping:
    """Return which operand is stationary: as asked for, or the cheaper with its result's turn."""
    if builder.options.stationary is not None:
        return builder.options.stationary
    graph = builder.graph
    shape = graph.shape(op.output)
    *batch, M, N = (math.prod(shape.dims[d] for d in group) for group in axes.out)
    dtype = graph.shape(op.inputs[0]).element_type
    minor = physical(shape)[-1]
    costs: dict[Mapping, int] = {}
    for mapping in ("rhs", "lhs"):
        K = graph.shape(op.inputs[0]).dims[-1]
        costs[mapping] = product_cost(builder.chip, mapping, batch, (M, K, N), dtype)
        along = axes.out[-1] if mapping == "lhs" else axes.out[-2]
        if minor != along[-1:] and op.output in graph.outputs:
            P, Q = (N, M) if mapping == "rhs" else (M, N)
            costs[mapping] += turn_cost(builder.chip, math.prod(batch), P, Q, shape.element_type)
    best = min(costs, key=lambda m: costs[m])
    builder.choose(f"{best} is stationary (estimates: {_listed(costs)} cycles)")
    return best


def _listed(costs: dict[Mapping, int]) -> str:
    return ", ".join(f"{name} {cycles}" for name, cycles in costs.items())


BoundKind = Literal["product", "move", "bytes"]


@dataclass(frozen=True, slots=True)
class Lowering:
    """A row: the function that makes the nodes, and which bound holds for the operation.

    bound: of a product, of elements that change places, or of the bytes that DRAM must give and
    take (`systolic.compiler.bounds.run`).
    """

    lower: Callable[[LayerBuilder, Operation], None]
    bound: BoundKind


LOWERINGS: dict[str, Lowering] = {
    "matmul": Lowering(lower_matmul, "product"),
    "transpose": Lowering(lower_transpose, "move"),
    "relayout": Lowering(lower_relayout, "move"),
    "reshape": Lowering(lower_reshape, "move"),
    "cast": Lowering(each_element(lambda op: Copy), "bytes"),
}
if LOWERINGS.keys() != OPERATIONS.keys():
    raise TypeError(
        f"operations without a row in both tables: {sorted(LOWERINGS.keys() ^ OPERATIONS.keys())}"
    )


def lower_graph(graph: Graph, chip: Chip, options: Options) -> Layers:
    """Return the layers of a graph: the first pass."""
    builder = LayerBuilder(graph, chip, options)
    for op in graph.operations:
        builder.begin(op.name)
        for name in (*op.inputs, op.output):
            data_type(graph.shape(name).element_type)
        LOWERINGS[op.kind].lower(builder, op)
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
