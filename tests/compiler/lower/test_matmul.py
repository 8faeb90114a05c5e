"""Which operand is stationary? That by which the result lies as the next operation wants it."""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler import Options, compile_graph
from systolic.compiler.ir.nodes import TurnNode
from systolic.workload import Graph, GraphBuilder


def reduced_product(axis: int, function: str = "sum") -> Graph:
    """Return a reduction of a square product, of whose halves' roots each is taken first."""
    builder = GraphBuilder("state_buffer")
    x, w = builder.tensor("x", "f32[8,8]"), builder.tensor("w", "f32[8,8]")
    sums = builder.matmul(x, w, "f32[8,8]", name="sums")
    halves = builder.activation(sums, function="identity", scale=0.5, name="halves")
    builder.reduce(halves, reduction=function, axes=[axis], name="y")
    return builder.graph()


def turned(graph: Graph, options: Options | None = None) -> list[str]:
    """Return the tensors whose matrices are turned."""
    layers = compile_graph("run", graph, ideal_chip(4, 4), options).layers
    return [
        layers.matrix(node.inputs[0]).tensor for node in layers.nodes if isinstance(node, TurnNode)
    ]


@pytest.mark.parametrize(("axis", "stationary"), [(1, "lhs"), (0, "rhs")])
def test_a_product_lies_so_that_engines_can_reduce_it(axis, stationary):
    """Both ways multiply alike; the other one would need a turn of the result."""
    graph = reduced_product(axis)
    assert "halves" not in turned(graph)
    other = {"lhs": "rhs", "rhs": "lhs"}[stationary]
    assert "halves" in turned(graph, Options(stationary=other))
    chosen = turned(graph, Options(stationary=stationary))
    assert "halves" not in chosen


def test_values_are_those_of_numpy():
    numbers = np.random.default_rng(3)
    inputs = {n: numbers.integers(-9, 9, (8, 8)).astype(np.float32) for n in ("x", "w")}
    for axis in (0, 1):
        run = systolic.run(reduced_product(axis), ideal_chip(4, 4), inputs)
        expected = (inputs["x"] @ inputs["w"] / 2).sum(axis=axis)
        assert np.array_equal(run.outputs["y"], expected)


def test_a_product_of_which_both_dimensions_are_reduced_turns_neither_first():
    """Two reductions, one along each: one of the views is turned, whichever operand is held."""
    builder = GraphBuilder("state_buffer")
    x, w = builder.tensor("x", "f32[8,8]"), builder.tensor("w", "f32[8,8]")
    sums = builder.matmul(x, w, "f32[8,8]", name="sums")
    for axis in (0, 1):
        builder.reduce(sums, reduction="max", axes=[axis], name=f"y{axis}")
    assert turned(builder.graph()).count("sums") == 1
