"""Does a product begin with the rows that engines have finished? With the same bits, sooner?"""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.compiler.cost.dma import picked_cycles
from systolic.compiler.tile.late_rows import LateRows
from systolic.workload import Graph, GraphBuilder
from systolic.workload.options import Options

ROWS, WIDTH = 16, 8
CHOSEN = Options(stationary="rhs")


def normed(products: int = 1, *, rows: int = ROWS, norm: bool = True, home: str = "dram") -> Graph:
    """Return x w, its layer norm, and so many products of that with further weights."""
    builder = GraphBuilder(home)
    x, w = (
        builder.tensor(n, f"f32[{r},{WIDTH}]", home="dram") for n, r in (("x", rows), ("w", WIDTH))
    )
    made = builder.matmul(x, w, f"f32[{rows},{WIDTH}]", name="sums")
    if norm:
        factors, terms = (builder.tensor(name, f"f32[{WIDTH}]") for name in ("factors", "terms"))
        made = builder.layer_norm(made, factors, terms, name="norm")
    for number in range(products):
        v = builder.tensor(f"v{number}", f"f32[{WIDTH},64]", home="dram")
        builder.matmul(made, v, f"f32[{rows},64]", name=f"y{number}")
    return builder.graph()


def random_inputs(graph: Graph) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(3)
    return {n: numbers.normal(size=graph.shape(n).dims).astype(np.float32) for n in graph.inputs}


def by_rows(graph: Graph, options: Options = CHOSEN, **changes) -> list[int]:
    """Return, for each product in order, how many of its stationary columns go row by row."""
    compiled = compile_graph("run", graph, ideal_chip(4, 4, **changes), options, verify=True)
    return [loops.by_rows for _, loops in compiled.tiled.loops]


def test_the_product_behind_a_norm_begins_row_by_row():
    """Engines go over 8 columns four times, and some sums; the product has 2 K-tiles of 4 rows."""
    first, second = by_rows(normed())
    assert first == 0
    assert second == 8


def test_products_of_one_operand_share_what_has_to_be_bridged():
    _, alone = by_rows(normed())
    assert by_rows(normed(2)) == [0, alone, 0]


@pytest.mark.parametrize(
    ("graph", "options", "changes"),
    [
        (normed(norm=False), CHOSEN, {}),
        (normed(rows=4), CHOSEN, {}),
        (normed(), Options(stationary="rhs", group=(1, 1)), {}),
        (normed(), CHOSEN, {"pe_array": {"weight_buffer": "single"}}),
    ],
    ids=["no engine between", "one tile of rows", "group as asked", "loads that do not hide"],
)
def test_else_it_goes_in_whole_chunks(graph, options, changes):
    assert not any(by_rows(graph, options, **changes))


@pytest.mark.parametrize("home", ["state_buffer", "dram"])
def test_bits_are_the_same_on_both_engines_and_cycles_are_fewer(home, monkeypatch):
    graph = normed(2, home=home)
    inputs, chip = random_inputs(graph), ideal_chip(4, 4)
    event, register = (
        systolic.run(graph, chip, inputs, options=CHOSEN, engine=engine)
        for engine in ("event", "register")
    )
    monkeypatch.setattr(LateRows, "columns", lambda self, node: 0)
    whole = systolic.run(graph, chip, inputs, options=CHOSEN)
    for name in ("y0", "y1"):
        assert np.array_equal(event.outputs[name], whole.outputs[name])
        assert np.array_equal(event.outputs[name], register.outputs[name])
    assert event.cycles == register.cycles < whole.cycles
    sums = inputs["x"].astype(np.float64) @ inputs["w"]
    spread = sums - sums.mean(axis=1, keepdims=True)
    scaled = spread / np.sqrt((spread**2).mean(axis=1, keepdims=True) + 1e-5)
    norm = scaled * inputs["factors"] + inputs["terms"]
    assert np.allclose(event.outputs["y1"], norm @ inputs["v1"], atol=1e-4)


def test_rows_that_are_picked_come_by_a_copy_for_each_regular_run():
    """On four queues, eight lone copies are two latencies; rows at one distance are one copy."""
    chip = ideal_chip(4, 4, dma={"queues": 4, "latency_cycles": 100}, dram={"latency_cycles": 20})
    scattered = [0, 5, 100, 106, 200, 207, 300, 308, 400, 409, 500, 510, 600, 611, 700, 712]
    assert picked_cycles(chip, scattered) == 240
    assert picked_cycles(chip, range(0, 160, 10)) == 120


def test_rows_of_an_embedding_are_late_as_well():
    builder = GraphBuilder("dram")
    table = builder.tensor("table", f"f32[64,{WIDTH}]")
    numbers = [int(n) for n in np.random.default_rng(5).permutation(64)[:ROWS]]
    x = builder.embedding(table, indices=numbers)
    factors, terms = (builder.tensor(name, f"f32[{WIDTH}]") for name in ("factors", "terms"))
    norm = builder.layer_norm(x, factors, terms)
    scores = builder.matmul(
        norm, builder.tensor("v", f"f32[{WIDTH},{ROWS}]"), f"f32[{ROWS},{ROWS}]"
    )
    shares = builder.softmax(scores)
    builder.matmul(shares, builder.tensor("u", f"f32[{ROWS},4]"), f"f32[{ROWS},4]", name="y")
    graph = builder.graph()
    assert by_rows(graph)[0] == 4
    inputs = random_inputs(graph)
    event, register = (
        systolic.run(graph, ideal_chip(4, 4), inputs, options=CHOSEN, engine=engine)
        for engine in ("event", "register")
    )
    assert event.cycles == register.cycles
    assert np.array_equal(event.outputs["y"], register.outputs["y"])
