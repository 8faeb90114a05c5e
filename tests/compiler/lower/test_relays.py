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
from compiler.lower.test_packed_relays import transposed
from support.packed import run
from systolic.compiler import compile_graph
from systolic.compiler.lower import relays
from systolic.config import load_chip
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder, TransposeAttributes

ONE_LEG, TWO_LEGS, THREE_LEGS = (0, 4, 12, 13, 28), (5, 9, 10, 11, 24, 27, 35), (17, 41)


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
    monkeypatch.setattr(relays.RelayPlanner, "in_rounds", lambda *_: ())
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
        # 130 rows stay in their lanes, in two tiles of rows; matrix by matrix a copy for each
        # column took 42,558 cycles
        (
            transposed("s32[7,130,66]", "s32[66,130,7]", (2, 1, 0)), "neuroncore_v2", 1968,
            {"Copy": 2},
        ),
        # elements stay in their lanes, and neighbours of either side are 1,280 bytes apart on the
        # other; heads are 16 bytes apart on both, so that engines are not half as fast: 41,080
        (
            transposed(
                "pred[2,1024,16,80]{0,1,3,2}", "pred[2,80,1024,16]{3,1,0,2}", (0, 3, 1, 2)
            ),
            "neuroncore_v2", 20_924, {"Copy": 4},
        ),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("rows_end_with_dimensions")
def test_long_runs_go_by_dma_and_lanes_change_their_order(
    graph: Graph,
    chip: str,
    cycles: int,
    instructions: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relays.RelayPlanner, "in_rounds", lambda *_: ())  # 2,402 in rounds
    monkeypatch.setattr(relays, "independent_engines", lambda *_: [])
    result = systolic.run(graph, chip)
    assert (result.cycles, result.program.count()) == (cycles, instructions)


def test_a_way_of_fewer_cycles_is_taken() -> None:
    """Each element of its own costs a descriptor, so these are turned by the array."""
    graph = reshaped("s8[512,64]{1,0:T(8,128)(4,1)}", "s8[512,8,8]{0,1,2}")
    compiled = compile_graph("turned", graph, load_chip(CHIPS / "ideal_128x128.toml"))
    assert not any("relay" in choice for choice in compiled.layers.choices)
