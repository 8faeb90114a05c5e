"""Is the value right? Operands of products in tiles on the chip.

numpy is the oracle of values; both engines run each program, and all passes are verified.
"""

from __future__ import annotations

from random import Random

import pytest

from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.chips import ideal_chip
from support.tiers import quick_first
from systolic.compiler import compile_graph
from systolic.workload import Graph, GraphBuilder


def multiplied(x: str, w: str, y: str) -> Graph:
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", x)
    builder.tensor("w", w)
    builder.matmul("x", "w", y, name="y")
    return builder.graph()


TALL = range(40)


def with_many_rows(rng: Random) -> Graph:
    """Return a product whose contraction is longer than a tile has rows, its lhs in tiles."""
    batch, M, N = rng.randint(2, 5), rng.randint(2, 10), rng.randint(2, 10)
    K, order = rng.choice([9, 12, 16, 20, 24]), rng.sample(range(3), 3)
    tile = f"T({rng.choice([2, 4, 8])},16){rng.choice(['', '(2,1)'])}"
    return multiplied(
        f"bf16[{batch},{M},{K}]{{{','.join(map(str, order))}:{tile}}}",
        f"bf16[{batch},{K},{N}]",
        f"f32[{batch},{M},{N}]",
    )


def chip_of_eight(rng: Random):
    lanes = {"independent_lanes": rng.random() < 0.5}
    return ideal_chip(8, 8, state_buffer={"partitions": 8, "banks": 8}, activation=lanes,
                      result_buffer={"banks": 4, "bank_bytes": 64})  # fmt: skip


@pytest.mark.parametrize("seed", TALL)
def test_operands_of_more_rows_than_partitions_are_right_on_both_engines(seed: int) -> None:
    rng = Random(seed)
    graph, chip = with_many_rows(rng), chip_of_eight(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    compile_graph("product", graph, chip, verify=True)
    run_on_both_engines(graph, chip, inputs)


def in_rows_the_wrong_way(rng: Random) -> Graph:
    """Return a product of operands without tiles, whose dimensions lie in any order."""
    batch, M, K, N = (rng.randint(2, most) for most in (5, 10, 12, 10))
    orders = (",".join(map(str, rng.sample(range(3), 3))) for _ in range(2))
    x, w = (
        f"bf16[{batch},{rows},{cols}]{{{order}}}"
        for order, (rows, cols) in zip(orders, ((M, K), (K, N)), strict=True)
    )
    return multiplied(x, w, f"f32[{batch},{M},{N}]")


@pytest.mark.parametrize("seed", quick_first(range(60), 30))
def test_operands_whose_dimensions_lie_in_any_order_are_right(seed: int) -> None:
    rng = Random(seed)
    graph, chip = in_rows_the_wrong_way(rng), chip_of_eight(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    compile_graph("product", graph, chip, verify=True)
    run_on_both_engines(graph, chip, inputs)
