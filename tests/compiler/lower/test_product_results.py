"""Is the value right? Results of batched products that are made where their tiles lie on the chip.

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
from systolic.config import load_chip
from systolic.isa import Buffer, Copy
from systolic.shipped import CHIPS
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


def made_at_home(graph: Graph, chip: object) -> bool:
    choices = compile_graph("product", graph, chip, verify=True).layers.choices
    return any("y is made where its tiles lie" in choice for choice in choices)


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


def test_many_of_the_random_results_are_made_where_they_lie() -> None:
    cases = [(drawn(rng), small_chip(rng)) for rng in map(Random, SEEDS)]
    made = [graph for graph, chip in cases if made_at_home(graph, chip)]
    assert len(made) > len(SEEDS) // 4
    rows = [max(graph.shape("y").dims[1:]) for graph in made]
    assert max(rows) > 8  # in a second line of tiles


@pytest.mark.parametrize(
    ("name", "x", "w", "y"),
    [
        ("neuroncore_v2", "f32[16,96,96]", "f32[16,96,96]{1,0,2}", "f32[16,96,96]{0,1,2:T(8,128)}"),
        # two lines of tiles, one behind the other
        (
            "neuroncore_v2",
            "f32[8,80,256]",
            "f32[8,256,256]{1,2,0:T(8,128)}",
            "f32[8,80,256]{0,2,1:T(8,128)}",
        ),
        # no tiles: the operand is stationary whose product has the result's rows
        ("ideal_128x128", "f16[12,128,64]", "f16[12,64,80]", "f32[12,128,80]{0,2,1}"),
    ],
)
def test_no_element_moves_on_the_chip_after_a_product(name: str, x: str, w: str, y: str) -> None:
    chip = load_chip(CHIPS / f"{name}.toml")
    compiled = compile_graph("product", multiplied(x, w, y), chip, verify=True)
    *_, last = compiled.layers.nodes
    assert last.kind == "multiply"
    copies = [each for each in compiled.program.instructions if isinstance(each, Copy)]
    assert all(copy.source.buffer is Buffer.RESULT for copy in copies)
