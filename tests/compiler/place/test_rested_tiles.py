"""Does a large product bring its tiles ahead, and is it still right?"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import systolic
from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.compiler.cost.pace import array_ticks
from systolic.compiler.ir.drafts import Draft
from systolic.compiler.place import tiles
from systolic.isa import MatMul
from systolic.workload import Graph, GraphBuilder

CHIP = ideal_chip(
    4,
    4,
    state_buffer={"partitions": 4, "bytes_per_partition": 512, "banks": 1},
    dma={"queues": 2, "latency_cycles": 20, "bytes_per_cycle": 32},
    dram={"size_bytes": 1 << 20, "bytes_per_cycle": 64},
)


def test_tiles_that_have_rested_leave_first(monkeypatch: pytest.MonkeyPatch):
    """Tiles of rhs are gone through again and again: with a rest they come before their turn."""
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "bf16[32,128]{0,1}"), builder.tensor("w", "bf16[128,64]")
    builder.matmul(x, w, "f32[32,64]", name="y")
    graph = builder.graph()
    rng = np.random.default_rng(7)
    inputs = {
        name: rng.integers(-4, 5, graph.shape(name).dims).astype(ml_dtypes.bfloat16)
        for name in graph.inputs
    }
    rested = systolic.run(graph, CHIP, inputs)
    assert rested.summary["values"]["equal"] is True
    exact = inputs["x"].astype(np.float64) @ inputs["w"].astype(np.float64)
    assert np.array_equal(rested.outputs["y"], exact), "small whole numbers are exact"
    monkeypatch.setattr(tiles, "REST_TASKS", 0)
    assert rested.cycles < 0.9 * systolic.run(graph, CHIP, values=False).cycles


def product(vectors: int) -> Graph:
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", f"bf16[{vectors},128]{{0,1}}"), builder.tensor("w", "bf16[128,64]")
    builder.matmul(x, w, f"f32[{vectors},64]", name="y")
    return builder.graph()


def test_the_array_takes_a_vector_of_each_tile_for_each_row():
    """128 x 64 weights are 32 x 16 tiles of 4 x 4, and each takes all 32 vectors."""
    drafts = compile_graph("large", product(32), CHIP).scheduled.drafts
    assert array_ticks(drafts, CHIP) == 32 * 16 * 32 * CHIP.period("pe_array")


def test_the_array_waits_out_the_least_of_a_multiply_and_all_its_passes():
    """3 vectors of 2 passes, each of 2 cycles, on 4 columns, which are fewer than 5: 4 count."""
    chip = ideal_chip(
        4, 4, pe_array={"passes": {"f32": 2}, "cycles_per_vector": {"f32": 2}, "min_vectors": 5}
    )
    multiply = MatMul(moving=state(0, 4, 0, 3), result=psum(0, 4, 0, 3))
    draft = Draft(multiply, "", (), (), 0)
    assert array_ticks([draft], chip) == 4 * 2 * 2 * chip.period("pe_array")
