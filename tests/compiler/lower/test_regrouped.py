"""Reshapes between two operations: rows become other rows in few instructions, and right.

numpy is the oracle of values, the register engine that of cycles, the program checker of the order.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.tiers import quick_first
from systolic.compiler import compile_graph
from systolic.config import load_chip
from systolic.hw.spec import Chip
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder

IDEAL = load_chip(CHIPS / "ideal_128x128.toml")
WHOLE_ROWS, IN_ORDER = "by identity products of whole rows", "is brought from DRAM in its own order"


def chip(rng: Random) -> Chip:
    side = rng.choice([4, 8])
    return ideal_chip(
        side, side,
        state_buffer={"partitions": rng.choice([side, 16]), "banks": rng.choice([1, 8])},
        result_buffer={"banks": rng.randint(2, 4), "bank_bytes": 64},
        activation={"independent_lanes": rng.random() < 0.5},
        dma={"latency_cycles": rng.choice([0, 60]), "queues": rng.randint(1, 3)},
    )  # fmt: skip


def text(dtype: str, dims: list[int]) -> str:
    return f"{dtype}[{','.join(map(str, dims))}]"


def drawn(rng: Random) -> Graph:
    """Work, a permutation perhaps, a reshape that merges dimensions, and perhaps work again."""
    dtype = rng.choice(["f32", "bf16", "s8"])
    dims = [rng.choice([2, 3, 4, 6, 8]) for _ in range(rng.randint(3, 5))]
    builder = GraphBuilder("dram")
    now = builder.tensor("x", text(dtype, dims))
    if rng.random() < 0.6:
        now = builder.activation(now, out=text(dtype, dims), function="abs", name="first")
    if rng.random() < 0.7:
        order = rng.sample(range(len(dims)), len(dims))
        dims = [dims[axis] for axis in order]
        now = builder.transpose(now, text(dtype, dims), tuple(order), name="turned")
    at = rng.randrange(len(dims) - 1)
    dims = [*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :]]
    last = rng.random() < 0.3
    now = builder.reshape(now, out=text(dtype, dims), name="y" if last else "merged")
    if not last:
        builder.activation(now, out=text(dtype, dims), function="abs", name="y")
    return builder.graph()


@pytest.mark.parametrize("seed", quick_first(range(40), 10))
def test_random_reshapes_are_right_on_both_engines(seed: int) -> None:
    rng = Random(7700 + seed)
    graph, hardware = drawn(rng), chip(rng)
    shape = graph.shape("x")
    values = np.random.default_rng(seed).integers(-99, 100, shape.dims).astype(shape.dtype)
    compile_graph("reshape", graph, hardware, verify=True)
    event, register = (
        systolic.run(graph, hardware, {"x": values}, engine=engine)
        for engine in ("event", "register")
    )
    assert event.summary["values"]["equal"]
    assert register.summary["values"]["equal"]
    assert event.cycles == register.cycles
    assert event.cycles >= event.summary["bound"]["cycles"]


@pytest.mark.slow
def test_random_reshapes_go_every_way() -> None:
    found = " ".join(
        choice
        for seed in range(40)
        for rng in [Random(7700 + seed)]
        for choice in compile_graph("reshape", drawn(rng), chip(rng)).layers.choices
    )
    assert WHOLE_ROWS in found
    assert IN_ORDER in found


def test_groups_of_channels_become_channels_again() -> None:
    """[groups, pixels, 4] is turned to [pixels, groups and 4]: four matrices, not each element."""
    builder = GraphBuilder("dram")
    x = builder.tensor("x", "f32[256,32,4]")
    means = builder.reduce(x, out="f32[32]", reduction="mean", axes=(0, 2), name="means")
    apart = builder.binary(
        x, means, out="f32[256,32,4]", operator="subtract", broadcast_dimensions=(1,), name="apart"
    )
    again = builder.reshape(apart, out="f32[256,128]", name="again")
    builder.activation(again, out="f32[256,128]", function="ramp", name="y")
    graph, hardware = builder.graph(), IDEAL
    compiled = compile_graph("groups", graph, hardware, verify=True)
    assert any(WHOLE_ROWS in choice for choice in compiled.layers.choices)
    assert len(compiled.program.instructions) < 256
    values = np.random.default_rng(0).integers(-9, 10, (256, 32, 4)).astype(np.float32)
    result = systolic.run(graph, hardware, {"x": values})
    expected = np.maximum(values - values.mean(axis=(0, 2))[:, None], 0).reshape(256, 128)
    np.testing.assert_allclose(result.outputs["y"], expected, rtol=1e-6)


def test_windows_of_pixels_come_from_dram_as_rows() -> None:
    """[8, 7, 8, 7, C] with the middle axes exchanged: a tile's rows are few regular patterns."""
    builder = GraphBuilder("dram")
    x = builder.tensor("x", "bf16[8,7,8,7,96]")
    windows = builder.transpose(x, "bf16[8,8,7,7,96]", (0, 2, 1, 3, 4), name="windows")
    rows = builder.reshape(windows, out="bf16[3136,96]", name="rows")
    weights = builder.tensor("weights", "bf16[96,96]")
    builder.matmul(rows, weights, "f32[3136,96]", name="y")
    compiled = compile_graph("windows", builder.graph(), IDEAL, verify=True)
    assert any(IN_ORDER in choice for choice in compiled.layers.choices)


def test_rows_of_a_product_in_several_tiles_are_put_side_by_side_first() -> None:
    """The view is that of whole rows, but the product makes its 40 columns in tiles of 12."""
    builder = GraphBuilder("dram")
    weights = builder.tensor("w", "u8[1,7,2]{1,2,0}")
    moving = builder.tensor("x", "u8[2,2,20]{0,1,2:T(4,8)}")
    made = builder.matmul(weights, moving, "u8[2,7,20]{1,0,2:T(2,2)(2,1)}", name="made")
    builder.reshape(made, out="u8[14,20,1]{2,0,1:T(2,2)(2,1)}", name="y")
    slow = {"min_interval_cycles": 4}
    hardware = ideal_chip(
        1, 7, state_buffer={"partitions": 12}, result_buffer={"banks": 2, "bank_bytes": 108},
        dma={"latency_cycles": 100, "queues": 4}, activation=slow, pooling=slow,
    )  # fmt: skip
    rng = np.random.default_rng(5)
    sides = {"w": (1, 7, 2), "x": (2, 2, 20)}
    inputs = {name: rng.integers(0, 9, side, np.uint8) for name, side in sides.items()}
    expected = (inputs["w"] @ inputs["x"]).reshape(14, 20, 1)
    for engine in ("event", "register"):
        run = systolic.run(builder.graph(), hardware, inputs, engine=engine)
        assert np.array_equal(run.outputs["y"], expected)
    assert any(WHOLE_ROWS in each for each in run.compiled.layers.choices)
