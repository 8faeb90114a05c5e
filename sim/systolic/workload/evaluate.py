"""A whole graph in numpy: bit for bit by the rules of the hardware, and in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from systolic.arrays import Array
from systolic.workload.graph import Graph
from systolic.workload.operations.row import Rules

OwnRules = Mapping[str, Rules]
"""The rules of some operations, by name, where they differ from all others'."""

AsRead = Callable[[str, str, Array], Array]
"""An operation's name, a tensor's name and its values: the values as this operation reads them."""


def reference_graph(
    graph: Graph, inputs: Mapping[str, Array], rules: Rules, own: OwnRules | None = None
) -> dict[str, Array]:
    """Return every output with the bits that the chip must give; `inputs` are in logical order."""
    known = reference_values(graph, inputs, rules, own)
    return {name: known[name] for name in graph.outputs}


def reference_values(
    graph: Graph,
    inputs: Mapping[str, Array],
    rules: Rules,
    own: OwnRules | None = None,
    held: AsRead | None = None,
) -> dict[str, Array]:
    """Return every tensor, intermediate results too, with the bits that the chip must give.

    held: gives the values of a tensor as an operation reads them, if they may have changed.
    """
    known = dict(inputs)
    for op in graph.operations:
        arrays = [known[name] for name in op.inputs]
        if held is not None:
            arrays = [held(op.name, *each) for each in zip(op.inputs, arrays, strict=True)]
        out = graph.shape(op.output)
        taken = (own or {}).get(op.layer, rules)
        known[op.output] = op.row.reference(arrays, out, op.attributes, taken)
    return known


def exact_graph(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return every output computed in float64 (integers: int64), with no other rounding."""
    known = dict(inputs)
    for op in graph.operations:
        arrays = [known[name] for name in op.inputs]
        known[op.output] = op.row.exact(arrays, graph.shape(op.output), op.attributes)
    return {name: known[name] for name in graph.outputs}
