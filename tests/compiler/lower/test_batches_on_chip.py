"""Batched products whose tensors lie on the chip in any order: their matrices stay where they are.

numpy is the oracle of values, the register engine that of cycles, the program checker of the order.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.config import load_chip
from systolic.isa import Buffer, Copy
from systolic.layout import Shape
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder, Tensor

SEEDS = range(60)


def order(rng: Random, rank: int) -> str:
    return "{" + ",".join(map(str, rng.sample(range(rank), rank))) + "}"


def drawn(rng: Random) -> Graph:
    """Return a batched product whose tensors lie on the chip, their dimensions in any order."""
    batch, M, K, N = rng.randint(1, 5), *(rng.randint(1, 20) for _ in range(3))
    dtype, total = rng.choice([("f32", "f32"), ("bf16", "f32"), ("s8", "s32")])
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", f"{dtype}[{batch},{M},{K}]{order(rng, 3)}")
    builder.tensor("w", f"{dtype}[{batch},{K},{N}]{order(rng, 3)}")
    builder.matmul("x", "w", f"{total}[{batch},{M},{N}]{order(rng, 3)}", name="y")
    return builder.graph()


def chip(rng: Random):
    return ideal_chip(
        rng.randint(2, 9), rng.randint(2, 9),
        state_buffer={"partitions": rng.randint(9, 16), "banks": rng.choice([1, 8])},
        result_buffer={"banks": rng.randint(2, 4), "bank_bytes": 64},
        activation={"independent_lanes": rng.random() < 0.5},
        dma={"queues": rng.randint(1, 4), "latency_cycles": rng.choice([0, 5, 50])},
    )  # fmt: skip


def choices(seed: int) -> str:
    rng = Random(8000 + seed)
    return " ".join(compile_graph("product", drawn(rng), chip(rng)).layers.choices)


@pytest.mark.parametrize("seed", SEEDS)
def test_matrices_in_any_order_are_multiplied_right_on_both_engines(seed: int) -> None:
    rng = Random(8000 + seed)
    graph, hardware = drawn(rng), chip(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    compile_graph("product", graph, hardware, verify=True)
    run_on_both_engines(graph, hardware, inputs)


def test_many_of_the_random_products_take_matrices_side_by_side() -> None:
    found = [choices(seed) for seed in SEEDS]
    assert sum("lies with its matrices side by side" in each for each in found) > 15
    assert sum("is made with its matrices side by side" in each for each in found) > 5


@pytest.mark.parametrize("seed", SEEDS)
def test_the_printed_places_give_the_same_run(seed: int) -> None:
    rng = Random(8000 + seed)
    graph, hardware = drawn(rng), chip(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    before = systolic.run(graph, hardware, inputs)
    if "side by side" not in choices(seed) or {*before.summary["on_chip"]} != {"x", "w", "y"}:
        return
    there = {
        name: Tensor(Shape.parse(home["layout"]), "state_buffer", home["partition"], home["byte"])
        for name, home in before.summary["on_chip"].items()
    }
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", there["x"])
    builder.tensor("w", there["w"])
    builder.matmul("x", "w", there["y"], name="y")
    after = systolic.run(builder.graph(), hardware, inputs)
    assert np.array_equal(before.outputs["y"], after.outputs["y"])
    assert after.cycles == before.cycles


@pytest.mark.parametrize(
    ("x", "w", "y"),
    [
        ("f32[8,128,128]{1,0,2}", "f32[8,128,128]", "f32[8,128,128]{1,0,2}"),
        ("bf16[4,64,256]{1,0,2}", "bf16[4,256,96]{2,0,1}", "f32[4,64,96]"),  # two tiles of rows
    ],
)
def test_no_element_moves_on_the_chip_before_or_after_a_product(x: str, w: str, y: str) -> None:
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", x)
    builder.tensor("w", w)
    builder.matmul("x", "w", y, name="y")
    hardware = load_chip(CHIPS / "ideal_128x128.toml")
    program = compile_graph("product", builder.graph(), hardware).program
    copies = [each for each in program.instructions if isinstance(each, Copy)]
    assert copies
    assert all(copy.source.buffer is Buffer.RESULT for copy in copies)
    assert "DmaCopy" not in program.count()
