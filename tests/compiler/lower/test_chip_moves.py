"""Permutations of small matrices on the chip: all of them together, in few instructions.

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
from support.packed import run
from systolic.compiler import compile_graph
from systolic.config import load_chip
from systolic.isa import Copy
from systolic.layout import Shape
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder, Tensor, TransposeAttributes
from systolic.workload.options import Options


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


def test_the_printed_places_give_the_same_run() -> None:
    graph, hardware = permuted("bf16[6,5,7]", (2, 1, 0), "bf16[7,5,6]"), chip(Random(1))
    inputs = {"x": random_values(Random(2), graph.shape("x"))}
    before = systolic.run(graph, hardware, inputs)
    builder = GraphBuilder(home="state_buffer")
    x, y = (before.summary["on_chip"][name] for name in ("x", "y"))
    there, made = (
        Tensor(Shape.parse(home["layout"]), "state_buffer", home["partition"], home["byte"])
        for home in (x, y)
    )
    builder.tensor("x", there)
    builder.transpose("x", made, (2, 1, 0), name="y")
    after = systolic.run(builder.graph(), hardware, inputs)
    assert np.array_equal(before.outputs["y"], after.outputs["y"])
    assert before.cycles == after.cycles


def test_lanes_that_keep_their_elements_need_an_instruction_for_each_quarter() -> None:
    # Reversed, element (i, j, k) stays in lane j: 32 * 96 of them in each, one in a cycle of each
    # of two engines, and the copy's latency of 1 behind the last.
    graph = permuted("s8[32,64,96]", (2, 1, 0), "s8[96,64,32]")
    hardware = load_chip(CHIPS / "ideal_128x128.toml")
    assert len(compile_graph("reversed", graph, hardware).program.instructions) == 4
    assert systolic.run(graph, hardware, values=False).cycles == 32 * 96 // 2 + 1


def reshaped(rng: Random) -> Graph:
    """Return a reshape that joins or cuts neighbours, with any order before and after."""
    dims = [rng.randint(2, 6) for _ in range(rng.randint(3, 4))]
    at = rng.randrange(len(dims) - 1)
    after = [*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :]]
    ends = [dims, after] if rng.random() < 0.5 else [after, dims]
    dtype = rng.choice(["f32", "bf16", "s8", "u8", "s32"])
    texts = []
    for sizes in ends:
        order = ",".join(map(str, rng.sample(range(len(sizes)), len(sizes))))
        texts.append(f"{dtype}[{','.join(map(str, sizes))}]{{{order}}}")
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", texts[0])
    builder.add("reshape", ("x",), texts[1], name="y")
    return builder.graph()


@pytest.mark.parametrize("seed", range(60))
def test_reshapes_put_elements_right_on_both_engines(seed: int) -> None:
    rng = Random(9500 + seed)
    graph, hardware = reshaped(rng), chip(rng)
    inputs = {"x": random_values(rng, graph.shape("x"))}
    compile_graph("reshaped", graph, hardware, verify=True)
    run_on_both_engines(graph, hardware, inputs)


def test_a_reshape_that_keeps_lanes_needs_copies_alone() -> None:
    # Of s32[4,12,7,9] lane (i, j) has 63 elements, which [48,7,9] wants column by column.
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", "s32[4,12,7,9]")
    builder.add("reshape", ("x",), "s32[48,7,9]{1,2,0}", name="y")
    hardware = load_chip(CHIPS / "ideal_128x128.toml")
    program = compile_graph("reshaped", builder.graph(), hardware).program
    assert {type(each) for each in program.instructions} == {Copy}
    assert {each.source.partitions for each in program.instructions} == {48}
    assert systolic.run(builder.graph(), hardware, values=False).cycles <= 7 * 9 + 1


@pytest.mark.parametrize("rows", [200, 256, 384])
def test_more_rows_than_partitions_keep_their_lanes(rows: int) -> None:
    # Row r is in partition r mod 128 before and after: engines copy, and at most once a tile.
    hardware = load_chip(CHIPS / "ideal_128x128.toml")
    graph = permuted(f"f32[3,{rows},5]", (0, 1, 2), f"f32[3,{rows},5]{{0,2,1}}")
    compiled = compile_graph("tall", graph, hardware, verify=True)
    kinds = compiled.program.count()
    assert {*kinds} == {"Copy"}
    assert kinds["Copy"] <= 3 * -(-rows // 128)
    inputs = {"x": random_values(Random(rows), graph.shape("x"))}
    assert systolic.run(graph, hardware, inputs).summary["values"]["equal"]


@pytest.mark.parametrize(
    ("graph", "chip", "alone", "engines"),
    [
        # 3,072 elements in each of 64 lanes.
        (
            permuted("s8[32,64,96]", (2, 1, 0), "s8[96,64,32]"), "ideal_128x128",
            32 * 96, {"activation", "pooling"},
        ),
        # 32 copies of 64 bytes in each of 128 lanes are one.
        (
            permuted("s8[4,8,128,64]", (0, 2, 3, 1), "s8[4,128,64,8]"), "ideal_128x128",
            4 * 8 * 64, {"activation", "pooling"},
        ),
        # Three tiles of 16 x 96 words.
        (
            permuted("s32[16,384,96]", (1, 0, 2), "s32[384,16,96]"), "patent_128x64",
            3 * 16 * 96, {"activation", "pooling"},
        ),
        # 32 columns of 160 elements, each of two cycles of the array for the faster engine.
        (
            permuted("f16[2,16,256,80]", (3, 2, 1, 0), "f16[80,256,16,2]{2,3,0,1}"),
            "multi_clock_128x128", 2 * 32 * 160, {"activation", "pooling"},
        ),
        # Elements 31 words apart take each engine two cycles or more.
        (
            permuted("s32[31,8,32]", (2, 1, 0), "s32[32,8,31]"), "neuroncore_v4",
            2 * 31 * 32, {"gpsimd", "vector", "scalar"},
        ),
    ],
)  # fmt: skip
def test_engines_take_their_parts_of_one_copy(graph, chip, alone, engines) -> None:
    """So they are done before one engine alone has taken all elements of a lane."""
    result = systolic.run(graph, chip)
    assert {each.engine for each in result.program.instructions} == engines
    assert result.cycles < alone
    hardware = load_chip(CHIPS / f"{chip}.toml")
    _, inputs, outputs = run(graph, hardware)
    (op,) = graph.operations
    axes = op.attributes_as(TransposeAttributes).axes
    np.testing.assert_array_equal(outputs["y"], inputs["x"].transpose(axes))


def test_the_engine_that_the_user_names_makes_all_copies() -> None:
    graph = permuted("s8[32,64,96]", (2, 1, 0), "s8[96,64,32]")
    options = Options(drain_engine="pooling")
    program = compile_graph("moved", graph, load_chip(CHIPS / "hbm3_128x128.toml"), options).program
    assert {each.engine for each in program.instructions if isinstance(each, Copy)} == {"pooling"}
