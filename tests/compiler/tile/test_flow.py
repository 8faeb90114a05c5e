"""Is the array at one matrix while engines are at another? And are all tasks still in an order?"""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler import compile_graph, plans
from systolic.compiler.ir.nodes import ConvertNode, MultiplyNode
from systolic.compiler.tile.flow import in_order_of_flow, waits_for_engines
from systolic.compiler.tile.verify import verify_tiled
from systolic.isa import Copy
from systolic.workload import Graph, GraphBuilder
from systolic.workload.options import Options


def attention(heads: int, rows: int, home: str = "state_buffer") -> Graph:
    """Return softmax(queries keys) values, for each head."""
    builder = GraphBuilder(home)
    queries, values = (builder.tensor(n, f"f32[{heads},{rows},4]") for n in ("queries", "values"))
    keys = builder.tensor("keys", f"f32[{heads},4,{rows}]")
    scores = builder.matmul(queries, keys, f"f32[{heads},{rows},{rows}]", name="scores")
    shares = builder.softmax(scores, name="shares")
    builder.matmul(shares, values, f"f32[{heads},{rows},4]", name="context")
    return builder.graph()


def random_inputs(graph: Graph) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(7)
    return {n: numbers.normal(size=graph.shape(n).dims).astype(np.float32) for n in graph.inputs}


def exact(inputs: dict[str, np.ndarray]) -> np.ndarray:
    wide = {name: array.astype(np.float64) for name, array in inputs.items()}
    scores = wide["queries"] @ wide["keys"]
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True) @ wide["values"]


@pytest.mark.parametrize("home", ["state_buffer", "dram"])
def test_both_engines_agree_on_values_and_cycles_of_attention(home):
    graph = attention(3, 8, home)
    inputs = random_inputs(graph)
    event, register = (
        systolic.run(graph, ideal_chip(4, 4), inputs, engine=engine)
        for engine in ("event", "register")
    )
    assert event.cycles == register.cycles
    assert np.array_equal(event.outputs["context"], register.outputs["context"])
    assert np.allclose(event.outputs["context"], exact(inputs), rtol=1e-5)


def test_the_array_goes_on_before_engines_are_done_with_the_last_matrix():
    compiled = compile_graph("run", attention(6, 8), ideal_chip(4, 4))
    made = {node.output: n for n, node in enumerate(compiled.layers.nodes)}
    (context,) = (n for name, n in made.items() if name.startswith("context"))
    tasks = compiled.tiled.tasks
    first = next(n for n, task in enumerate(tasks) if task.node == context)
    worked = {t.kind.word() for t in tasks[first:] if t.number == 5}
    assert {"reduce", "convert"} <= worked


def test_the_order_of_flow_takes_fewer_cycles(monkeypatch):
    graph, chip = attention(6, 16), ideal_chip(4, 4)
    inputs = random_inputs(graph)
    flowing = systolic.run(graph, chip, inputs)
    monkeypatch.setattr(plans, "waits_for_engines", lambda layers: False)
    node_by_node = systolic.run(graph, chip, inputs)
    assert np.array_equal(flowing.outputs["context"], node_by_node.outputs["context"])
    assert flowing.cycles < 0.9 * node_by_node.cycles


def test_it_is_an_order_of_the_same_tasks():
    """The verifier goes through them: nothing is read before it is made, sums are not mixed."""
    compiled = compile_graph("run", attention(3, 8), ideal_chip(4, 4))
    again = in_order_of_flow(compiled.tiled, compiled.layers, compiled.chip)
    verify_tiled(again, compiled.layers)
    assert sorted(map(repr, again.tasks)) == sorted(map(repr, compiled.tiled.tasks))


def test_tiles_that_have_no_room_together_keep_the_order_of_nodes():
    """Six heads have no room together in 640 bytes of a partition; tiles leave and come back."""
    tight = {"partitions": 4, "bytes_per_partition": 640, "banks": 1}
    graph = attention(6, 8)
    inputs = random_inputs(graph)
    run = systolic.run(graph, ideal_chip(4, 4, state_buffer=tight), inputs)
    assert np.allclose(run.outputs["context"], exact(inputs), rtol=1e-5)
    assert run.compiled.scheduled.evictions


