"""Do rows of several matrices go through a softmax on a lane each? With the bits of one lane."""

from __future__ import annotations

import numpy as np

import systolic
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.compiler.lower.moves import gathers
from systolic.isa import Pool
from systolic.workload import Graph, GraphBuilder

HEADS, CACHED = 3, 12


def decoding(heads: int = HEADS) -> Graph:
    """Return a step of attention to cached keys and a new one: a row of scores for each head."""
    builder = GraphBuilder("state_buffer")
    query = builder.tensor("query", f"f32[{heads},1,4]")
    keys = builder.tensor("keys", f"f32[{heads},4,{CACHED}]")
    values = builder.tensor("values", f"f32[{heads},{CACHED},4]")
    rows = builder.matmul(query, keys, f"f32[{heads},1,{CACHED}]")
    rows = builder.reshape(rows, out=f"f32[{heads},{CACHED}]")
    new = builder.tensor("new", f"f32[{heads},1]")
    scores = builder.concat(rows, new, out=f"f32[{heads},{CACHED + 1}]", axis=1)
    shares = builder.softmax(scores, name="shares")
    cached = builder.slice(shares, start=[0, 0], stop=[heads, CACHED])
    cached = builder.reshape(cached, out=f"f32[{heads},1,{CACHED}]")
    builder.matmul(cached, values, f"f32[{heads},1,4]", name="context")
    return builder.graph()


def random_inputs(graph: Graph) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(11)
    return {n: numbers.normal(size=graph.shape(n).dims).astype(np.float32) for n in graph.inputs}


def lanes_of_maxima(graph: Graph, **changes) -> set[int]:
    """Return on how many lanes the maxima of rows are found."""
    compiled = compile_graph("run", graph, ideal_chip(4, 4, **changes), verify=True)
    drafts = [draft.instruction for draft in compiled.scheduled.drafts]
    return {d.source.partitions for d in drafts if isinstance(d, Pool) and d.function == "max"}


def test_each_row_has_a_lane():
    assert lanes_of_maxima(decoding()) == {HEADS}
    assert lanes_of_maxima(decoding(1)) == {1}


def test_bits_are_those_of_one_lane_and_cycles_are_fewer(monkeypatch):
    graph = decoding()
    inputs, chip = random_inputs(graph), ideal_chip(4, 4)
    event, register = (
        systolic.run(graph, chip, inputs, engine=engine) for engine in ("event", "register")
    )
    monkeypatch.setattr(gathers, "MOST_LONGER", 0)
    assert lanes_of_maxima(graph) == {1}
    one_lane = systolic.run(graph, chip, inputs)
    assert event.cycles == register.cycles < one_lane.cycles
    assert np.array_equal(event.outputs["context"], register.outputs["context"])
    assert np.array_equal(event.outputs["context"], one_lane.outputs["context"])
    wide = {name: array.astype(np.float64) for name, array in inputs.items()}
    scores = np.concatenate([(wide["query"] @ wide["keys"])[:, 0], wide["new"]], axis=1)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares = (powers / powers.sum(axis=1, keepdims=True))[:, None, :CACHED]
    assert np.allclose(event.outputs["context"], shares @ wide["values"], rtol=1e-5)


def test_where_each_copy_costs_much_rows_are_moved_as_well():
    """The move has as many copies as the boxes on one lane."""
    costs = {"fixed_cycles": 200}
    assert lanes_of_maxima(decoding(), activation=costs, pooling=costs) == {HEADS}
