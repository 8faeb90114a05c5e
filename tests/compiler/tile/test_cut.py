"""Which tasks, in which order? Turned operands, and the last sums of a product."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler import Options, compile_graph
from systolic.compiler.ir.nodes import MultiplyNode, TurnNode
from systolic.config import load_chip
from systolic.errors import CompileError
from systolic.isa import Copy, MatMul
from systolic.workload import Graph, GraphBuilder


def product(lhs: str, rhs: str, out: str, home="state_buffer") -> Graph:
    builder = GraphBuilder(home)
    builder.matmul(builder.tensor("x", lhs), builder.tensor("w", rhs), out, name="y")
    return builder.graph()


def small_integers(graph: Graph) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(5)
    return {n: numbers.integers(-9, 9, graph.shape(n).dims).astype(np.float32)
            for n in graph.inputs}  # fmt: skip


def kinds(compiled) -> list[str]:
    return [kind for kind, _ in groupby(task.kind.word() for task in compiled.tiled.tasks)]


def open_sums_at_turns(compiled) -> list[int]:
    """Return, for each turn, how many groups of sums have begun before it and not ended."""
    found, opened = [], 0
    for task in compiled.tiled.tasks:
        if task.kind is TurnNode:
            found.append(opened)
        elif task.kind is MultiplyNode:
            opened += task.first - task.last
    return found


def test_a_turned_operand_is_turned_before_the_sums_that_need_it():
    """16 rows of lhs are turned for each group of sums: not all of it before the first."""
    chip = ideal_chip(4, 4, result_buffer={"banks": 4, "bank_bytes": 64})
    graph = product("f32[32,16]{1,0}", "f32[16,16]", "f32[32,16]")
    inputs = small_integers(graph)
    run = systolic.run(graph, chip, inputs)
    assert np.array_equal(run.outputs["y"], inputs["x"] @ inputs["w"])
    assert kinds(run.compiled)[:4] == ["turn", "multiply", "turn", "multiply"]
    assert set(open_sums_at_turns(run.compiled)) == {0}


@pytest.mark.parametrize("engine", ["event", "register"])
def test_with_little_room_tiles_are_turned_while_sums_grow(engine):
    chip = ideal_chip(
        4, 4, state_buffer={"partitions": 4, "bytes_per_partition": 640, "banks": 1},
        result_buffer={"banks": 8, "bank_bytes": 64},
    )  # fmt: skip
    graph = product("f32[16,64]{1,0}", "f32[64,16]", "f32[16,16]", "dram")
    inputs = small_integers(graph)
    run = systolic.run(graph, chip, inputs, engine=engine)
    assert np.array_equal(run.outputs["y"], inputs["x"] @ inputs["w"])
    assert 1 in open_sums_at_turns(run.compiled)
    assert run.compiled.scheduled.spilled_bytes == 0


def test_the_last_parts_leave_banks_to_turn_with():
    """Four banks, four parts of the last chunk: two must do while tiles are still turned."""
    chip = ideal_chip(
        4, 4, state_buffer={"partitions": 4, "bytes_per_partition": 12288, "banks": 8},
        result_buffer={"banks": 4, "bank_bytes": 64},
    )  # fmt: skip
    graph = product("f32[4,64]{1,0}", "f32[64,64]{0,1}", "f32[4,64]")
    inputs = small_integers(graph)
    run = systolic.run(graph, chip, inputs, options=Options(stationary="lhs", tile_columns=16))
    assert np.array_equal(run.outputs["y"], inputs["x"] @ inputs["w"])
    assert 1 in open_sums_at_turns(run.compiled)


def test_a_result_is_turned_when_the_next_sums_are_done():
    """Out {0,1} has N on partitions; with lhs held by hand the result must be turned."""
    chip = ideal_chip(4, 4, result_buffer={"banks": 2, "bank_bytes": 16})
    graph = product("f32[16,4]{0,1}", "f32[4,4]", "f32[16,4]{0,1}", "dram")
    inputs = small_integers(graph)
    run = systolic.run(graph, chip, inputs, options=Options(stationary="lhs"))
    assert np.array_equal(run.outputs["y"], inputs["x"] @ inputs["w"])
    order = [task.kind.word() for task in run.compiled.tiled.tasks if task.kind.word() != "store"]
    assert order[:3] == ["multiply", "multiply", "turn"]
    assert order[-2:] == ["turn", "turn"]


def test_the_last_sums_are_copied_out_in_parts():
    """1024 vectors for one stationary tile; every load of 128 hides behind a part of 128."""
    chip = load_chip("configs/chips/ideal_128x128.toml")
    graph = product("bf16[128,256]{0,1}", "bf16[256,1024]", "bf16[128,1024]")
    instructions = compile_graph("test", graph, chip).program.instructions
    copies = [i.source.elements for i in instructions if isinstance(i, Copy)]
    assert copies[-4:] == [128] * 4
    last = [i for i in instructions if isinstance(i, MatMul)][-4:]
    assert len({i.result.start for i in last}) == 4
    cycles = systolic.run(graph, chip).trace.cycles()
    first_load, vectors, to_last_row = 128, 2 * 1024, 127 + 127
    assert cycles == first_load + vectors + to_last_row + 1 + 128


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(group=(5, 1)),
         r'operation "y": compile.group asks for 5 stationary tiles x 1 chunks of 4 vectors: there '
         r"are 4 x 2, and each of p \* q sums needs one of 8 banks"),
        (Options(group=(1, 3)), r"asks for 1 stationary tiles x 3 chunks .*: there are 4 x 2,"),
        (Options(tile_columns=6),
         r"compile.tile_columns: needs a multiple of 4, at most 16 \(the widest matrix\), found 6"),
        (Options(tile_columns=20), r"at most 16 \(the widest matrix\), found 20"),
    ],
)  # fmt: skip
def test_loops_that_cannot_be_are_refused(options, message):
    """Four stationary tiles of 4 columns, 8 moving vectors in banks of 4 words."""
    graph = product("f32[8,4]{0,1}", "f32[4,16]", "f32[8,16]")
    chip = ideal_chip(4, 4, result_buffer={"banks": 8, "bank_bytes": 16})
    with pytest.raises(CompileError, match=message):
        compile_graph("test", graph, chip, replace(options, stationary="rhs"))


def test_more_sums_than_banks_are_refused():
    graph = product("f32[8,4]{0,1}", "f32[4,16]", "f32[8,16]")
    chip = ideal_chip(4, 4, result_buffer={"banks": 4, "bank_bytes": 16})
    options = Options(stationary="rhs", group=(4, 2))
    with pytest.raises(CompileError, match=r"each of p \* q sums needs one of 4 banks"):
        compile_graph("test", graph, chip, options)


def transposed(dims: tuple[int, int]) -> Graph:
    builder = GraphBuilder(home="dram")
    rows, cols = dims
    builder.transpose(
        builder.tensor("x", f"f32[{rows},{cols}]"), f"f32[{cols},{rows}]", (1, 0), name="y"
    )
    return builder.graph()


def test_a_row_of_a_tile_asks_each_channel_once_where_nothing_is_multiplied():
    """Four channels that change every 256 bytes: 256 columns of 4 bytes."""
    chip = load_chip("configs/chips/ddr4_128x128.toml")
    graph, matrices = transposed((1024, 1024)), Options(via="pe")
    assert compile_graph("test", graph, chip, matrices).tiled.block == (128, 256)
    dram = chip.dram.model_copy(update={"organisation": None})
    bare = chip.model_copy(update={"dram": dram})
    assert compile_graph("test", graph, bare, matrices).tiled.block == (128, 1024)


def test_turns_go_down_until_a_tile_of_the_result_is_complete():
    chip = load_chip("configs/chips/ddr4_128x128.toml")
    tasks = compile_graph("test", transposed((512, 512)), chip, Options(via="pe")).tiled.tasks
    read = [(task.reads[0].row, task.reads[0].col) for task in tasks if task.kind is TurnNode]
    assert read == [(row, col) for rows in ((0, 1), (2, 3)) for col in (0, 1) for row in rows]


def product_of_a_product(last: str) -> Graph:
    """Return it with an operation behind it, weights in DRAM."""
    builder = GraphBuilder("dram")
    x, v = builder.tensor("x", "f32[16,16]"), builder.tensor("v", "f32[16,16]")
    hidden = builder.matmul(x, v, "f32[16,16]", name="hidden")
    w = builder.tensor("w", "f32[16,64]")
    sums = builder.matmul(hidden, w, "f32[16,64]", name="sums")
    if last == "softmax":
        builder.softmax(sums, name="y")
    return builder.graph()


@pytest.mark.parametrize("last", ["softmax", "nothing"])
@pytest.mark.parametrize(("bytes_per_cycle", "groups"), [(64, 16), (16, 1)])
def test_sums_are_finished_tile_by_tile_unless_weights_arrive_late(last, bytes_per_cycle, groups):
    """All 16 tiles of 4 x 16 have banks together; engines, or stores, would wait for the last
    K-tile of all.

    The first product takes 256 cycles. At 64 bytes in a cycle v and w have come in 80 cycles. At 16
    they take 320, and sums grow as w arrives.
    """
    dram = {"bytes_per_cycle": bytes_per_cycle}
    chip = ideal_chip(4, 4, result_buffer={"banks": 32, "bank_bytes": 64}, dram=dram)
    graph = product_of_a_product(last)
    compiled = compile_graph("run", graph, chip, Options(stationary="lhs"))
    nodes = [(node.layer, node.word()) for node in compiled.layers.nodes]
    node = nodes.index(("sums", "multiply"))
    begun = [task for task in compiled.tiled.tasks if task.node == node and task.first]
    assert len(begun) == groups
    inputs = small_integers(graph)
    run = systolic.run(graph, chip, inputs, options=Options(stationary="lhs"))
    sums = inputs["x"].astype(np.float64) @ inputs["v"] @ inputs["w"]
    if last == "nothing":
        assert np.array_equal(run.outputs["sums"], sums)
    else:
        powers = np.exp(sums - sums.max(axis=-1, keepdims=True))
        assert np.allclose(run.outputs["y"], powers / powers.sum(axis=-1, keepdims=True))
