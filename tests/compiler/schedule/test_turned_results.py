"""Are results of small turns copied out together, and are they right?

An engine that starts an instruction every 40 cycles takes as long for a few words as for 40. Values
are numpy's, on both engines.
"""

from __future__ import annotations

from random import Random

import pytest

import systolic
from compiler.test_graph_values import random_values
from support.chips import ideal_chip
from systolic.compiler import Options
from systolic.compiler.cost.turns import turns_copied_together
from systolic.hw.spec import Chip
from systolic.run.result import Result
from systolic.workload import Graph, GraphBuilder


def chip(interval_cycles: int = 40, bank_words: int = 16) -> Chip:
    """Return a chip of 8 x 8 whose engines start instructions so far apart."""
    engine = {"min_interval_cycles": interval_cycles}
    banks = {"banks": 4, "bank_bytes": 4 * bank_words}
    return ideal_chip(8, 8, activation=engine, pooling=engine, result_buffer=banks)


def turned(dims: tuple[int, ...], axes: tuple[int, ...]) -> Graph:
    """Return the graph of a transpose on the chip."""
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", f"bf16[{','.join(map(str, dims))}]")
    out = ",".join(str(dims[axis]) for axis in axes)
    builder.transpose("x", f"bf16[{out}]", axes, name="y")
    return builder.graph()


def run(graph: Graph, on: Chip, seed: int) -> Result:
    """Return the event engine's result of turns through the array; the register engine agrees."""
    inputs = {"x": random_values(Random(seed), graph.shape("x"))}
    event, register = (
        systolic.run(graph, on, inputs, engine=engine, options=Options(via="pe"))
        for engine in ("event", "register")
    )
    assert event.summary["values"]["equal"]
    assert register.summary["values"]["equal"]
    assert event.cycles == register.cycles
    return event


@pytest.mark.parametrize(
    ("interval_cycles", "bank_words", "together"),
    [
        (0, 16, 1),  # 4 words take as long in one copy as in another
        (40, 16, 4),  # as many as a bank has words for: each costs a quarter
        (8, 16, 2),  # 8 words are as long as the distance of two instructions
        (40, 7, 1),  # no two results have room in a bank
    ],
)
def test_as_many_results_are_copied_together_as_gain(
    interval_cycles: int, bank_words: int, together: int
) -> None:
    some = chip(interval_cycles, bank_words)
    assert turns_copied_together(some, Options(), "bf16", 4, 1) == together


@pytest.mark.parametrize("seed", range(12))
def test_results_of_any_distances_are_right(seed: int) -> None:
    rng = Random(seed)
    dims = (rng.randint(2, 9), rng.randint(2, 4), rng.randint(2, 11), rng.randint(2, 11))
    axes = (*rng.sample((0, 1), 2), 3, 2)
    graph = turned(dims, axes)
    run(graph, chip(bank_words=rng.randint(11, 40)), seed)
