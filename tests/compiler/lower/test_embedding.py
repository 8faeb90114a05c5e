"""Embeddings: rows by number, brought by DMA and by nothing else, in as few copies as there are."""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.errors import WorkloadError
from systolic.isa import DmaCopy
from systolic.layout import Shape
from systolic.workload import GraphBuilder, Tensor

CHIP = ideal_chip(4, 4, dma={"queues": 3})
ENGINES = ("event", "register")
TOKENS = (7, 0, 10, 10, 3, 4, 5, 6, 1, 9)


def lookup(table: str, home: str = "dram", tokens=TOKENS) -> GraphBuilder:
    builder = GraphBuilder(home)
    builder.tensor("table", table)
    builder.add("embedding", ("table",), f"f32[{len(tokens)},6]", name="y", indices=tokens)
    return builder


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("home", ["dram", "state_buffer"])
@pytest.mark.parametrize("layout", ["", "{0,1}", "{1,0:T(2,4)}"])
def test_rows_by_number(layout, home, engine):
    graph = lookup(f"f32[11,6]{layout}", home).graph()
    table = np.arange(66, dtype=np.float32).reshape(11, 6)
    found = systolic.run(graph, CHIP, {"table": table}, engine=engine)
    assert np.array_equal(found.outputs["y"], table[list(TOKENS)])


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_a_result(engine):
    """The table is what an engine has made, so its rows are on the chip."""
    builder = GraphBuilder("dram")
    x = builder.tensor("x", "f32[11,6]")
    table = builder.add("activation", (x,), "f32[11,6]", function="square", name="table")
    builder.add("embedding", (table,), "f32[10,6]", name="y", indices=TOKENS)
    data = np.arange(66, dtype=np.float32).reshape(11, 6)
    found = systolic.run(builder.graph(), CHIP, {"x": data}, engine=engine)
    assert np.array_equal(found.outputs["y"], data[list(TOKENS)] ** 2)


def test_only_the_rows_come_and_neighbours_together():
    """Rows 2 to 6 lie one behind the other, and come in one copy, or in equal shares."""
    tokens = (7, 0, 10, 2, 3, 4, 5, 6)
    compiled = compile_graph("t", lookup("f32[11,6]", tokens=tokens).graph(), CHIP)
    copies = [i for i in compiled.program.instructions if isinstance(i, DmaCopy)]
    brought = [i for i in copies if i.source.buffer == "dram"]
    assert sum(i.source.size_bytes for i in brought) == len(tokens) * 6 * 4
    assert len({i.dma_queue for i in brought}) > 1
    assert len(brought) < len(tokens)


def test_numbers_in_memory_change_no_cycle():
    """A table that is hundreds of times as long takes as long."""
    tokens = tuple(range(0, 20, 2))
    runs = [
        systolic.run(
            lookup(f"f32[{rows},6]", tokens=tokens).graph(), CHIP,
            {"table": np.random.default_rng(rows).standard_normal((rows, 6), np.float32)},
        )
        for rows in (20, 9000)
    ]  # fmt: skip
    assert runs[0].cycles == runs[1].cycles


def test_rows_by_number_that_a_reshape_takes():
    """Of rows in DRAM the picked ones are brought, and not the first ones."""
    builder = GraphBuilder("dram")
    builder.tensor("table", "s32[8,9]{1,0:T(4,8)}")
    rows = Tensor(Shape.parse("s32[3,9]"), "state_buffer")
    builder.add("embedding", ("table",), rows, name="rows", indices=(0, 1, 6))
    builder.add("reshape", ("rows",), Tensor(Shape.parse("s32[27]"), "state_buffer"), name="y")
    table = np.arange(72, dtype=np.int32).reshape(8, 9)
    found = systolic.run(builder.graph(), "neuroncore_v2", {"table": table})
    assert np.array_equal(found.outputs["y"], table[[0, 1, 6]].reshape(-1))


@pytest.mark.parametrize(
    ("table", "tokens", "text"),
    [
        (
            "f32[11,6]",
            (3, 11),
            "indices: needs numbers from 0 to 10, places along axis 0 of f32[11,6], found 11",
        ),
        (
            "f32[11,6]",
            (-1,),
            "indices: needs numbers from 0 to 10, places along axis 0 of f32[11,6], found -1",
        ),
        (
            "f32[11,6]",
            (),
            "indices: needs numbers from 0 to 10, places along axis 0 of f32[11,6], found none",
        ),
        ("f32[2,11,6]", (1,), "f32[2,11,6] gives f32[1,11,6], but out is f32[1,6]"),
        ("f32[11,5]", (1,), "f32[11,5] gives f32[1,5], but out is f32[1,6]"),
        ("bf16[11,6]", (1,), "bf16[11,6] gives bf16[1,6], but out is f32[1,6]"),
    ],
)
def test_what_is_refused(table, tokens, text):
    builder = GraphBuilder("dram")
    builder.tensor("table", table)
    builder.add("embedding", ("table",), "f32[1,6]", name="y", indices=tokens)
    with pytest.raises(WorkloadError) as raised:
        builder.graph()
    assert str(raised.value) == f'operation "y": {text}'
