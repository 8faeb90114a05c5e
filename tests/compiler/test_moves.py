"""Moves from DRAM to DRAM: what is a move, the ways of it, and the table of docs/moves.md.

numpy is the oracle of the values, the register engine that of the cycles, the program checker that
of the order; where an element lies is asked of `Shape.linear_index`, element by element.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from compiler.test_graph_values import random_values
from support.both_engines import run_on_both_engines
from support.chips import ideal_chip
from support.tiers import quick_first
from systolic.compiler import compile_graph
from systolic.config import load_chip
from systolic.hw.spec import Chip
from systolic.layout import Shape
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder

TYPES = ("f32", "bf16", "f16", "s8", "u8", "s32")


def chip(rng: Random, **tables):
    return ideal_chip(
        rng.randint(2, 9), rng.randint(2, 9), **tables,
        state_buffer={"partitions": rng.randint(9, 16), "banks": rng.choice([1, 8])},
        result_buffer={"banks": rng.randint(2, 4), "bank_bytes": 64},
        activation={"independent_lanes": rng.random() < 0.5},
        dma={"queues": rng.randint(1, 4), "latency_cycles": rng.choice([0, 5, 50])},
    )  # fmt: skip


def tiled(rng: Random, dims: list[int], *, gaps: bool = False) -> str:
    """Return a layout: an order, and now and then tiles that divide what they cut.

    gaps: there are always tiles, and they may stand over the edges.
    """
    order = list(range(len(dims)))
    rng.shuffle(order)
    text = ",".join(map(str, order))
    tiles = ""
    if gaps:
        pairs = rng.choice(["", "(2,1)", "(4,1)"])
        tiles = f":T({rng.choice([1, 2, 4, 8])},{rng.choice([2, 3, 5, 8, 16])}){pairs}"
    elif rng.random() < 0.5:
        rows, cols = dims[order[1]], dims[order[0]]
        row = rng.choice([d for d in range(1, rows + 1) if rows % d == 0])
        col = rng.choice([d for d in range(1, cols + 1) if cols % d == 0])
        tiles = f":T({row},{col})" + ("(2,1)" if row % 2 == 0 and rng.random() < 0.5 else "")
    return "{" + text + tiles + "}"


def random_move(
    rng: Random, *, gaps: bool = False
) -> tuple[Graph, tuple[int, ...] | None]:  # fmt: skip
    """Return a graph of one reshape, relayout or transpose in DRAM, and its permutation.

    gaps: the source, the result, or both have tiles over their edges.
    """
    ends = rng.choice([(True, False), (False, True), (True, True)]) if gaps else (False, False)
    dims = [
        rng.choice([1, 2, 3, 4, 6, 8, *([5, 7, 9, 13] if gaps else [])])
        for _ in range(rng.randint(2, 4))
    ]
    dtype = rng.choice(TYPES)
    builder = GraphBuilder(home="dram")
    builder.tensor("x", f"{dtype}[{','.join(map(str, dims))}]{tiled(rng, dims, gaps=ends[0])}")
    kind = rng.choice(["reshape", "relayout", "transpose"])
    permutation: tuple[int, ...] | None = None
    after = list(dims)
    if kind == "reshape":
        after = [dims[0] * dims[1], *dims[2:]] if rng.random() < 0.5 else [*dims[:-1], 1, dims[-1]]
    elif kind == "transpose":
        permutation = tuple(rng.sample(range(len(dims)), len(dims)))
        after = [dims[axis] for axis in permutation]
    layout = tiled(rng, after, gaps=ends[1]) if len(after) > 1 else ""
    out = f"{dtype}[{','.join(map(str, after))}]{layout}"
    if kind == "transpose":
        builder.transpose("x", out, permutation, name="y")
    else:
        builder.add(kind, ("x",), out, name="y")
    return builder.graph(), permutation


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("seed", quick_first(range(40), 10))
def test_random_moves_equal_numpy_on_both_engines_in_the_same_cycles(
    seed: int, gaps: bool
) -> None:  # fmt: skip
    rng = Random(seed)
    graph, _ = random_move(rng, gaps=gaps)
    hardware = chip(rng)
    inputs = {"x": random_values(rng, graph.shape("x"))}
    compile_graph("move", graph, hardware, verify=True)
    event, register = (
        systolic.run(graph, hardware, inputs, engine=engine) for engine in ("event", "register")
    )
    assert event.summary["values"]["equal"]
    assert register.summary["values"]["equal"]
    assert event.cycles == register.cycles
    assert event.cycles >= event.summary["bound"]["cycles"]


@pytest.mark.parametrize("seed", quick_first(range(16), 5))
def test_small_integers_are_turned_as_another_type_that_has_all_of_them(seed: int) -> None:
    rng = Random(3000 + seed)
    dtype, home = rng.choice(["s8", "u8"]), rng.choice(["dram", "state_buffer"])
    rows, cols = rng.randint(2, 30), rng.randint(2, 30)
    builder = GraphBuilder(home=home)
    builder.tensor("x", f"{dtype}[{rows},{cols}]{{0,1}}")
    builder.add("relayout", ("x",), f"{dtype}[{rows},{cols}]{{1,0}}", name="y")
    graph = builder.graph()
    hardware = chip(rng, pe_array={"cycles_per_vector": {rng.choice(["bf16", "f16", "f32"]): 1}})
    limits = np.iinfo(graph.shape("x").dtype)
    every = np.arange(limits.min, limits.max + 1)
    inputs = {"x": np.resize(every, (rows, cols)).astype(limits.dtype)}
    compile_graph("turned", graph, hardware, verify=True)
    event, register = (
        systolic.run(graph, hardware, inputs, engine=engine) for engine in ("event", "register")
    )
    assert np.array_equal(event.outputs["y"], inputs["x"])
    assert event.summary["values"]["equal"]
    assert register.summary["values"]["equal"]
    assert event.cycles == register.cycles
    assert event.cycles >= event.summary["bound"]["cycles"]


def test_eight_bits_on_a_chip_that_takes_none_go_through_the_array() -> None:
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", "s8[100,1280]{0,1}")
    builder.add("relayout", ("x",), "s8[100,1280]{1,0}", name="y")
    result = systolic.run(builder.graph(), "multi_clock_128x128", values=False)
    # Ten tiles of 128 x 100 are cast at 100 and copied out at 128 elements of each lane, at half
    # the array's clock; element by element, by DMA, it took 2,273,603 cycles.
    # Each tile is copied out in halves, so that neither engine waits for the other: 4,028 whole.
    assert 2 * 10 * 128 < result.cycles <= 4000


def of_bytes(size: int) -> Chip:
    """Return the ideal chip with partitions of so many bytes."""
    whole = load_chip(CHIPS / "ideal_128x128.toml")
    buffer = whole.state_buffer.model_copy(update={"bytes_per_partition": size})
    return whole.model_copy(update={"state_buffer": buffer})


def moved(kind: str, source: str, out: str, permutation: tuple[int, ...] | None = None) -> Graph:
    builder = GraphBuilder(home="dram")
    builder.tensor("x", source)
    if kind == "transpose":
        builder.transpose("x", out, permutation, name="y")
    else:
        builder.add(kind, ("x",), out, name="y")
    return builder.graph()


def product(left: str, right: str, out: str) -> Graph:
    builder = GraphBuilder(home="dram")
    builder.tensor("x", left)
    builder.tensor("w", right)
    builder.matmul("x", "w", out, name="y")
    return builder.graph()


# Graph, chip, and the cycles that are wanted at most.
TABLE = {
    "same bytes": (
        moved("reshape", "f32[128,128]", "f32[128,2,64]"),
        "ideal_128x128", 1000,
    ),
    "turned, then other dimensions": (
        moved("reshape", "f32[1024,960]{0,1}", "f32[1024,12,80]"),
        "multi_clock_128x128", 160_000,
    ),
    "tiles of TPUs to rows": (
        moved("relayout", "bf16[1024,1024]{1,0:T(8,128)(2,1)}", "bf16[1024,1024]"),
        "ideal_128x128", 15_000,
    ),
    "NHWC to NCHW": (
        moved("transpose", "bf16[8,56,56,64]", "bf16[8,64,56,56]", (0, 3, 1, 2)),
        "ideal_128x128", 20_000,
    ),
    "runs of 14 bytes": (
        moved("relayout", "s8[1,14,56,12]{1,3,0,2}", "s8[1,14,56,12]{0,1,2,3}"),
        "ddr4_128x128", 6000,
    ),
    "batch of which one operand lies column by column": (
        product("bf16[16,64,80]", "bf16[16,80,64]{0,2,1}", "f32[16,64,64]"),
        "ideal_128x128", 9000,
    ),
    "batch between rows and columns, and minor-most": (
        product("s8[16,197,80]{2,0,1}", "s8[16,80,197]{0,1,2}", "s32[16,197,197]"),
        "ideal_128x128", 22_000,
    ),
    "batch between rows and columns, result column by column": (
        product("f32[16,128,80]{2,0,1}", "f32[16,80,128]{0,2,1}", "f32[16,128,128]{0,2,1}"),
        "ideal_128x128", 13_000,
    ),
    "many small matrices": (
        product("bf16[96,197,64]", "bf16[96,64,197]{2,0,1}", "f32[96,197,197]"),
        "ideal_128x128", 90_000,
    ),
    "many small matrices, batch of the result minor-most": (
        product("bf16[96,197,64]", "bf16[96,64,197]", "f32[96,197,197]{0,2,1}"),
        "ideal_128x128", 90_000,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_moves_of_the_table_are_no_faster_than_their_bound_and_as_fast_as_wanted(
    name: str,
) -> None:
    graph, hardware, wanted = TABLE[name]
    result = systolic.run(graph, hardware, values=False)
    assert result.summary["bound"]["cycles"] <= result.cycles
    assert result.cycles <= wanted


def test_bytes_that_stay_are_copied_by_dma_and_by_nothing_else() -> None:
    graph = moved("reshape", "f32[128,128]", "f32[128,2,64]")
    compiled = compile_graph("same", graph, load_chip(CHIPS / "ideal_128x128.toml"))
    assert {i.queue for i in compiled.program.instructions} <= {f"dma{n}" for n in range(4)}
    # 64 KiB are read and written at DRAM's 820 bytes in a cycle: 160 for both ways, behind 600 + 42
    # of latency and 7 for the descriptor.
    assert systolic.run(graph, "ideal_128x128", values=False).cycles in range(808, 812)


@pytest.mark.parametrize(
    "graph",
    [
        product("bf16[96,197,64]", "bf16[96,64,197]", "f32[96,197,197]{0,2,1}"),
        moved("relayout", "bf16[56,14,14,64]", "bf16[56,14,14,64]{2,1,3,0}"),
    ],
)
def test_large_moves_are_few_instructions(graph: Graph) -> None:
    compiled = compile_graph("large", graph, load_chip(CHIPS / "ideal_128x128.toml"))
    assert len(compiled.program.instructions) < 3000


def test_tiles_that_all_have_room_are_moved_in_whole_runs() -> None:
    # Ten rows of 1,024 elements in each of 128 partitions fill more than an eighth of a partition,
    # but they fit with the result, of which eight rows of 1,280 are in each: whole runs both ways.
    graph, hardware = moved("relayout", "s8[1280,1024]", "s8[1280,1024]{0,1}"), of_bytes(32768)
    runs = systolic.run(graph, hardware, values=False).summary["transfers"]["runs"]
    assert [(run["bytes"], run["count"]) for run in runs] == [(10240, 256)]
    values = {"x": random_values(Random(1), graph.shape("x"))}
    assert systolic.run(graph, hardware, values).summary["values"]["equal"]


def test_tiles_are_cut_in_the_middle_of_a_factor_where_the_stages_last_long() -> None:
    # [96, 8192] has two factors. A tile has the middle part of the result's rows on partitions: its
    # runs are long on both sides, and it is cast while another one is turned.
    builder = GraphBuilder(home="dram")
    builder.tensor("x", "s8[1024,8,96]{0,1,2}")
    builder.add("relayout", ("x",), Shape.parse("s8[1024,8,96]{2,0,1}"), name="y")
    graph = builder.graph()
    result = systolic.run(graph, "neuroncore_v3", {"x": random_values(Random(1), graph.shape("x"))})
    assert result.summary["values"]["equal"]
    assert result.summary["transfers"]["copies"] > 2
    # One tile takes 28,000 for its casts, turns and copies out, behind and before its copies.
    assert result.cycles < 35_000


@pytest.mark.parametrize("dims", [(2, 3, 13, 13), (3, 13, 11), (2, 2, 17, 17)])
def test_rows_of_a_prime_number_are_turned_in_several_tiles_of_rows(dims) -> None:
    # No part of 13 rows fits 8 partitions, so tiles of 8 and of 5 rows are turned.
    lay = ",".join(map(str, (len(dims) - 2, 0, len(dims) - 1, *range(1, len(dims) - 2))))
    text = f"s8[{','.join(map(str, dims))}]"
    graph = moved("relayout", text, f"{text}{{{lay}}}")
    hardware = ideal_chip(
        8, 8, state_buffer={"partitions": 8, "bytes_per_partition": 4096},
        dma={"queues": 2, "latency_cycles": 5, "descriptor_cycles": 7},
    )  # fmt: skip
    inputs = {"x": random_values(Random(sum(dims)), graph.shape("x"))}
    compile_graph("move", graph, hardware, verify=True)
    run_on_both_engines(graph, hardware, inputs)


def test_a_byte_that_is_copied_in_dram_passes_its_engine_once() -> None:
    graph = moved("reshape", "bf16[262144]", "bf16[32768,8]")
    result = systolic.run(graph, "multi_clock_128x128", values=False)
    # Two queues of 272 bytes in a cycle of 1 GHz take 964 for half of 512 KiB each, and DRAM of
    # 820 takes 1,279 for both ways, behind 642 of latency: 1,921 at 2.8 GHz.
    assert result.summary["bound"]["cycles"] == 5379
    assert 5379 <= result.cycles < 5450


def order(rng: Random, rank: int) -> str:
    return "{" + ",".join(map(str, rng.sample(range(rank), rank))) + "}"


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("seed", quick_first(range(12), 4))
def test_batches_that_lie_in_any_order_are_multiplied_right_on_both_engines(
    seed: int, gaps: bool
) -> None:  # fmt: skip
    rng = Random(5000 + seed)
    batch, M, K, N = rng.randint(1, 5), *(rng.randint(1, 20) for _ in range(3))
    dtype, total = rng.choice([("f32", "f32"), ("bf16", "f32"), ("s8", "s32")])
    left, right = (batch, M, K), (batch, K, N)
    layouts = [tiled(rng, [*dims], gaps=True) if gaps else order(rng, 3) for dims in (left, right)]
    graph = product(
        f"{dtype}[{batch},{M},{K}]{layouts[0]}",
        f"{dtype}[{batch},{K},{N}]{layouts[1]}",
        f"{total}[{batch},{M},{N}]{order(rng, 3)}",
    )
    hardware = chip(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in ("x", "w")}
    compile_graph("product", graph, hardware, verify=True)
    run_on_both_engines(graph, hardware, inputs)


# Moves and a product between tiles that stand over edges, or of the same bytes in DRAM with rows:
# graph, chip, and at most how many times the bound.
GAPPED = {
    "tiles of 128 over a dimension of 16": (
        moved("relayout", "s8[16,28,28,96]{0,2,1,3:T(8,128)(4,1)}", "s8[16,28,28,96]"),
        "ideal_128x128", 6,
    ),
    "a part of the last tile": (
        moved("transpose", "s8[768,1000]{1,0:T(8,128)(4,1)}", "s8[1000,768]", (1, 0)),
        "neuroncore_v1", 2,
    ),
    "tiles before and after": (
        moved("transpose", "u8[16,128,28,28]{1,3,2,0:T(8,128)(4,1)}",
              "u8[128,16,28,28]{3,2,1,0:T(8,128)(4,1)}", (1, 0, 3, 2)),
        "multi_clock_128x128", 7,
    ),
    "a batch of 8 in tiles of 128": (
        product("f16[8,96,512]{0,1,2}", "f16[8,512,256]{0,2,1:T(8,128)(2,1)}", "f32[8,96,256]"),
        "neuroncore_v2", 7,
    ),
    "a result in tiles of pairs of rows": (
        product("f16[8,96,96]", "f16[8,96,384]{1,0,2}", "f16[8,96,384]{1,0,2:T(8,128)(2,1)}"),
        "ideal_128x128", 6,
    ),
    "an operand in tiles of pairs of rows without a gap": (
        product("f16[12,197,128]{1,2,0}", "f16[12,128,384]{2,1,0:T(8,128)(2,1)}",
                "f16[12,197,384]{0,1,2}"),
        "multi_clock_128x128", 7,
    ),
    "same bytes in DRAM with rows": (
        moved("reshape", "s32[3,3,128,128]", "s32[3,3,16384]"), "hbm3_128x128", 1.2,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", GAPPED)
def test_moves_between_tiles_with_gaps_are_near_their_bounds(name: str) -> None:
    graph, hardware, most = GAPPED[name]
    result = systolic.run(graph, hardware, values=False)
    assert 1 <= result.cycles / result.summary["bound"]["cycles"] <= most


def result_in_tiles(seed: int) -> tuple[Graph, Chip]:
    """Return a product or work of engines whose result lies in tiles in DRAM."""
    rng = Random(6000 + seed)
    builder = GraphBuilder("dram")
    batch, (M, K, N) = rng.randint(1, 3), (rng.choice([5, 16, 24, 32]) for _ in range(3))
    pairs = ["{2,1,0:T(8,16)(2,1)}", "{1,2,0:T(8,8)(4,1)}", "{1,2,0:T(8,16)(2,1)}"]
    tiles = rng.choice([*pairs, tiled(rng, [batch, M, N], gaps=True)])
    if rng.random() < 0.7:
        builder.tensor("x", f"bf16[{batch},{M},{K}]{order(rng, 3)}")
        builder.tensor("w", f"bf16[{batch},{K},{N}]{order(rng, 3)}")
        builder.matmul("x", "w", f"{rng.choice(['f32', 'bf16'])}[{batch},{M},{N}]{tiles}", name="y")
    else:
        builder.tensor("x", f"f32[{batch},{M},{N}]{order(rng, 3)}")
        out = f"f32[{batch},{M},{N}]{tiles}"
        builder.add("activation", ("x",), out, name="y", function="ramp")
    return builder.graph(), chip(rng)


@pytest.mark.parametrize("seed", quick_first(range(24), 6))
def test_results_in_tiles_are_right_on_both_engines(seed: int) -> None:
    graph, hardware = result_in_tiles(seed)
    inputs = {name: random_values(Random(seed), graph.shape(name)) for name in graph.inputs}
    compile_graph("tiles", graph, hardware, verify=True)
    event, register = (
        systolic.run(graph, hardware, inputs, engine=engine) for engine in ("event", "register")
    )
    assert event.summary["values"]["equal"]
    assert register.summary["values"]["equal"]
    assert event.cycles == register.cycles >= event.summary["bound"]["cycles"]


LANE_WORK = ("activation", "binary", "reduce", "softmax")


def add_lane_work(rng: Random, builder: GraphBuilder, work: tuple[str, str, tuple[int, ...]]):
    """Add work of engines on a tensor of three dimensions."""
    (kind, of, dims), axis = work, rng.randrange(3)
    out = f"f32[{','.join(map(str, dims))}]{order(rng, 3)}"
    if kind == "activation":
        builder.add(kind, (of,), out, name="z", function="ramp")
    elif kind == "softmax":
        builder.add(kind, (of,), out, name="z", axis=axis)
    elif kind == "binary":
        builder.tensor("c", f"{'bf16' if of == 'x' else 'f32'}[{dims[axis]}]", "dram")
        given = {"operator": "multiply", "broadcast_dimensions": (axis,)}
        builder.add(kind, (of, "c"), out, name="z", **given)
    else:
        left = [str(size) for place, size in enumerate(dims) if place != axis]
        given = {"reduction": "max", "axes": (axis,)}
        builder.add(kind, (of,), f"f32[{','.join(left)}]{order(rng, 2)}", name="z", **given)


def followed(rng: Random) -> Graph:
    """Return a batched product in DRAM, and other work on an operand or on the result."""
    batch, M, K, N = (rng.randint(2, 6) for _ in range(4))
    builder = GraphBuilder(home=rng.choice(["dram", "state_buffer"]))
    builder.tensor("x", f"bf16[{batch},{M},{K}]{order(rng, 3)}", "dram")
    builder.tensor("w", f"bf16[{batch},{K},{N}]{order(rng, 3)}", "dram")
    builder.matmul("x", "w", f"f32[{batch},{M},{N}]{order(rng, 3)}", name="y")
    of = rng.choice(["x", "y"])
    dims = (batch, M, K) if of == "x" else (batch, M, N)
    dtype = "bf16" if of == "x" else "f32"
    kind = rng.choice(["transpose", "relayout", "reshape", "cast", *LANE_WORK])
    after = (dims[0] * dims[1], dims[2]) if kind == "reshape" else dims
    if kind == "transpose":
        permutation = tuple(rng.sample(range(3), 3))
        after = tuple(dims[axis] for axis in permutation)
    text = f"[{','.join(map(str, after))}]{order(rng, len(after))}"
    if kind == "transpose":
        builder.transpose(of, dtype + text, permutation, name="z")
    elif kind in LANE_WORK:
        add_lane_work(rng, builder, (kind, of, dims))
    else:
        out = {"bf16": "f32", "f32": "bf16"}[dtype] if kind == "cast" else dtype
        builder.add(kind, (of,), out + text, name="z")
    return builder.graph()


@pytest.mark.parametrize("seed", quick_first(range(40), 10))
def test_other_work_takes_what_products_brought_or_made_in_whole_rows(seed: int) -> None:
    rng = Random(7000 + seed)
    graph, hardware = followed(rng), chip(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in graph.inputs}
    compile_graph("followed", graph, hardware, verify=True)
    event, register = (
        systolic.run(graph, hardware, inputs, engine=engine) for engine in ("event", "register")
    )
    assert event.summary["values"]["equal"]
    assert event.cycles == register.cycles
