"""Tiles that products would read or write in short runs: relayouts to and from rows without tiles.

An operand in DRAM whose tiles mix or pad its rows comes to a tensor without tiles first, and a
result leaves from one. Both are moves like any other, so streams do them. Not here: whether that
pays (the judge says so), and tensors on the chip.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from systolic.compiler.ir.carried import is_packed
from systolic.layout import Layout, Shape
from systolic.workload import Graph, Operation, Tensor

PRODUCTS = ("matmul", "conv2d")


def with_dense_products(graph: Graph) -> tuple[Graph, frozenset[str]]:
    """Return a graph whose products take and make no tiles, and the tensors that relayouts make.

    The same graph, and none, if its products have none.
    """
    tensors, made = dict(graph.tensors), set[str]()
    dense: dict[str, str] = {}
    operations: list[Operation] = []
    users = Counter(name for op in graph.operations for name in op.inputs)

    def relayout(source: str, result: str, layer: str) -> None:
        operations.append(Operation(result, "relayout", (source,), result, part_of=layer))
        made.add(result)

    def without_tiles(name: str) -> str:
        wanted, shape = f"{name}.dense", tensors[name].shape
        while wanted in tensors:
            wanted += "_"
        layout = Layout(shape.layout.minor_to_major)
        tensors[wanted] = Tensor(Shape(shape.element_type, shape.dims, layout), "dram")
        return wanted

    for op in graph.operations:
        if op.kind not in PRODUCTS:
            operations.append(op)
            continue
        for name in dict.fromkeys(op.inputs):
            if name in graph.inputs and name not in dense and _in_tiles(graph.shape(name)):
                dense[name] = without_tiles(name)
                relayout(name, dense[name], op.layer)
        own = replace(op, inputs=tuple(dense.get(name, name) for name in op.inputs))
        ends = op.output in graph.outputs and not users[op.output]
        if not (ends and _in_tiles(graph.shape(op.output))):
            operations.append(own)
            continue
        sums = without_tiles(op.output)
        operations.append(replace(own, output=sums))
        relayout(sums, op.output, op.layer)
    whole = replace(graph, tensors=tuple(tensors.items()), operations=tuple(operations))
    return (whole, frozenset(made)) if made else (graph, frozenset())


def _in_tiles(shape: Shape) -> bool:
    return bool(shape.layout.tiles) and not is_packed(shape)
