"""Is what can have no room on the chip refused by its name, and what just fits taken?

A chip of 4 partitions of 64 bytes: 256 bytes in all.
"""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.errors import CompileError
from systolic.workload import Graph, GraphBuilder

CHIP = ideal_chip(4, 4, state_buffer={"bytes_per_partition": 64, "banks": 1})


def relayout(source: str, out: str) -> Graph:
    builder = GraphBuilder(home="state_buffer")
    builder.add("relayout", (builder.tensor("x", source),), out, name="y")
    return builder.graph()


def both(dims: str) -> Graph:
    builder = GraphBuilder(home="state_buffer")
    x, w = builder.tensor("x", f"f32[{dims}]"), builder.tensor("w", f"f32[{dims}]")
    builder.binary(x, w, operator="add", name="y")
    return builder.graph()


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        # 104 words are 416 bytes, 104 in each partition at best.
        (relayout("f32[13,8]", "f32[13,8]{0,1}"),
         "x: f32[13,8]{1,0} takes 104 bytes of each of 4 partitions, found 64"),
        # Two rows in two partitions, 8 tiles of (2, 4) words beside one another in each: 128 bytes.
        (relayout("f32[2,32]{1,0:T(2,4)}", "f32[2,32]"),
         "x: in its tiles f32[2,32]{1,0:T(2,4)} takes 128 bytes of each of 2 partitions, found 64"),
        (relayout("f32[2,32]", "f32[2,32]{1,0:T(2,4)}"),
         "y: in its tiles f32[2,32]{1,0:T(2,4)} takes 128 bytes of each of 2 partitions, found 64"),
        # 160 bytes each: both inputs are 320 of 256.
        (both("4,10"), "the inputs: they need at least 80 bytes of each of 4 partitions, found 64"),
    ],
)  # fmt: skip
def test_refused_before_planning(graph: Graph, message: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("systolic.compiler.pipeline.best_plan", None)
    with pytest.raises(CompileError) as refused:
        compile_graph("test", graph, CHIP)
    assert str(refused.value) == f"state_buffer of {CHIP.name} has no room for {message}"


def test_what_just_fits_is_taken():
    """x, w and y take 20 bytes of each partition: 60 of 64."""
    x, w = np.arange(40, dtype=np.float32).reshape(2, 4, 5)
    found = systolic.run(both("4,5"), CHIP, {"x": x, "w": w})
    np.testing.assert_array_equal(found.outputs["y"], x + w)
