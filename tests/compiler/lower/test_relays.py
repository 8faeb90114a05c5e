"""Is the value right? Moves on the chip in legs: runs by DMA, order by engines.

numpy is the oracle of values. `support.packed.run` has both engines leave the same trace and the
same memory, in memories full of other bits, and the program checker look at every dependency.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from compiler.lower.test_digit_moves import drawn, reshaped, small_chip
from support.packed import run
from systolic.compiler import compile_graph
from systolic.compiler.lower import relays
from systolic.config import load_chip
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder, TransposeAttributes

ONE_LEG, TWO_LEGS, THREE_LEGS = (0, 4, 13, 28), (5, 9, 10, 11, 24, 35), (17, 41)


def moved(graph: Graph, values: np.ndarray) -> np.ndarray:
    (op,) = graph.operations
    if op.kind == "reshape":
        return values.reshape(graph.shape("y").dims)
    return values.transpose(op.attributes_as(TransposeAttributes).axes)


@pytest.mark.parametrize(
    ("seed", "legs"),
    [(seed, legs) for legs, seeds in enumerate((ONE_LEG, TWO_LEGS, THREE_LEGS), 1)
     for seed in seeds],
)  # fmt: skip
def test_all_elements_arrive_on_both_engines(
    seed: int, legs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "FEWER", 1e-9)  # whatever other ways take
    monkeypatch.setattr(relays, "LEAST_CYCLES", -1)
    monkeypatch.setattr(relays, "ROUGHLY", 1e9)
    rng = Random(seed)
    graph, chip = drawn(rng), small_chip(rng)
    compiled, inputs, outputs = run(graph, chip, seed)
    assert any(f"as a relay of {legs} leg" in choice for choice in compiled.layers.choices)
    np.testing.assert_array_equal(outputs["y"], moved(graph, inputs["x"]))


def relaid(source: str, out: str) -> Graph:
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", source)
    builder.add("relayout", ("x",), out, name="y")
    return builder.graph()


@pytest.mark.parametrize(
    ("graph", "chip", "cycles", "instructions"),
    [
        # 32 partitions hold 4 rows each, byte by byte. Matrices go to partitions of their own, are
        # taken apart in 96 lanes at once, and go on in runs of 2,048 bytes
        (
            relaid("s8[3,128,512]{2,1,0:T(8,128)(4,1)}", "s8[3,128,512]"), "ideal_128x128", 3785,
            {"DmaCopy": 9, "Copy": 4},
        ),
    ],
)  # fmt: skip
def test_long_runs_go_by_dma_and_lanes_change_their_order(
    graph: Graph,
    chip: str,
    cycles: int,
    instructions: dict[str, int],
) -> None:
    result = systolic.run(graph, chip)
    assert (result.cycles, result.program.count()) == (cycles, instructions)


def test_a_way_of_fewer_cycles_is_taken() -> None:
    """Each element of its own costs a descriptor, so these are turned by the array."""
    graph = reshaped("s8[512,64]{1,0:T(8,128)(4,1)}", "s8[512,8,8]{0,1,2}")
    compiled = compile_graph("turned", graph, load_chip(CHIPS / "ideal_128x128.toml"))
    assert not any("relay" in choice for choice in compiled.layers.choices)
