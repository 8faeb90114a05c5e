"""Is what layers of equal shape have in common found once in a compilation?"""

from __future__ import annotations

from functools import lru_cache

import pytest

from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.compiler.ir import dram_tensor, tasks
from systolic.compiler.schedule import moves
from systolic.compiler.tile import cut
from systolic.workload import Graph, GraphBuilder

CHIP = ideal_chip(8, 8)
SHARED = {
    "tiles of a matrix": (tasks, "_tiling"),
    "segments of a tensor in DRAM": (dram_tensor, "_found_segments"),
    "tiles with elements in common": (cut, "tile_pairs"),
    "pieces of a change of view": (moves, "_pieces"),
}


def layers(count: int) -> Graph:
    """Return `count` equal layers, each a product, whose rows are then cut and put together."""
    builder = GraphBuilder()
    x = builder.tensor("x", "f32[16,24]")
    for number in range(count):
        w = builder.tensor(f"w{number}", "f32[24,24]")
        y = builder.matmul(x, w, out="f32[16,24]")
        z = builder.add("reshape", (y,), out="f32[32,12]")
        x = builder.add("reshape", (z,), out="f32[16,24]")
    builder.add("activation", (x,), out="f32[16,24]", function="ramp")
    return builder.graph()


@pytest.mark.parametrize("what", SHARED)
def test_equal_layers_are_worked_out_once(what, monkeypatch):
    """Two further layers ask more often, but nothing new has to be found for them."""
    module, name = SHARED[what]
    asked, found = [], []
    for count in (2, 4):
        counted = lru_cache(maxsize=4096)(getattr(module, name).__wrapped__)
        monkeypatch.setattr(module, name, counted)
        compile_graph("layers", layers(count), CHIP)
        asked.append(counted.cache_info().hits + counted.cache_info().misses)
        found.append(counted.cache_info().misses)
    assert found[0] == found[1] > 0
    assert asked[0] < asked[1]
