"""Is what a plan needs no more freed at once? The collector rests while a graph is compiled."""

from __future__ import annotations

import gc

from support.chips import ideal_chip
from systolic.compiler.lower.table import lower_graph
from systolic.compiler.schedule.schedule import schedule
from systolic.compiler.tile.cut import cut_tiles
from systolic.workload import GraphBuilder
from systolic.workload.options import Options


def test_a_schedule_leaves_no_reference_cycles():
    """It would keep all tiles, and what was made of each, as long as other plans are tried."""
    chip, options = ideal_chip(4, 4), Options()
    found = []
    gc.collect()
    gc.disable()
    try:
        for rows in (4, 64):
            builder = GraphBuilder("dram")
            x = builder.tensor("x", f"bf16[{rows},64]{{0,1}}")
            builder.matmul(x, builder.tensor("w", "bf16[64,8]"), f"f32[{rows},8]", name="y")
            layers = lower_graph(builder.graph(), chip, options)
            tiled = cut_tiles(layers, chip, options)
            gc.collect()
            schedule(layers, tiled, chip, options)
            found.append(gc.collect())
    finally:
        gc.enable()
    assert found[1] <= found[0] + 20
