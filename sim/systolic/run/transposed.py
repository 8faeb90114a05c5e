"""What a layout costs: the tensors that an operation transposes before it can multiply them.

A product needs its inner dimension on partitions. A tensor that lies otherwise is turned on the
way: by the array, with vectors that multiply nothing, by an engine, or by a trip to DRAM. Where the
layout of the tensor is the user's to choose, the layout is named with which it would not be turned;
the compiler is asked whether that is so. Not here: work that is a transpose.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from systolic.compiler import CompiledGraph
from systolic.compiler.ir.nodes import BounceNode, Node, TurnNode
from systolic.compiler.lower.table import lower_graph
from systolic.errors import SystolicError
from systolic.layout import Layout, Shape
from systolic.workload import Graph

ARRAY, ENGINE, DRAM = "array", "engine", "dram"
MOVES = frozenset({"transpose", "relayout", "reshape"})
"""The operations whose work it is to move elements."""


class Transposed(NamedTuple):
    """A tensor is transposed on the way into an operation.

    by: "array", "engine" or "dram". vectors: of the array, for that. layout: as which the tensor
    would not be transposed, such as "{0,1}"; "" if no layout is known to spare it.
    """

    tensor: str
    by: str
    vectors: int
    layout: str


def transposed_by_layer(compiled: CompiledGraph) -> dict[str, list[Transposed]]:
    """Return what is transposed on the way into each operation that has any of it."""
    if compiled.parts:
        return _of_parts(compiled)
    turned = list(_turned(compiled.layers.nodes, compiled.graph))
    if not turned:
        return {}
    tensors = {matrix.name: matrix.tensor for matrix in compiled.layers.matrices}
    vectors = _vectors(compiled)
    layouts = _better_layouts(compiled, (tensors[node.inputs[0]] for _, node in turned))
    found = defaultdict[str, dict[tuple[str, str], int]](dict)
    for number, node in turned:
        by = DRAM if isinstance(node, BounceNode) else ARRAY
        if number in compiled.scheduled.by_engine:
            by = ENGINE
        key = tensors[node.inputs[0]], by
        found[node.layer][key] = found[node.layer].get(key, 0) + vectors[number]
    return {
        layer: [Transposed(*key, count, layouts.get(key[0], "")) for key, count in each.items()]
        for layer, each in found.items()
    }


def _of_parts(compiled: CompiledGraph) -> dict[str, list[Transposed]]:
    """Return what is transposed in all parts, by the graph's operations and tensors."""
    found = defaultdict[str, dict[tuple[str, str, str], int]](dict)
    known: dict[int, dict[str, list[Transposed]]] = {}
    for part in compiled.placed:
        own = known.setdefault(id(part.compiled), transposed_by_layer(part.compiled))
        for layer, every in own.items():
            mine = found[part.layers.get(layer, layer)]
            for each in every:
                tensor = part.boxes[each.tensor][0] if each.tensor in part.boxes else each.tensor
                key = tensor, each.by, each.layout
                mine[key] = mine.get(key, 0) + each.vectors
    return {
        layer: [
            Transposed(tensor, by, count, layout) for (tensor, by, layout), count in each.items()
        ]
        for layer, each in found.items()
    }


def _turned(nodes: Sequence[Node], graph: Graph) -> Iterator[tuple[int, Node]]:
    """Yield number and node of all turns that are not the work itself."""
    kinds = {operation.name: operation.kind for operation in graph.operations}
    for number, node in enumerate(nodes):
        if isinstance(node, TurnNode | BounceNode) and kinds.get(node.layer) not in MOVES:
            yield number, node


def _vectors(compiled: CompiledGraph) -> Counter[int]:
    """Return how many vectors the array streams for each turn, by the number of its node."""
    found = Counter[int]()
    for task in compiled.tiled.tasks:
        if task.kind is TurnNode and task.node not in compiled.scheduled.by_engine:
            found[task.node] += sum(rows.count for rows in task.rows) * len(task.cols)
    return found


def _better_layouts(compiled: CompiledGraph, tensors: Iterable[str]) -> dict[str, str]:
    """Return the layout as which each of the inputs would not be transposed, if there is one.

    The graph is lowered once more, with all of them so.
    """
    before = compiled.graph
    wanted = {
        tensor: layout
        for tensor in sorted({*before.inputs} & {*tensors})
        if (layout := _swapped(before.shape(tensor))) is not None
    }
    if not wanted:
        return {}
    graph = _laid_out(before, wanted)
    try:
        layers = lower_graph(graph, compiled.chip, compiled.options)
    except SystolicError:
        return {}
    by_name = {matrix.name: matrix.tensor for matrix in layers.matrices}
    left = {by_name[node.inputs[0]] for _, node in _turned(layers.nodes, graph)}
    return {tensor: str(layout) for tensor, layout in wanted.items() if tensor not in left}


def _swapped(shape: Shape) -> Layout | None:
    """Return the layout with the two dimensions swapped that vary fastest; None with fewer."""
    first, second, *others = (*shape.layout.minor_to_major, -1, -1)
    return None if second < 0 else Layout((second, first, *others[:-2]))


def _laid_out(graph: Graph, wanted: Mapping[str, Layout]) -> Graph:
    """Return the graph with some tensors in other layouts."""
    tensors = []
    for name, tensor in graph.tensors:
        if name in wanted:
            shape = Shape(tensor.shape.element_type, tensor.shape.dims, wanted[name])
            tensors.append((name, replace(tensor, shape=shape)))
        else:
            tensors.append((name, tensor))
    return replace(graph, tensors=tuple(tensors))
