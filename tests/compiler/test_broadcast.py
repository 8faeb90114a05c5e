"""Products whose operands' leading dimensions broadcast, against numpy; shared operands."""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.bounds import run_bound
from systolic.compiler import Options
from systolic.config import load_chip
from systolic.isa import LoadWeights
from systolic.workload import Graph, GraphBuilder

BATCHES = [
    ((2,), ()),
    ((), (3,)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((1,), (2, 2)),
    ((2, 3), (2, 1)),
]


def product(lhs, rhs, home: str) -> Graph:
    builder = GraphBuilder(home)
    out = (*np.broadcast_shapes(lhs[:-2], rhs[:-2]), lhs[-2], rhs[-1])
    x, w, y = (f"f32[{','.join(map(str, dims))}]" for dims in (lhs, rhs, out))
    builder.matmul(builder.tensor("x", x), builder.tensor("w", w), y, name="y")
    return builder.graph()


def integers(graph: Graph) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(7)
    return {n: numbers.integers(-9, 9, graph.shape(n).dims).astype(np.float32)
            for n in graph.inputs}  # fmt: skip


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("home", ["state_buffer", "dram"])
@pytest.mark.parametrize("stationary", ["lhs", "rhs"])
@pytest.mark.parametrize(("left", "right"), BATCHES)
def test_broadcast_products_equal_numpy(left, right, stationary, home, engine):
    """Small integers in float32 are exact in any order, so numpy itself is the oracle."""
    graph = product((*left, 5, 6), (*right, 6, 3), home)
    inputs = integers(graph)
    options = Options(stationary=stationary)
    run = systolic.run(graph, ideal_chip(4, 4), inputs, options=options, engine=engine)
    assert np.array_equal(run.outputs["y"], inputs["x"] @ inputs["w"])


def test_a_shared_operand_makes_one_product_of_the_batch():
    """64 matrices of 8 rows times one of 128 x 128: not 64 loads of 128 cycles each."""
    chip = load_chip("configs/chips/ideal_128x128.toml")
    graph = product((64, 8, 128), (128, 128), "dram")
    run = systolic.run(graph, chip, integers(graph), options=Options(stationary="rhs"))
    program = run.compiled.program.instructions
    loads = [i for i in program if isinstance(i, LoadWeights)]
    assert len(loads) < 16
    assert np.array_equal(run.outputs["y"], integers(graph)["x"] @ integers(graph)["w"])
    assert run.trace.cycles() >= run_bound(graph, chip).cycles