@pytest.mark.parametrize("kind", ["chain", "images"])
def test_products_without_such_engines_between_them_are_left_alone(kind):
    builder = GraphBuilder("dram")
    if kind == "chain":
        first = builder.matmul(
            builder.tensor("x", "f32[8,8]"), builder.tensor("v", "f32[8,8]"), "f32[8,8]"
        )
        builder.matmul(first, builder.tensor("w", "f32[8,8]"), "f32[8,8]", name="y")
    else:
        shape = "f32[1,4,4,4]"
        first = builder.conv2d(
            builder.tensor("x", shape), builder.tensor("v", "f32[3,3,4,4]"), out=shape,
            padding=(1, 1, 1, 1),
        )  # fmt: skip
        squares = builder.binary(first, first, out=shape, operator="multiply")
        builder.conv2d(squares, builder.tensor("w", "f32[1,1,4,4]"), out=shape, name="y")
    compiled = compile_graph("run", builder.graph(), ideal_chip(4, 4))
    assert not waits_for_engines(compiled.layers)


def test_copies_come_right_before_what_takes_them():
    """Factors of a norm behind a product must not hold back that product's operands."""
    builder = GraphBuilder("dram")
    x, w, v = (builder.tensor(name, "f32[8,8]") for name in ("x", "w", "v"))
    factors, terms = (builder.tensor(name, "f32[8]") for name in ("factors", "terms"))
    sums = builder.matmul(x, w, "f32[8,8]")
    builder.matmul(builder.layer_norm(sums, factors, terms), v, "f32[8,8]", name="y")
    kinds = [
        task.kind.word()
        for task in compile_graph("run", builder.graph(), ideal_chip(4, 4)).tiled.tasks
    ]
    assert "repeat" in kinds
    assert kinds.index("multiply") < kinds.index("repeat")


def projected() -> Graph:
    """Return softmax(softmax(x q (x k)^T) (x v)) y."""
    builder = GraphBuilder("state_buffer")
    x = builder.tensor("x", "f32[8,16]{0,1}")
    q, k, v, y = (builder.tensor(name, "f32[16,16]") for name in ("q", "k", "v", "y"))
    queries = builder.matmul(x, q, "f32[8,16]", name="queries")
    keys = builder.matmul(x, k, "f32[8,16]", name="keys")
    values = builder.matmul(x, v, "f32[8,16]", name="values")
    turned = builder.transpose(keys, "f32[16,8]", name="turned")
    scores = builder.matmul(queries, turned, "f32[8,8]", name="scores")
    shares = builder.softmax(scores, name="shares")
    context = builder.matmul(shares, values, "f32[8,16]", name="context")
    builder.matmul(builder.softmax(context), y, "f32[8,16]", name="result")
    return builder.graph()


def test_what_feeds_engines_is_multiplied_before_what_they_do_not_wait_for():
    """Values stand before scores in the graph, but engines are at the scores for a long time."""
    compiled = compile_graph("run", projected(), ideal_chip(4, 4))
    layers = [
        compiled.layers.nodes[task.node].layer
        for task in compiled.tiled.tasks
        if task.kind is MultiplyNode
    ]
    last_value = max(n for n, layer in enumerate(layers) if layer == "values")
    last_scores = max(n for n, layer in enumerate(layers) if layer == "scores")
    assert last_scores < last_value < layers.index("context")


def test_the_engine_that_takes_a_task_in_the_model_does_it():
    compiled = compile_graph("run", attention(6, 8), ideal_chip(4, 4))
    named = {task.engine for task in compiled.tiled.tasks if task.kind is ConvertNode}
    assert named == {"activation", "pooling"}
    drains = {
        each.engine for each in compiled.program.instructions if isinstance(each, Copy)
    }  # without the order of flow one engine copies all sums out
    assert drains == {"activation", "pooling"}


def test_an_engine_that_the_user_has_chosen_does_all_it_can():
    options = Options(drain_engine="pooling")
    compiled = compile_graph("run", attention(6, 8), ideal_chip(4, 4), options)
    copies = [each for each in compiled.program.instructions if isinstance(each, Copy)]
    assert {each.engine for each in copies} == {"pooling"}
