"""Recognised operations cost what the same graph written by hand costs, within 2 %."""

from __future__ import annotations

from pathlib import Path

import pytest

import systolic
from systolic.workload import Graph, GraphBuilder
from systolic.workload.importers.models import read_model

CORPUS = Path(__file__).parent / "corpus"


def mlp() -> Graph:
    builder = GraphBuilder()
    x, w1, b1, w2 = (
        builder.tensor(name, shape)
        for name, shape in (
            ("x", "f32[4,8]"),
            ("w1", "f32[8,16]"),
            ("b1", "f32[16]"),
            ("w2", "f32[16,8]"),
        )
    )
    builder.matmul(x, w1, "f32[4,16]", name="s")
    builder.binary("s", b1, operator="add", broadcast_dimensions=(1,), out="f32[4,16]", name="t")
    builder.activation("t", function="gelu", name="u")
    builder.matmul("u", w2, "f32[4,8]", name="v")
    builder.softmax("v", name="y")
    return builder.graph()


def layer_norm() -> Graph:
    builder = GraphBuilder()
    builder.tensor("x", "f32[8,16]")
    builder.tensor("g", "f32[16]")
    builder.tensor("b", "f32[16]")
    builder.layer_norm("x", "g", "b", epsilon=1e-5, name="y")
    return builder.graph()


def rms_norm() -> Graph:
    builder = GraphBuilder()
    builder.tensor("x", "f32[8,16]")
    builder.tensor("g", "f32[16]")
    builder.rms_norm("x", "g", epsilon=1e-6, name="y")
    return builder.graph()


def swiglu() -> Graph:
    builder = GraphBuilder()
    shapes = {"x": "f32[8,16]", "a": "f32[16,32]", "b": "f32[16,32]", "c": "f32[32,16]"}
    for name, shape in shapes.items():
        builder.tensor(name, shape)
    builder.matmul("x", "a", "f32[8,32]", name="p")
    builder.matmul("x", "b", "f32[8,32]", name="q")
    builder.activation("p", function="silu", name="g")
    builder.binary("g", "q", operator="multiply", name="h")
    builder.matmul("h", "c", "f32[8,16]", name="y")
    return builder.graph()


def batch_norm() -> Graph:
    builder = GraphBuilder()
    builder.tensor("x", "f32[1,8,8,4]")
    for name in "mvgb":
        builder.tensor(name, "f32[4]")
    builder.batch_norm("x", "g", "b", "m", "v", epsilon=1e-5, name="y")
    return builder.graph()


def instance_norm_nchw() -> Graph:
    builder = GraphBuilder()
    builder.tensor("x", "f32[2,4,6,6]")
    builder.tensor("g", "f32[4]")
    builder.tensor("b", "f32[4]")
    builder.instance_norm("x", "g", "b", axis=1, epsilon=1e-5, name="y")
    return builder.graph()


def group_norm_net() -> Graph:
    builder = GraphBuilder()
    shapes = {"x": "f32[2,6,6,8]", "w": "f32[3,3,8,8]", "g": "f32[8]", "b": "f32[8]"}
    for name, shape in shapes.items():
        builder.tensor(name, shape)
    builder.conv2d("x", "w", padding=(1, 1, 1, 1), name="s")
    builder.group_norm("s", "g", "b", groups=4, epsilon=1e-5, name="t")
    builder.activation("t", function="silu", name="y")
    return builder.graph()


@pytest.mark.parametrize(
    "make",
    [batch_norm, instance_norm_nchw, group_norm_net, mlp, layer_norm, rms_norm, swiglu],
    ids=lambda make: make.__name__,
)
def test_cycles_are_those_of_the_graph_by_hand(make) -> None:
    imported = read_model(CORPUS / f"{make.__name__}.hlo").graph
    for chip in ("ideal_128x128", "neuroncore_v2"):
        one, other = (systolic.run(graph, chip).cycles for graph in (imported, make()))
        assert abs(one - other) <= 0.02 * other
