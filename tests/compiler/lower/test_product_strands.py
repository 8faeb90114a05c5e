"""Is the value right? Results whose rows share partitions, of which each strand is a product.

numpy is the oracle of values; both engines run each program, and all passes are verified.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from compiler.lower.test_product_places import multiplied
from compiler.lower.test_product_results import small_chip
from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.tiers import quick_first
from systolic.compiler import compile_graph
from systolic.compiler.ir.change_of_view import Spread
from systolic.compiler.ir.nodes import TurnNode
from systolic.compiler.ir.windows import MatrixWindow, StridedWindow
from systolic.config import load_chip
from systolic.shipped import CHIPS
from systolic.spans import Span
from systolic.workload import Graph

SEEDS = range(60)
ORDERS = "{2,1,0}", "{1,2,0}", "{1,0,2}", "{2,0,1}", "{2,1,0:T(4,16)}", "{1,0,2:T(4,16)}"


def drawn(rng: Random) -> Graph:
    """Return a product of which two or four rows of the result share a partition."""
    ways, order = rng.choice([2, 2, 4]), rng.choice(["2,1,0", "1,2,0"])
    batch, (M, K, N) = rng.randint(1, 4), (rng.randint(1, 28) for _ in range(3))
    x = f"bf16[{batch},{M},{K}]{rng.choice(ORDERS)}"
    w = f"bf16[{batch},{K},{N}]{rng.choice(ORDERS)}"
    return multiplied(x, w, f"bf16[{batch},{M},{N}]{{{order}:T(8,32)({ways},1)}}")


def by_products(graph: Graph, chip: object) -> bool:
    choices = compile_graph("product", graph, chip, verify=True).layers.choices
    return any(choice.endswith("to a partition, by products") for choice in choices)


@pytest.mark.parametrize("seed", quick_first(SEEDS, 15))
def test_results_in_strands_are_right_on_both_engines(seed: int) -> None:
    rng = Random(seed)
    graph, chip = drawn(rng), small_chip(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    compile_graph("product", graph, chip, verify=True)
    run_on_both_engines(graph, chip, inputs)


def test_most_of_the_random_results_are_products_strand_by_strand() -> None:
    cases = [(drawn(rng), small_chip(rng)) for rng in map(Random, SEEDS)]
    made = [graph for graph, chip in cases if by_products(graph, chip)]
    assert len(made) > len(SEEDS) // 2
    dims = [graph.shape("y").dims for graph in made]
    assert any(M % 2 for _, M, _ in dims)  # fewer rows in the last strand


def windows(graph: Graph, chip: object) -> list[object]:
    """Return what the stationary operands of strands lie within."""
    matrices = compile_graph("product", graph, chip).layers.matrices
    return [type(m.window.within) for m in matrices if isinstance(m.window, StridedWindow)]


def test_columns_are_stepped_through_where_operands_lie_within_others_too() -> None:
    found = [each for rng in map(Random, SEEDS) for each in windows(drawn(rng), small_chip(rng))]
    assert {type(None), MatrixWindow} <= {*found}


def test_the_columns_of_a_window_are_every_step_of_the_other_window() -> None:
    """Matrix b of [rows, columns, batch] has column b of each two, and 20 columns."""
    dims = 3, 20, 2
    within = MatrixWindow("held", Spread(dims, ((0,), (1, 2))), Spread(dims, ((2,), (0,), (1,))))
    window = StridedWindow("held", 1, 4, within)
    every = 1 + 2 * np.arange(20)
    assert np.array_equal(window.columns(1, 0, Span(2, 3)), every[1::4][2:5])
    (segment,) = window.segments(1, 0, Span(2, 3))
    assert (segment.first, segment.count, segment.base) == (0, 3, every[9])
    assert segment.pairs == ((8, 3),)
    assert (window.number(1), window.row(2), window.column(2, 5)) == (0, 2, 0)
    plain = StridedWindow("held", 1, 4)
    assert plain.columns(5, 0, Span(2, 3)).tolist() == [9, 13, 17]
    assert (plain.number(5), plain.row(2)) == (5, 2)


@pytest.mark.parametrize(
    ("x", "w", "y"),
    [
        (
            "bf16[8,384,128]{1,2,0}",
            "bf16[8,128,197]",
            "bf16[8,384,197]{2,1,0:T(8,128)(2,1)}",
        ),
        ("f16[16,128,128]{0,2,1}", "f16[16,128,64]", "f16[16,128,64]{2,1,0:T(8,128)(2,1)}"),
    ],
)
def test_nothing_is_turned_after_the_products_of_strands(x: str, w: str, y: str) -> None:
    graph = multiplied(x, w, y)
    layers = compile_graph("product", graph, load_chip(CHIPS / "lpddr5_6400_128x128.toml")).layers
    kinds = [node.word() for node in layers.nodes]
    assert kinds[-2:] == ["multiply", "multiply"]
    assert not any(
        isinstance(node, TurnNode) and node.output.startswith("y") for node in layers.nodes
    )
