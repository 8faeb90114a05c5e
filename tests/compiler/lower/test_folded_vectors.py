"""Vectors that become columns, such as biases: many rows of them are turned by one load."""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler import Options, compile_graph
from systolic.compiler.ir.nodes import TurnNode
from systolic.isa import LoadWeights
from systolic.workload import Graph, GraphBuilder

CHIP = ideal_chip(4, 4, dma={"queues": 4, "descriptor_cycles": 20, "bytes_per_cycle": 16})
"""A descriptor for each element is dear, so vectors are turned by the array."""


def biased(filters: int, *, images: bool, twice: bool = False) -> Graph:
    """Return a product, or a convolution, of which each row of the result has a bias."""
    builder = GraphBuilder("dram")
    bias = builder.tensor("bias", f"f32[{filters}]")
    if images:
        x, w = builder.tensor("x", "f32[1,6,6,4]"), builder.tensor("w", f"f32[3,3,4,{filters}]")
        shape, axis = f"f32[1,4,4,{filters}]", 3
        sums = builder.conv2d(x, w, out=shape)
    else:
        x, w = builder.tensor("x", "f32[16,8]"), builder.tensor("w", f"f32[8,{filters}]")
        shape, axis = f"f32[16,{filters}]", 1
        sums = builder.matmul(x, w, shape)
    given = {"out": shape, "broadcast_dimensions": [axis]}
    y = builder.binary(sums, bias, name="y", operator="add", **given)
    if twice:
        builder.binary(y, bias, name="z", operator="multiply", **given)
    return builder.graph()


def small_integers(graph: Graph) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(2)
    return {n: numbers.integers(-5, 6, graph.shape(n).dims).astype(np.float32)
            for n in graph.inputs}  # fmt: skip


def expected(inputs: dict[str, np.ndarray], *, images: bool) -> np.ndarray:
    x, w, bias = (inputs[name] for name in ("x", "w", "bias"))
    if not images:
        return x @ w + bias
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), axis=(0, 1))
    return np.einsum("yxcij,ijcf->yxf", windows, w)[None] + bias


def loads_of_bias(filters: int, *, images: bool = False) -> int:
    """Return how many loads of weights turn the bias."""
    graph, held = biased(filters, images=images), Options(stationary=None if images else "rhs")
    compiled = compile_graph("run", graph, CHIP, held, verify=True)
    layers = compiled.layers
    turns = [n for n, node in enumerate(layers.nodes) if isinstance(node, TurnNode)]
    turns = [n for n in turns if layers.matrix(layers.nodes[n].inputs[0]).tensor == "bias"]
    tasks = [task for task in compiled.tiled.tasks if task.node in turns]
    assert any(isinstance(d.instruction, LoadWeights) for d in compiled.scheduled.drafts)
    return sum(len(task.rows) * len(task.cols) for task in tasks)


@pytest.mark.parametrize(
    ("filters", "loads"),
    [(4, 1), (8, 1), (16, 1), (6, 2), (20, 5)],
    ids=["one piece", "two", "four", "half a piece over", "more pieces than rows"],
)
def test_a_vector_of_whole_pieces_is_turned_by_one_load(filters, loads):
    assert loads_of_bias(filters) == loads


def test_biases_of_convolutions_too():
    assert loads_of_bias(16, images=True) == 1


@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("filters", [8, 16])
def test_both_engines_agree_and_values_are_those_of_numpy(filters, images):
    graph = biased(filters, images=images)
    inputs = small_integers(graph)
    event, register = (
        systolic.run(graph, CHIP, inputs, engine=engine) for engine in ("event", "register")
    )
    assert event.cycles == register.cycles
    for run in (event, register):
        assert np.array_equal(run.outputs["y"], expected(inputs, images=images))


def test_a_vector_that_is_used_twice_is_turned_once():
    graph = biased(16, images=False, twice=True)
    inputs = small_integers(graph)
    run = systolic.run(graph, CHIP, inputs, options=Options(stationary="rhs"))
    assert np.array_equal(run.outputs["z"], expected(inputs, images=False) * inputs["bias"])
    kinds = [node.word() for node in run.compiled.layers.nodes if "bias" in node.output]
    assert kinds == ["turn"]


@pytest.mark.parametrize("via", ["dram"])
def test_a_way_that_is_asked_for_is_taken(via):
    graph = biased(16, images=False)
    inputs = small_integers(graph)
    options = Options(stationary="rhs", via=via)
    run = systolic.run(graph, CHIP, inputs, options=options)
    assert np.array_equal(run.outputs["y"], expected(inputs, images=False))
    turned = [node.inputs[0] for node in run.compiled.layers.nodes if isinstance(node, TurnNode)]
    assert not any(name.startswith("bias") for name in turned)


def test_what_an_identity_product_changes_is_known_of_a_vector_too():
    """-0.0 becomes 0.0 in the products that turn rows of the vector."""
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "f32[4,4]"), builder.tensor("w", "f32[4,16]")
    bias = builder.tensor("bias", "f32[16]")
    sums = builder.matmul(x, w, "f32[4,16]")
    builder.binary(sums, bias, name="y", operator="multiply", out="f32[4,16]",
                   broadcast_dimensions=[1])  # fmt: skip
    inputs = {"x": np.ones((4, 4), np.float32), "w": np.ones((4, 16), np.float32)}
    inputs["bias"] = np.full(16, 2, np.float32)
    inputs["bias"][[1, 10]] = -0.0
    run = systolic.run(builder.graph(), CHIP, inputs, options=Options(stationary="rhs"))
    assert run.summary["values"]["equal"]
    (y,) = run.outputs.values()
    assert not np.signbit(y).any()
    assert np.flatnonzero(y[0] == 0).tolist() == [1, 10]
