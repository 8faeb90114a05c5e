"""Do stores stand behind further loads, and do all queues bring and store? With the same bytes?

numpy is the oracle of the values and of DRAM, the register engine that of the cycles.
"""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.compare_traces import assert_same
from systolic.compiler import Options, compile_graph
from systolic.compiler.ir.nodes import (
    MADE,
    ConvertNode,
    Layers,
    Matrix,
    Source,
    StoreNode,
    TensorInDram,
)
from systolic.compiler.ir.tasks import MatrixTile, Task, Tiled
from systolic.compiler.tile.late_stores import brings_and_stores, with_late_stores
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy
from systolic.layout import Shape
from systolic.machine import Image, simulate
from systolic.run.tensors import graph_images
from systolic.workload import Graph, GraphBuilder

POISON = 0xA5
MATRICES = Options(via="pe")
"""A lone move is made of matrices only if it is asked for."""


def place(name: str, start: int) -> TensorInDram:
    return TensorInDram(name, Shape("f32", (8, 4)), start, 128, start)


def matrix(name: str, dram: str = "") -> Matrix:
    source = Source("dram", dram) if dram else MADE
    return Matrix(name, name, "f32", (8, 4), ((0,), (1,)), source)


def passing_through(back: bool = False) -> tuple[Layers, Tiled]:
    """Return three tiles that come from x, are made and go to y; back: the third is one of y."""
    nodes = (
        ConvertNode("y", ("a",), "b"),
        StoreNode("y", ("b",), "y", ()),
        ConvertNode("y", ("c",), "b"),
    )
    matrices = matrix("a", "x"), matrix("b"), matrix("c", "y")
    layers = Layers(nodes, matrices, (place("x", 0), place("y", 128)), (), ())
    tasks: list[Task] = []
    for number in range(3):
        source, node = ("c", 2) if back and number == 2 else ("a", 0)
        made = MatrixTile("b", 0, number, 0)
        tasks += [
            Task(ConvertNode, node, (MatrixTile(source, 0, number, 0),), (made,)),
            Task(StoreNode, 1, (made,), ()),
        ]
    return layers, Tiled((4, 4), (), tuple(tasks))


def order(tiled: Tiled) -> str:
    """Return the tasks as letters: a load and its work, or a store, with the row of the tile."""
    return " ".join(f"{t.kind.word()[0]}{t.reads[0].row}" for t in tiled.tasks)


@pytest.mark.parametrize(
    ("late", "back", "wanted"),
    [
        (0, False, "c0 s0 c1 s1 c2 s2"),
        (1, False, "c0 c1 s0 c2 s1 s2"),
        (2, False, "c0 c1 c2 s0 s1 s2"),
        (9, False, "c0 c1 c2 s0 s1 s2"),
        (1, True, "c0 c1 s0 s1 c2 s2"),
        (2, True, "c0 c1 s0 s1 c2 s2"),
    ],
)
def test_a_store_stands_behind_later_tasks_but_before_loads_of_its_place(late, back, wanted):
    layers, tiled = passing_through(back)
    assert brings_and_stores(tiled, layers)
    assert order(with_late_stores(tiled, layers, late)) == wanted


def test_work_that_brings_nothing_or_stores_nothing_stays_as_it_is():
    layers, tiled = passing_through()
    stores = tuple(task for task in tiled.tasks if task.kind is StoreNode)
    others = tuple(task for task in tiled.tasks if task.kind.word() != "store")
    assert not any(
        brings_and_stores(Tiled((4, 4), (), tasks), layers) for tasks in (stores, others)
    )


def turned(rows: int = 64, cols: int = 128, dtype: str = "f32") -> Graph:
    builder = GraphBuilder("dram")
    builder.transpose(
        builder.tensor("x", f"{dtype}[{rows},{cols}]{{1,0}}"), f"{dtype}[{cols},{rows}]", name="y"
    )
    return builder.graph()


def relaid() -> Graph:
    """Return a relayout with padding behind the result's columns."""
    builder = GraphBuilder("dram")
    x = builder.tensor("x", "s32[100,8,6]{1,2,0}")
    builder.relayout(x, out="s32[100,8,6]{2,1,0:T(4,8)}", name="y")
    return builder.graph()


def multiplied() -> Graph:
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "f32[6,40,8]"), builder.tensor("w", "f32[6,8,16]")
    builder.matmul(x, w, "f32[6,40,16]", name="y")
    return builder.graph()


def chip(queues: int) -> Chip:
    return ideal_chip(
        8, 8, state_buffer={"bytes_per_partition": 2048},
        dma={"queues": queues, "latency_cycles": 40, "descriptor_cycles": 4, "bytes_per_cycle": 16},
    )  # fmt: skip


