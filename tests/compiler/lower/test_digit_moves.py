"""Moves on the chip from tiles or to tiles, by the digits of their places.

numpy is the oracle of values, the register engine that of cycles, the program checker of the order.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.chips import ideal_chip
from systolic.compiler import CompiledGraph, compile_graph
from systolic.compiler.lower.moves import digit_moves
from systolic.config import load_chip
from systolic.errors import CompileError
from systolic.hw.spec import Chip
from systolic.isa import Copy, LoadWeights
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder

TILES = ("T(2,4)", "T(2,8)", "T(4,8)(2,1)", "T(4,8)(4,1)", "T(8,8)(4,1)", "T(2,3)", "T(4,4)(2,2)")
SEEDS = (0, 3, 6, 7, 10, 12, 14, 20, 24, 29, 33, 34, 35, 36, 37, 38, 40, 41, 42, 44)
"""Of moves for which views are not cheaper."""
BETWEEN = "from place to place on the chip"


def text(rng: Random, dtype: str, dims: list[int], *, tiled: bool) -> str:
    order = ",".join(map(str, rng.sample(range(len(dims)), len(dims))))
    tiles = ":" + rng.choice(TILES) if tiled else ""
    return f"{dtype}[{','.join(map(str, dims))}]{{{order}{tiles}}}"


def transposed_or_joined(
    rng: Random,
    builder: GraphBuilder,
    dtype: str,
    dims: list[int],
    tiled: tuple[bool, bool],
    transposes: float = 0.5,
) -> None:
    """Add a transpose, or a reshape that joins two dimensions, whose ends may have tiles."""
    builder.tensor("x", text(rng, dtype, dims, tiled=tiled[0]))
    if rng.random() < transposes:
        axes = tuple(rng.sample(range(len(dims)), len(dims)))
        out = text(rng, dtype, [dims[axis] for axis in axes], tiled=tiled[1])
        builder.transpose("x", out, axes, name="y")
    else:
        at = rng.randrange(len(dims) - 1)
        joined = [*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :]]
        builder.add("reshape", ("x",), text(rng, dtype, joined, tiled=tiled[1]), name="y")


def drawn(rng: Random) -> Graph:
    """Return a move of two to four dimensions, from tiles or to tiles."""
    rank, dtype = rng.randint(2, 4), rng.choice(["f32", "bf16", "s8", "u8", "s32"])
    dims = [rng.randint(1, 9) for _ in range(rank)]
    before, after = rng.choice([(True, False), (False, True), (True, True)])
    builder = GraphBuilder(home="state_buffer")
    transposed_or_joined(rng, builder, dtype, dims, (before, after))
    return builder.graph()


def small_chip(rng: Random) -> Chip:
    return ideal_chip(
        rng.choice([4, 8]), rng.choice([4, 8]),
        state_buffer={"partitions": rng.choice([8, 16]), "banks": rng.choice([1, 8])},
        result_buffer={"banks": rng.randint(2, 4), "bank_bytes": 64},
        activation={"independent_lanes": rng.random() < 0.5},
    )  # fmt: skip


def by_digits(compiled: CompiledGraph) -> bool:
    return any(BETWEEN in choice for choice in compiled.layers.choices)


@pytest.mark.parametrize("seed", SEEDS)
def test_moves_from_tiles_and_to_tiles_are_right_on_both_engines(seed: int) -> None:
    rng = Random(seed)
    graph, chip = drawn(rng), small_chip(rng)
    inputs = {"x": random_values(rng, graph.shape("x"))}
    if inputs["x"].dtype.kind not in "iu":
        inputs["x"].reshape(-1)[::5] = -0.0  # products with an identity lose the sign
    assert by_digits(compile_graph("moved", graph, chip, verify=True))
    run_on_both_engines(graph, chip, inputs)


def test_rows_that_go_up_a_partition_and_back_by_columns_are_no_digit() -> None:
    rng = Random(5038)
    graph = drawn(rng)
    assert str(graph.shape("y")) == "s32[2,8,21]{0,2,1:T(8,8)(4,1)}"
    compile_graph("moved", graph, small_chip(rng), verify=True)


def reshaped(source: str, out: str) -> Graph:
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", source)
    builder.add("reshape", ("x",), out, name="y")
    return builder.graph()


@pytest.mark.parametrize(
    ("source", "out", "cycles", "instructions"),
    [
        # 4 rows share a partition: every fourth one of 512, with 64 columns, is turned at once
        (
            "s8[512,64]{1,0:T(8,128)(4,1)}", "s8[512,8,8]{0,1,2}", 895,
            {"Copy": 4, "LoadWeights": 4, "MatMul": 4},
        ),
        # each row stays in its lane: one copy of 4 x 8 x 16 elements
        (
            "s32[4,8,56,16]{3,2,1,0:T(8,128)}", "s32[32,56,16]{0,2,1}", 513,
            {"Copy": 1},
        ),
    ],
)  # fmt: skip
def test_few_instructions_move_all_elements(
    source: str, out: str, cycles: int, instructions: dict[str, int]
) -> None:
    result = systolic.run(reshaped(source, out), "ideal_128x128")
    assert (result.cycles, result.program.count()) == (cycles, instructions)


def test_a_tensor_whose_place_is_given_in_tiles_keeps_it() -> None:
    """The printed places of a tensor without tiles, given as tiles, are the same run."""
    graph = reshaped("s8[512,64]{1,0:T(8,128)(4,1)}", "s8[512,8,8]{0,1,2}")
    chip = load_chip(CHIPS / "ideal_128x128.toml")
    inputs = {"x": random_values(Random(1), graph.shape("x"))}
    before = systolic.run(graph, chip, inputs)
    builder = GraphBuilder(home="state_buffer")
    shapes = {home.tensor: home.shape for home in before.compiled.layers.homes}
    builder.tensor("x", shapes["x"])
    builder.add("reshape", ("x",), shapes["y"], name="y")
    after = systolic.run(builder.graph(), chip, inputs)
    assert after.summary["values"]["equal"]
    np.testing.assert_array_equal(after.outputs["y"], before.outputs["y"])


def test_a_result_whose_tiles_take_more_than_a_partition_is_refused_at_once() -> None:
    graph = reshaped("bf16[512,4096]", "bf16[32,16,4096]{2,1,0:T(8,128)(2,1)}")
    with pytest.raises(CompileError) as caught:
        compile_graph("moved", graph, load_chip(CHIPS / "neuroncore_v1.toml"))
    assert str(caught.value) == (
        "state_buffer of neuroncore-v1-like has no room for y: in its tiles "
        "bf16[32,16,4096]{2,1,0:T(8,128)(2,1)} takes 524288 bytes of each of 8 partitions, "
        "found 65536"
    )


def product(rng: Random) -> Graph:
    """Return a batched product whose operands lie in tiles."""
    batch, rows, inner, cols = (rng.randint(2, 7) for _ in range(4))
    dtype = rng.choice(["f32", "bf16"])
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", text(rng, dtype, [batch, rows, inner], tiled=True))
    builder.tensor("w", text(rng, dtype, [batch, inner, cols], tiled=True))
    builder.matmul("x", "w", f"f32[{batch},{rows},{cols}]", name="y")
    return builder.graph()


@pytest.mark.parametrize(
    ("rows", "columns", "apart"),
    [
        (512, 128, True),  # 128 of 4096 columns, each 32 behind the one before, are turned at once
        (128, 256, False),  # 32 columns take an engine no less time than 64
    ],
)
def test_matrices_are_cast_one_by_one_where_each_is_long(
    rows: int, columns: int, *, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first matrix is turned before the second is cast, or all columns are cast in order."""
    monkeypatch.setattr(digit_moves, "places_beside", lambda *_: ([], []))  # or nothing is turned
    builder = GraphBuilder(home="state_buffer")
    dims = f"u8[1,8,{rows},{columns}]"
    builder.tensor("x", f"{dims}{{1,2,3,0}}")
    builder.add("relayout", ("x",), f"{dims}{{3,2,1,0:T(8,128)(4,1)}}", name="y")
    inputs = {"x": random_values(Random(2), builder.graph().shape("x"))}
    result = systolic.run(builder.graph(), "neuroncore_v2", inputs)
    assert result.summary["values"]["equal"]
    code = result.program.instructions
    casts, loads = (
        [t for t in result.trace.times if of(code[t.instruction])]
        for of in (
            lambda each: isinstance(each, Copy) and each.target.dtype == "bf16",
            lambda each: isinstance(each, LoadWeights),
        )
    )
    second = casts[1].done
    assert (loads[0].start < second) == apart
    assert (len(casts) == len(loads)) == apart


def test_turns_that_are_little_cheaper_by_estimate_are_made() -> None:
    """Work 227 of `benchmarks/bench_moves.py`: 2% cheaper by estimate, a quarter in truth."""
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", "s32[3,3,128,128]{3,2,1,0:T(8,128)}")
    builder.add("relayout", ("x",), "s32[3,3,128,128]{2,1,3,0}", name="y")
    result = systolic.run(builder.graph(), "multi_clock_128x128", values=False)
    assert result.compiled is not None
    assert by_digits(result.compiled)
    assert result.cycles == 10786
