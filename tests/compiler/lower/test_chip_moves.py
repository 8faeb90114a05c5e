"""Permutations of small matrices on the chip, in any order before and after.

numpy is the oracle of values, the register engine that of cycles, the program checker of the order.
"""

from __future__ import annotations

from random import Random

import pytest

from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.compiler.lower.relays import RelayPlanner
from systolic.workload import Graph, GraphBuilder


@pytest.fixture(autouse=True)
def no_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes keep their elements here: copies from lanes to lanes may be quicker."""
    monkeypatch.setattr(RelayPlanner, "in_rounds", lambda *_: ())


def permuted(source: str, permutation: tuple[int, ...], out: str) -> Graph:
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", source)
    builder.transpose("x", out, permutation, name="y")
    return builder.graph()


def drawn(rng: Random) -> Graph:
    """Return a permutation of three or four dimensions, in any order before and after."""
    rank = rng.randint(3, 4)
    dims = [rng.randint(1, 7) for _ in range(rank)]
    permutation = tuple(rng.sample(range(rank), rank))
    dtype = rng.choice(["f32", "bf16", "s8", "u8", "s32"])
    orders = ["{" + ",".join(map(str, rng.sample(range(rank), rank))) + "}" for _ in range(2)]
    after = [dims[axis] for axis in permutation]
    source, out = (f"{dtype}[{','.join(map(str, sizes))}]{order}"
                   for sizes, order in zip((dims, after), orders, strict=True))  # fmt: skip
    return permuted(source, permutation, out)


def chip(rng: Random):
    return ideal_chip(
        rng.randint(4, 8), rng.randint(4, 8),
        state_buffer={"partitions": rng.randint(8, 16), "banks": rng.choice([1, 8])},
        result_buffer={"banks": rng.randint(2, 4), "bank_bytes": 64},
        activation={"independent_lanes": rng.random() < 0.5},
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_small_matrices_change_places_right_on_both_engines(seed: int) -> None:
    rng = Random(9000 + seed)
    graph, hardware = drawn(rng), chip(rng)
    inputs = {"x": random_values(rng, graph.shape("x"))}
    compile_graph("permuted", graph, hardware, verify=True)
    run_on_both_engines(graph, hardware, inputs)
