"""Queues that move one tile together where copies are spread: how many, and what it gains."""

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
from systolic.compiler.cost.dma import queues_beside, queues_of_stores
from systolic.config import load_chip
from systolic.isa import Buffer, DmaCopy
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder

V3 = load_chip(CHIPS / "neuroncore_v3.toml")


def rows(dtype: str, dims: str, tiles: str) -> Graph:
    """Return a graph that brings rows to tiles in DRAM."""
    builder = GraphBuilder(home="dram")
    builder.tensor("x", f"{dtype}[{dims}]")
    builder.add("relayout", ("x",), f"{dtype}[{dims}]{tiles}", name="y")
    return builder.graph()


@pytest.mark.parametrize(
    ("run", "queues"),
    [
        # A descriptor takes 105 cycles, an engine moves 23 bytes in a cycle. Of 8 queues it takes
        # 105 / 8, and the bytes of 36 move at an eighth of the rate.
        (36, 8),
        (64, 6),
        (1, 8),  # half of the queues, since others move in the other direction
        (512, 2),
        (1000, 1),
        (4096, 1),
    ],
)
def test_how_many_queues_move_a_tile_in_runs_of_a_length(run: int, queues: int) -> None:
    assert queues_beside(V3, run) == queues


def test_a_queue_that_has_one_engine_moves_a_tile_alone() -> None:
    assert queues_beside(load_chip(CHIPS / "ideal_128x128.toml"), 36) == 1


def test_short_runs_of_a_store_are_shared_by_queues() -> None:
    graph = rows("f32", "512,256,9", "{2,0,1:T(8,128)}")
    compiled = compile_graph("y", graph, V3, verify=True)
    copies = [one for one in compiled.program.instructions if isinstance(one, DmaCopy)]
    stores = {one.dma_queue for one in copies if one.target.buffer is Buffer.DRAM}
    assert len(stores) >= 8
    # 131,072 runs of 36 bytes, 16 at a time: of one queue 8,192 x 105 cycles of DMA.
    cycles = systolic.run(graph, V3, values=False).cycles * 1000 // 2400
    assert cycles < 8192 * 105 // 4


@pytest.mark.parametrize(
    ("run", "queues"), [(18, 16), (256, 9), (512, 4), (805, 3), (806, 2), (1208, 1), (4096, 1)]
)
def test_descriptors_of_so_many_stores_keep_the_engines_busy(run: int, queues: int) -> None:
    # An engine passes 105 x 23 = 2,415 bytes while a queue fetches a descriptor.
    assert queues_of_stores(V3, run) == queues
    assert queues_of_stores(load_chip(CHIPS / "ideal_128x128.toml"), run) == 1


@pytest.mark.parametrize("seed", quick_first(range(20), 5))
def test_they_move_what_numpy_moves_on_both_engines(seed: int) -> None:
    rng = Random(seed)
    chip = ideal_chip(
        8, 8, state_buffer={"port_scope": "bank", "bytes_per_partition": 16384, "banks": 8},
        dma={"queues": rng.choice([2, 6, 8]), "engines": 4, "partitions_per_engine": 2,
             "outstanding": rng.choice([1, 4]), "latency_cycles": 20, "bytes_per_cycle": 8,
             "descriptor_cycles": rng.choice([20, 60]), "descriptor_cost": "max",
             "posts": rng.choice(["once", "each_engine"])},
    )  # fmt: skip
    dtype, tiles = rng.choice([("f32", "(4,8)"), ("bf16", "(4,8)(2,1)"), ("u8", "(4,8)(4,1)")])
    dims = f"{rng.randint(2, 9)},{rng.randint(5, 20)},{rng.randint(3, 9)}"
    graph = rows(dtype, dims, f"{{{rng.choice(['2,1,0', '1,2,0', '2,0,1'])}:T{tiles}}}")
    compile_graph("y", graph, chip, verify=True)
    inputs = {"x": random_values(rng, graph.shape("x"))}
    result = run_on_both_engines(graph, chip, inputs)
    assert np.array_equal(result.outputs["y"], inputs["x"])
