"""How many multiply-adds an operation means: what its definition sums up when all numbers are 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from systolic.bounds import product_multiply_adds
from systolic.workload import GraphBuilder

UNPADDED: dict[str, Any] = {"stride": [2], "dilation": [2]}
CASES: list[tuple[str, list[str], str, dict[str, Any]]] = [
    ("matmul", ["f32[3,4,5]", "f32[5,6]"], "f32[3,4,6]", {}),
    ("dot", ["f32[5]", "f32[5]"], "f32[]", {}),
    ("dot", ["f32[4,5]", "f32[5]"], "f32[4]", {}),
    ("matmul_integer", ["s8[4,5]", "s8[5,6]"], "s32[4,6]", {}),
    ("conv1d", ["f32[2,9,4]", "f32[3,2,6]"], "f32[2,3,6]", {**UNPADDED, "groups": 2}),
    ("conv3d", ["f32[1,3,4,5,2]", "f32[2,2,2,2,3]"], "f32[1,2,3,4,3]", {}),
    ("conv_integer", ["s8[1,4,4,2]", "s8[3,3,2,3]"], "s32[1,2,2,3]", {}),
    ("conv_transpose", ["f32[2,4,6]", "f32[3,3,4]"], "f32[2,7,4]",
     {"stride": [2], "padding": [1, 1], "groups": 2}),
    ("conv_input_gradient", ["f32[1,3,3,4]", "f32[3,3,1,4]"], "f32[1,5,5,2]",
     {"stride": [2, 2], "padding": [1, 1, 1, 1], "groups": 2}),
    ("conv_weight_gradient", ["f32[1,5,5,2]", "f32[1,3,3,4]"], "f32[3,3,1,4]",
     {"stride": [2, 2], "padding": [1, 1, 1, 1], "groups": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "inputs", "out", "given"), CASES)
def test_ones_sum_up_to_the_multiply_adds(
    kind: str, inputs: list[str], out: str, given: dict[str, Any]
) -> None:
    builder = GraphBuilder("dram")
    names = [builder.tensor(f"x{n}", text) for n, text in enumerate(inputs)]
    builder.add(kind, names, out, name="y", **given)
    graph = builder.graph()
    (op,) = graph.operations
    ones = [np.ones(graph.shape(name).dims, graph.shape(name).dtype) for name in names]
    summed = op.row.exact(ones, graph.shape("y"), op.attributes).sum()
    assert product_multiply_adds(graph) == {"y": summed}


def test_what_is_no_product_means_none() -> None:
    builder = GraphBuilder("dram")
    x, n, one = (builder.tensor(*each) for each in
                 (("x", "f32[4,5]"), ("n", "s32[3]"), ("one", "f32[]")))  # fmt: skip
    builder.add("gather", [x, n], "f32[3,5]", name="g", axis=0)  # though parts of it multiply
    builder.add("dot", [x, one], "f32[4,5]", name="d")
    assert product_multiply_adds(builder.graph()) == {"d": 0}


def test_every_step_of_a_recurrent_layer_counts() -> None:
    builder = GraphBuilder("dram")
    shapes = ("f32[5,2,3]", "f32[3,16]", "f32[4,16]", "f32[16]", "f32[2,4]", "f32[2,4]")
    names = [builder.tensor(f"x{n}", text) for n, text in enumerate(shapes)]
    builder.add("lstm", names, "f32[5,2,4]", name="y")
    assert product_multiply_adds(builder.graph()) == {"y": 5 * 2 * (3 * 16 + 4 * 16)}
