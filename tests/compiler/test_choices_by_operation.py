"""Do choices for single products hold for these products, and for no others?"""

from __future__ import annotations

import numpy as np
import pytest

from support.chips import ideal_chip
from systolic.compiler import CompiledGraph, Options, ProductOptions, compile_graph
from systolic.compiler.ir.nodes import MultiplyNode
from systolic.errors import CompileError
from systolic.run.execute import run
from systolic.workload import Graph, GraphBuilder

CHIP = ideal_chip(4, 4, result_buffer={"banks": 8, "bank_bytes": 32})


def three_products() -> Graph:
    """Return three products of one size, each of the same tensors, and a convolution."""
    builder = GraphBuilder()
    x, w = builder.tensor("x", "f32[16,16]"), builder.tensor("w", "f32[16,16]")
    for name in ("a", "b", "c"):
        builder.matmul(x, w, out="f32[16,16]", name=name)
    images = builder.tensor("images", "f32[1,4,4,4]")
    taps = builder.tensor("taps", "f32[1,1,4,4]")
    builder.add("conv2d", (images, taps), out="f32[1,4,4,4]", name="d")
    return builder.graph()


def compiled(**operations: ProductOptions) -> CompiledGraph:
    return compile_graph("three", three_products(), CHIP, Options(operations=operations))


def held(work: CompiledGraph) -> dict[str, str]:
    """Return which operand of each product is held in the array: its K-tiles are loaded."""
    found = {}
    for node in work.layers.nodes:
        if isinstance(node, MultiplyNode) and node.layer != "d":
            tensors = {matrix.name: matrix for matrix in work.layers.matrices}
            found[node.layer] = tensors[node.inputs[0]].tensor
    return found


def loops(work: CompiledGraph) -> dict[str, tuple[tuple[int, int], str]]:
    nodes = work.layers.nodes
    return {nodes[n].layer: (each.group, each.outer) for n, each in work.tiled.loops}


@pytest.mark.parametrize("asked", ["lhs", "rhs"])
def test_one_product_holds_another_operand(asked):
    usual = held(compiled())
    found = held(compiled(b=ProductOptions(stationary=asked)))
    assert found["b"] == {"lhs": "x", "rhs": "w"}[asked]
    assert (found["a"], found["c"]) == (usual["a"], usual["c"])


def test_one_product_has_other_loops():
    usual = loops(compiled())
    asked = (1, 1), "moving" if usual["b"][1] == "stationary" else "stationary"
    assert usual["b"] != asked
    found = loops(compiled(b=ProductOptions(group=asked[0], outer=asked[1])))
    assert found == {**usual, "b": asked}


def test_what_holds_for_all_holds_but_for_the_one():
    options = Options(group=(2, 1), operations={"b": ProductOptions(group=(1, 2))})
    builder = GraphBuilder()
    x, w = builder.tensor("x", "f32[16,16]"), builder.tensor("w", "f32[16,16]")
    for name in ("a", "b"):
        builder.matmul(x, w, out="f32[16,16]", name=name)
    found = loops(compile_graph("two", builder.graph(), CHIP, options))
    assert {name: group for name, (group, _) in found.items()} == {"a": (2, 1), "b": (1, 2)}


def test_the_values_are_the_same():
    work = three_products()
    inputs = {name: _numbers(work, name) for name in work.inputs}
    options = Options(operations={"a": ProductOptions("lhs", (2, 1)), "b": ProductOptions("rhs")})
    result = run(work, CHIP, inputs, options=options)
    assert result.summary["values"]["equal"] is True
    assert result.compiled is not None
    assert held(result.compiled)["a"] == "x"
    assert held(result.compiled)["b"] == "w"


REFUSED = {
    "a name of no product": (
        {"bb": ProductOptions(outer="moving")},
        'compile.operations.bb: there is no such product (known: a, b, c, d); perhaps "b" was '
        "meant",
    ),
    "a convolution's operand": (
        {"d": ProductOptions(stationary="lhs")},
        "compile.operations.d.stationary: a conv2d holds its weights in the array; only a matmul "
        "has this choice",
    ),
    "an impossible group": (
        {"b": ProductOptions(group=(9, 1))},
        'operation "b": compile.operations.b.group asks for 9 stationary tiles x 1 chunks of 8 '
        "vectors: there are 4 x 2, and each of p * q sums needs one of 8 banks",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case):
    operations, text = REFUSED[case]
    with pytest.raises(CompileError) as caught:
        compiled(**operations)
    assert str(caught.value) == text


def _numbers(work, name):
    dims = work.shape(name).dims
    return np.random.default_rng(3).standard_normal(dims).astype(np.float32)
