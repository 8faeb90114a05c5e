"""Do products begin with what has come, and end tile by tile? With the same values, and sooner?

numpy is the oracle of values, the register engine that of cycles; the orders are written by hand.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import systolic
from support.chips import able_chip, ideal_chip
from support.compare_traces import assert_same
from systolic.compiler import compile_graph, pipeline
from systolic.compiler.ir.nodes import Layers, MultiplyNode, StoreNode
from systolic.compiler.ir.tasks import MatrixTile, Tiled
from systolic.compiler.lower.table import lower_graph
from systolic.compiler.schedule.schedule import schedule
from systolic.compiler.schedule.transfers import Sharing
from systolic.compiler.tile.arrivals import in_order_of_arrival, only_products
from systolic.compiler.tile.cut import cut_tiles
from systolic.compiler.tile.verify import verify_tiled
from systolic.hw.spec import Chip
from systolic.isa import Buffer, DmaCopy, LoadWeights
from systolic.machine import simulate
from systolic.run.tensors import graph_images
from systolic.workload import Graph, GraphBuilder
from systolic.workload.options import Options

ROWS = 4


def chip(**tables: dict[str, object]) -> Chip:
    dma = {"queues": 4, "latency_cycles": 60, "descriptor_cycles": 2, "bytes_per_cycle": 16}
    buffer = {"port_scope": "partition", "bytes_per_partition": 4096}
    return ideal_chip(ROWS, ROWS, **{"dma": dma, "state_buffer": buffer, **tables})


ABLE = able_chip(ROWS, ROWS)


def products(*dims: int, lhs: str = "{0,1}", home: str = "dram") -> Graph:
    """Return x w1 w2 ..., x being [dims[0], dims[1]], each weight [dims[n], dims[n + 1]]."""
    builder = GraphBuilder(home)
    made = builder.tensor("x", f"f32[{dims[0]},{dims[1]}]{lhs}")
    for number in range(1, len(dims) - 1):
        weights = builder.tensor(f"w{number}", f"f32[{dims[number]},{dims[number + 1]}]")
        made = builder.matmul(
            made, weights, f"f32[{dims[0]},{dims[number + 1]}]", name=f"y{number}"
        )
    return builder.graph()


def cut(graph: Graph, hardware: Chip, options: Options | None = None) -> tuple[Layers, Tiled]:
    options = options or Options()
    layers = lower_graph(graph, hardware, options)
    return layers, cut_tiles(layers, hardware, options)


def shown(tiled: Tiled, first: int = 0) -> str:
    """Return the products as letters: node, K-tile, stationary block, moving blocks; stores as s.

    first: the number of the first product's node.
    """
    words = []
    for task in tiled.tasks:
        if task.kind is MultiplyNode:
            k, col = task.rows[0].first // ROWS, task.cols[0].first // ROWS
            moving = "+".join(str(span.first // ROWS) for span in task.moving)
            words.append(f"{'abc'[task.node - first]}{k}{col}{moving}")
        elif task.kind is StoreNode:
            words.append("s")
    return " ".join(words)


def tiles(layers: Layers, name: str) -> list[MatrixTile]:
    loaded = (m for m in layers.matrices if m.tensor == name and m.source.kind == "dram")
    matrix = next(loaded)
    return [MatrixTile(matrix.name, 0, row, 0) for row in range(-(-matrix.rows // ROWS))]


def test_sums_for_the_first_result_come_first_and_what_they_make_is_waited_for_by_other_work():
    """By hand: a step has 4 vectors, and a sum that ends in cycle t can be loaded from t + 14 on.

    a..0 are the sums of rows 0 and 1 that make rows 0 of the next product. The first ends in cycle
    12, and b000 streams from 32 on, behind a011: in cycle 28 its load would not be over.
    """
    layers, tiled = cut(products(8, 8, 8, 4), chip())
    assert shown(tiled) == "a000+1 a100+1 b000 b100 s b010 b110 s"
    found = in_order_of_arrival(tiled, layers, chip(), {})
    assert found is not None
    order = "a000 a100 a010 a110 a001 a101 a011 b000 a111 b100 s b010 b110 s"
    assert shown(found) == order
    assert found.waited_columns == ROWS
    verify_tiled(found, layers)


def test_what_has_not_come_is_not_waited_for_while_other_sums_can_grow():
    """The last of four K-tiles comes late: until then all eight sums take the other three."""
    layers, tiled = cut(products(16, 16, 8, 8), chip(), Options(tile_columns=8))
    late = {tiles(layers, "w1")[-1]: 300}
    found = in_order_of_arrival(tiled, layers, chip(), late)
    assert found is not None
    before = [f"a{k}{col}{row}" for row in range(4) for col in range(2) for k in range(3)]
    behind = [f"a3{col}{row}" for row in range(4) for col in range(2)]
    order = shown(found).split()
    assert order[: len(before)] == before
    assert [step for step in order if step in behind] == behind
    verify_tiled(found, layers)


def test_a_lone_product_is_finished_block_by_block():
    layers, tiled = cut(products(8, 8, 8), chip())
    assert shown(tiled) == "a000+1 a100+1 s s s s"
    found = in_order_of_arrival(tiled, layers, chip(), {})
    assert found is not None
    assert shown(found) == "a000+1 a100+1 s s a010+1 a110+1 s s"
    assert found.waited_columns == 0


@pytest.mark.parametrize("banks", [2, 3, 8])
def test_no_more_sums_grow_than_there_are_banks(banks):
    hardware = chip(result_buffer={"banks": banks})
    layers, tiled = cut(products(16, 16, 8, 8), hardware)
    late = {tiles(layers, "w1")[-1]: 300}
    found = in_order_of_arrival(tiled, layers, hardware, late)
    assert found is not None
    verify_tiled(found, layers)
    growing, most = set[tuple[int, int, int]](), 0
    for task in found.tasks:
        for col in task.cols if task.kind is MultiplyNode else ():
            for span in task.moving:
                growing.add((task.node, col.first, span.first))
                most = max(most, len(growing))
                if task.last:
                    growing.remove((task.node, col.first, span.first))
    assert most == min(banks, 8)


def with_softmax() -> Graph:
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "f32[8,8]"), builder.tensor("w", "f32[8,8]")
    builder.softmax(builder.matmul(x, w, "f32[8,8]"), axis=1, name="y")
    return builder.graph()


def test_only_work_of_products_changes_its_order():
    builder = GraphBuilder("dram")
    builder.transpose(builder.tensor("x", "f32[8,8]"), "f32[8,8]", name="y")
    for graph, wanted in (
        (products(8, 8, 8, 4), True),
        (with_softmax(), False),
        (builder.graph(), False),
    ):
        layers, tiled = cut(graph, ABLE)
        assert only_products(tiled, layers) is wanted


def in_order(plan, *_):
    """Stand for `with_arrivals`: keep the plan."""
    return plan


def random_inputs(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {
        name: rng.integers(-3, 4, graph.shape(name).dims).astype(graph.shape(name).dtype)
        for name in graph.inputs
    }


@pytest.mark.parametrize(
    ("dims", "lhs"),
    [((8, 8, 8, 4), "{0,1}"), ((16, 16, 12, 8), "{1,0}"), ((18, 9, 10, 7), "{1,0}"),
     ((16, 8, 8, 8, 8), "{0,1}"), ((16, 24, 16), "{1,0}")],
)  # fmt: skip
def test_values_are_those_of_numpy_on_both_engines_and_cycles_are_fewer(dims, lhs, monkeypatch):
    graph, hardware = products(*dims, lhs=lhs), chip()
    compiled = compile_graph("arriving", graph, hardware, verify=True)
    inputs = random_inputs(graph)
    event, register = (
        simulate(hardware, compiled.program, graph_images(compiled, inputs), engine=engine)
        for engine in ("event", "register")
    )
    assert_same(event, register)
    result = systolic.run(graph, hardware, inputs)
    wanted = inputs["x"]
    for number in range(1, len(dims) - 1):
        wanted = wanted @ inputs[f"w{number}"]  # whole numbers: exact in every order
    np.testing.assert_array_equal(result.result, wanted)
    assert result.summary["bound"]["cycles"] <= result.cycles
    monkeypatch.setattr(pipeline, "with_arrivals", in_order)
    assert result.cycles < systolic.run(graph, hardware, inputs).cycles


def copies(layers: Layers, tiled: Tiled, *, loads: bool, **ways: bool) -> list[tuple[int, int]]:
    """Return the queue of each copy that brings, or stores, and its partitions on the chip."""
    drafts = schedule(layers, tiled, chip(), Options(), sharing=Sharing(**ways)).drafts
    made = [d.instruction for d in drafts if isinstance(d.instruction, DmaCopy)]
    return [
        (each.dma_queue, max(each.source.partitions, each.target.partitions))
        for each in made
        if (each.source.buffer is Buffer.DRAM) == loads
    ]


def test_each_queue_brings_as_many_parts_of_a_matrix():
    """w2 has three tiles of four rows: with four queues, two halves of the first and the others."""
    layers, tiled = cut(products(8, 8, 12, 8), chip(), Options(tile_columns=8))
    before = copies(layers, tiled, loads=True)
    even = copies(layers, tiled, loads=True, even_loads=True)
    assert [rows for _, rows in before[-3:]] == [4, 4, 4]
    assert [rows for _, rows in even[-4:]] == [2, 2, 4, 4]
    assert {queue for queue, _ in even[-4:]} == {0, 1, 2, 3}


def test_all_queues_share_the_last_results():
    layers, tiled = cut(products(8, 8, 12, 8), chip(), Options(tile_columns=8))
    spread = copies(layers, tiled, loads=False, spread_stores=True)
    assert sorted(spread) == [(queue, 1) for queue in range(4) for _ in range(2)]
    assert sorted(copies(layers, tiled, loads=False)) != sorted(spread)


def test_a_part_of_a_tile_waits_for_its_own_columns_alone():
    """The first load of the second product needs rows 0 of hidden, and no copy of rows 1."""
    layers, tiled = cut(products(8, 8, 8, 4), chip(), Options(tile_columns=8))
    found = in_order_of_arrival(tiled, layers, chip(), {})
    assert found is not None

    def writers(tasks: Tiled) -> int:
        drafts = schedule(layers, tasks, chip(), Options()).drafts
        needs = [
            sum(drafts[ref.step].instruction.queue in ("activation", "pooling") for ref in d.needs)
            for d in drafts
            if isinstance(d.instruction, LoadWeights) and d.layer == "y2"
        ]
        return needs[0]

    assert writers(found) == 1
    assert writers(replace(found, waited_columns=0)) == 2