def directions(graph: Graph, hardware: Chip, options: Options | None = None) -> list[set[str]]:
    """Return for each queue what it does before the last load: bring, store, or both."""
    program = compile_graph("late", graph, hardware, options, verify=True).program
    made = [each for each in program.instructions if isinstance(each, DmaCopy)]
    last = max(n for n, each in enumerate(made) if each.source.buffer is Buffer.DRAM)
    found = [set[str]() for _ in range(hardware.dma.queues)]
    for each in made[: last + 1]:
        found[each.dma_queue].add("bring" if each.source.buffer is Buffer.DRAM else "store")
    return found


@pytest.mark.parametrize(
    ("graph", "queues", "options"),
    [(turned(64, 128), 2, MATRICES), (relaid(), 3, None), (multiplied(), 4, None)],
)
def test_memory_is_that_of_numpy_on_both_engines(graph, queues, options):
    hardware = chip(queues)
    if graph != relaid():
        assert directions(graph, hardware, options) == [{"bring", "store"}] * queues
    compiled = compile_graph("late", graph, hardware, options, verify=True)
    rng = np.random.default_rng(7)
    inputs = {
        name: rng.integers(-99, 99, graph.shape(name).dims).astype(graph.shape(name).dtype)
        for name in graph.inputs
    }
    end = compiled.scheduled.dram_bytes
    whole = Access(Buffer.DRAM, "u8", 0, 1, 0, ((1, end),))
    images = [Image(whole, np.full((1, end), POISON, np.uint8)), *graph_images(compiled, inputs)]
    event, register = (
        simulate(hardware, compiled.program, images, engine=engine)
        for engine in ("event", "register")
    )
    assert_same(event, register)
    memory = event.memory.bytes_of(Buffer.DRAM).reshape(-1)
    shape, (out,) = graph.shape("y"), (p for p in compiled.layers.dram if p.name == "y")
    words = memory[out.base : out.base + out.size_bytes].view(shape.dtype)
    x = inputs["x"]
    # Of whole numbers every order of additions has the same sums.
    wanted = x @ inputs["w"] if "w" in inputs else x
    wanted = wanted if wanted.shape == shape.dims else wanted.T
    for index in np.ndindex(*shape.dims):
        assert words[shape.linear_index(list(index))] == wanted[index]


def test_queues_are_divided_where_the_array_counts():
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "f32[64,64]{0,1}"), builder.tensor("w", "f32[64,64]")
    builder.matmul(x, w, "f32[64,64]", name="y")
    fast = ideal_chip(8, 8, dma={"queues": 2, "bytes_per_cycle": 64}, dram={"bytes_per_cycle": 256})
    assert {"bring", "store"} not in directions(builder.graph(), fast)


@pytest.mark.parametrize(
    ("source", "out", "permutation", "on", "most"),
    [
        ("bf16[1,16,256,256]{3,0,2,1:T(8,128)(2,1)}", "bf16[256,16,1,256]", (3, 1, 0, 2),
         "multi_clock_128x128", 143_000),
        ("bf16[2,8,256,256]{3,1,2,0}", "bf16[2,256,8,256]{2,1,3,0}", (0, 3, 1, 2),
         "ideal_128x128", 9_600),
        ("s8[4,384,8,80]{3,2,1,0:T(8,128)(4,1)}", "s8[4,384,8,80]", (0, 1, 2, 3),
         "lpddr5_6400_128x128", 50_000),
        ("f32[4,112,112,16]{1,2,0,3}", "f32[4,112,112,16]{3,2,1,0:T(8,128)}", (0, 1, 2, 3),
         "neuroncore_v4", 490_000),
        ("u8[8,12,197,197]{3,2,1,0:T(8,128)(4,1)}", "u8[8,12,197,197]{2,3,1,0}", (0, 1, 2, 3),
         "hbm3_128x128", 22_000),
    ],
    ids=["two queues", "four queues", "rows of DRAM to open", "bands of 112 rows", "some short"],
)  # fmt: skip
def test_moves_take_fewer_cycles_if_queues_bring_and_store(source, out, permutation, on, most):
    """Divided queues of matrices took 227,400, 14,761, 117,990, 1,619,588 and 20,570 cycles.

    The last one has rows over the edge of a tile, which are frames of their own: 5 of 197.
    """
    builder = GraphBuilder("dram")
    builder.transpose(builder.tensor("x", source), out, permutation, name="y")
    result = systolic.run(builder.graph(), on, values=False)
    assert result.summary["bound"]["cycles"] <= result.cycles <= most
