"""Is the value right? Results of batched products in tiles on the chip.

numpy is the oracle of values; both engines run each program, and all passes are verified.
"""

from __future__ import annotations

from random import Random

import pytest

from compiler.lower.test_product_places import multiplied
from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.workload import Graph

SEEDS = range(40)


def drawn(rng: Random) -> Graph:
    """Return a product whose result is in tiles, its dimensions in any order.

    Rows may be more than the partitions, and columns more than a tile has.
    """
    batch, (M, K, N) = rng.randint(2, 5), (rng.randint(2, 18) for _ in range(3))
    order, tile = rng.sample(range(3), 3), (rng.choice([2, 4, 8]), rng.choice([8, 16]))
    y = f"f32[{batch},{M},{N}]{{{','.join(map(str, order))}:T({tile[0]},{tile[1]})}}"
    return multiplied(f"f32[{batch},{M},{K}]", f"f32[{batch},{K},{N}]", y)


def small_chip(rng: Random):
    lanes = {"independent_lanes": rng.random() < 0.5}
    return ideal_chip(8, 8, state_buffer={"partitions": 8, "banks": 8}, activation=lanes,
                      result_buffer={"banks": 4, "bank_bytes": 64})  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_results_in_tiles_are_right_on_both_engines(seed: int) -> None:
    rng = Random(seed)
    graph, chip = drawn(rng), small_chip(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    compile_graph("product", graph, chip, verify=True)
    run_on_both_engines(graph, chip, inputs)
