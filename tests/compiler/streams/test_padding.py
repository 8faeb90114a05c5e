"""Parts of a move between tiles: padding that is brought with elements that lie apart."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.tiers import quick_first
from systolic.compiler import compile_graph
from systolic.config import load_chip
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder


def test_columns_of_a_tile_over_the_edge_come_without_the_padding_within_dram() -> None:
    """Work 101 of `benchmarks/bench_moves.py`; through the chip it took 121,220 cycles."""
    builder = GraphBuilder("dram")
    builder.tensor("x", "s32[1,64,112,112]{3,2,1,0:T(8,128)}")
    builder.reshape("x", out="s32[1,4,16,112,112]", name="y")
    chip = load_chip(CHIPS / "neuroncore_v3.toml")
    result = systolic.run(builder.graph(), chip, values=False)
    assert result.summary["dram_bytes"] == 4 * 2 * 64 * 112 * 112
    assert 1 <= result.cycles / result.summary["bound"]["cycles"] <= 1.25


def test_much_padding_is_not_brought() -> None:
    """Where a descriptor costs nothing, 14 columns of 128 come alone."""
    builder = GraphBuilder("dram")
    builder.tensor("x", "s32[1,64,14,14]{3,2,1,0:T(8,128)}")
    builder.relayout("x", out="s32[1,64,14,14]{0,2,1,3}", name="y")
    chip = load_chip(CHIPS / "lpddr5_6400_128x128.toml")
    result = systolic.run(builder.graph(), chip, values=False)
    assert result.summary["dram_bytes"] <= 2 * 4 * 64 * 14 * 16


def drawn_over_the_edge(rng: Random) -> Graph:
    """Return a move of a tensor in DRAM whose tiles stand over its edges."""
    dtype, tile = rng.choice([("f32", "(4,8)"), ("bf16", "(8,8)(2,1)"), ("s8", "(8,8)(4,1)")])
    dims = (rng.randint(1, 4), rng.randint(3, 10), rng.randint(3, 13))
    order = rng.choice(["2,1,0", "1,2,0", "0,2,1"])
    axes = tuple(rng.sample(range(3), 3))
    builder = GraphBuilder("dram")
    builder.tensor("x", f"{dtype}[{','.join(map(str, dims))}]{{{order}:T{tile}}}")
    after = ",".join(str(dims[axis]) for axis in axes)
    out = rng.choice(["{2,1,0}", "{0,1,2}", "{2,1,0:T(4,8)}"])
    builder.transpose("x", f"{dtype}[{after}]{out}", axes, name="y")
    return builder.graph()


def drawn(rng: Random) -> Graph:
    """Return a move of a tensor of one row in each pair or four of rows, in DRAM."""
    dtype, pairs = rng.choice([("bf16", "(2,1)"), ("s8", "(4,1)"), ("f16", "(2,1)")])
    dims = (rng.randint(1, 4), 1, rng.choice([8, 16, 24, 30]))
    order = rng.choice(["2,1,0", "2,1,0", "0,1,2"])
    builder = GraphBuilder("dram")
    text = f"{dtype}[{','.join(map(str, dims))}]{{{order}:T(8,8){pairs}}}"
    axes = tuple(rng.sample(range(3), 3))
    after = [dims[axis] for axis in axes]
    out = rng.choice(["{2,1,0}", "{0,1,2}", "{2,1,0:T(4,8)}"])
    builder.tensor("x", text)
    builder.transpose("x", f"{dtype}[{','.join(map(str, after))}]{out}", axes, name="y")
    return builder.graph()


@pytest.mark.parametrize("draw", [drawn, drawn_over_the_edge])
@pytest.mark.parametrize("seed", quick_first(range(30), 7))
def test_padding_that_is_brought_goes_nowhere(seed: int, draw: Callable[[Random], Graph]) -> None:
    """numpy is the oracle of values, the register engine that of cycles."""
    rng = Random(f"spaced {seed}")
    graph = draw(rng)
    chip = ideal_chip(
        8, 8,
        pe_array={"cycles_per_vector": rng.choice([{"bf16": 1}, {"bf16": 1, "f16": 1, "s8": 1}])},
        state_buffer={"partitions": 8, "banks": rng.choice([1, 8])},
        dma={
            "queues": rng.randint(1, 4), "latency_cycles": rng.choice([0, 50]),
            "descriptor_cycles": rng.choice([0, 20]),
        },
    )  # fmt: skip
    compile_graph("spaced", graph, chip, verify=True)
    shape = graph.shape("x")
    x = np.arange(shape.num_elements()).reshape(shape.dims).astype(shape.dtype)
    event, register = (
        systolic.run(graph, chip, {"x": x}, engine=engine) for engine in ("event", "register")
    )
    assert event.summary["values"]["equal"]
    assert register.summary["values"]["equal"]
    assert event.cycles == register.cycles >= event.summary["bound"]["cycles"]


def test_a_lone_row_of_each_pair_is_near_its_bound() -> None:
    """Element by element: 11,789,557 cycles."""
    builder = GraphBuilder("dram")
    builder.tensor("x", "bf16[1,16,256,256]{3,0,2,1:T(8,128)(2,1)}")
    builder.transpose("x", "bf16[256,16,1,256]", (3, 1, 0, 2), name="y")
    chip = load_chip(CHIPS / "multi_clock_128x128.toml")
    result = systolic.run(builder.graph(), chip, values=False)
    assert 1 <= result.cycles / result.summary["bound"]["cycles"] <= 15
