"""Causal masks: which elements stay, and which tiles of a product are not computed at all."""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.bounds import product_multiply_adds, run_bound
from systolic.compiler import compile_graph
from systolic.errors import WorkloadError
from systolic.isa import MatMul, Memset, Select
from systolic.workload import GraphBuilder

CHIP = ideal_chip(4, 4)
ENGINES = ("event", "register")


def whole(dims, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, dims).astype(np.float32)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("home", ["dram", "state_buffer"])
@pytest.mark.parametrize("layout", ["", "{0,1,2}", "{1,2,0}", "{2,0,1}"])
@pytest.mark.parametrize("offset", [0, 3, -2, 20, -20])
def test_what_is_up_to_the_diagonal_stays(offset, layout, home, engine):
    builder = GraphBuilder(home)
    x = builder.tensor("x", f"f32[2,9,7]{layout}")
    builder.add("causal_mask", (x,), "f32[2,9,7]", name="y", offset=offset, value=-50.0)
    data = whole((2, 9, 7))
    found = systolic.run(builder.graph(), CHIP, {"x": data}, engine=engine).outputs["y"]
    rows, cols = np.indices((9, 7))
    assert np.array_equal(found, np.where(cols <= rows + offset, data, -50))


def scores(offset: int, size: int = 20) -> GraphBuilder:
    """Return a builder with masked products of a query and a key."""
    builder = GraphBuilder("dram")
    q, k = builder.tensor("q", f"f32[2,{size},6]"), builder.tensor("k", f"f32[2,6,{size}]")
    s = builder.matmul(q, k, f"f32[2,{size},{size}]", name="s")
    builder.add("causal_mask", (s,), f"f32[2,{size},{size}]", name="y", offset=offset, value=-9)
    return builder


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("offset", [0, 5, -7, -20, 19])
def test_sums_leave_through_the_select(offset, engine):
    data = {"q": whole((2, 20, 6)), "k": whole((2, 6, 20), 2)}
    found = systolic.run(scores(offset).graph(), CHIP, data, engine=engine)
    rows, cols = np.indices((20, 20))
    wanted = np.where(cols <= rows + offset, data["q"] @ data["k"], -9)
    assert np.array_equal(found.outputs["y"], wanted)
    assert found.cycles >= run_bound(scores(offset).graph(), CHIP).cycles
    taken_out = [i for i in found.compiled.program.instructions if isinstance(i, Select)]
    sums = [i for i in taken_out if i.value != 1]  # the identity has 1
    assert bool(sums) == (offset > -20)
    assert all(i.value.buffer == "result_buffer" for i in sums)


@pytest.mark.parametrize(
    ("offset", "tiles"), [(0, 15), (19, 25), (-4, 10), (-3, 15), (1, 19), (5, 22)]
)
def test_tiles_above_the_diagonal_are_not_computed(offset, tiles):
    """Of 5 x 5 tiles of 4 x 4 those that the diagonal touches, and those below it; K has two."""
    graph = scores(offset).graph()
    compiled = compile_graph("t", graph, CHIP)
    identities = [access.span for access in compiled.plan.scheduled.identities]
    multiplies = [i for i in compiled.program.instructions if isinstance(i, MatMul)]
    vectors = sum(
        i.moving.elements
        for i in multiplies
        if not any(span.first <= i.moving.start < span.stop for span in identities)
    )
    assert vectors == 2 * 2 * 4 * tiles
    fills = [i for i in compiled.program.instructions if isinstance(i, Memset)]
    filled = sum(i.target.partitions * i.target.elements for i in fills)
    assert filled == 2 * 16 * (25 - tiles)


def test_only_what_stays_is_useful():
    """1 + 2 + ... + 20 results of two matrices, each of 6 multiply-adds."""
    assert product_multiply_adds(scores(0).graph()) == {"s": 2 * 210 * 6}
    assert product_multiply_adds(scores(19).graph()) == {"s": 2 * 400 * 6}


@pytest.mark.parametrize(
    ("shape", "out", "given", "text"),
    [
        ("f32[4]", "f32[4]", {}, "needs rows and columns, found f32[4]"),
        ("s32[4,4]", "s32[4,4]", {},
         "value: needs a whole number from -2147483648 to 2147483647 for s32[4,4], found -1e+30"),
        ("f32[4,4]", "f32[4,5]", {}, "f32[4,4] gives f32[4,4], but out is f32[4,5]"),
        ("f32[4,4]", "f16[4,4]", {},
         "value: needs a number that is finite in f16 (products that turn a matrix would make NaN "
         "of 0 x infinity), found -1e+30"),
        ("f32[4,4]", "f32[4,4]", {"value": float("-inf")}, "found -inf"),
    ],
)  # fmt: skip
def test_what_is_refused(shape, out, given, text):
    builder = GraphBuilder("dram")
    builder.tensor("x", shape)
    builder.add("causal_mask", ("x",), out, name="y", **given)
    with pytest.raises(WorkloadError) as raised:
        builder.graph()
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)
