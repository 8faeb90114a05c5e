"""A whole graph in numpy: bit for bit as the hardware rules have it, and in float64."""

from __future__ import annotations

from collections.abc import Mapping

from systolic.arrays import Array
from systolic.workload.graph import Graph
from systolic.workload.operations.row import Rules


def reference_graph(graph: Graph, inputs: Mapping[str, Array], rules: Rules) -> dict[str, Array]:
    """Return every output as the chip must give it; `inputs` in logical order, by name."""
    known = reference_values(graph, inputs, rules)
    return {name: known[name] for name in graph.outputs}


def reference_values(graph: Graph, inputs: Mapping[str, Array], rules: Rules) -> dict[str, Array]:
    """Return every tensor, the inputs and those between among them, as the chip must have it."""
    known = dict(inputs)
    for op in graph.operations:
        arrays = [known[name] for name in op.inputs]
        out = graph.shape(op.output)
        known[op.output] = op.row.reference(arrays, out, op.attributes, rules)
    return known


def exact_graph(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return every output computed in float64 (integers: int64) with nothing rounded between."""
    known = dict(inputs)
    for op in graph.operations:
        arrays = [known[name] for name in op.inputs]
        known[op.output] = op.row.exact(arrays, graph.shape(op.output), op.attributes)
    return {name: known[name] for name in graph.outputs}
