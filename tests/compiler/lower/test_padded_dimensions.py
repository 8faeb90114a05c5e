"""Is a tensor whose dimensions are padded in DRAM (legacy padding) computed and stored rightly?

Such a layout has no text form, so it comes from Python only, and must arrive everywhere as the
value it is. The oracle is numpy for the values and the index formula for the bytes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.compiler.show import show_lower
from systolic.isa import Buffer
from systolic.layout import Layout, Shape
from systolic.machine import simulate
from systolic.run.tensors import graph_images, graph_results
from systolic.workload import Graph, GraphBuilder

CHIP = ideal_chip(4, 4)
KINDS = ("transpose", "relayout", "reshape", "matmul")
ENGINES = ("event", "register")
LAYOUTS: dict[str, Layout] = {
    "rows": Layout((1, 0), padded_dimensions=(7, 9), padding_value=3),
    "columns": Layout((0, 1), padded_dimensions=(6, 8), padding_value=-1),
    "tiles": Layout((1, 0), [(2, 4)], padded_dimensions=(8, 7), tail_align=32, padding_value=5),
}


def bytes_by_formula(array: np.ndarray, shape: Shape) -> bytes:
    """The memory element by element: padding of dimensions holds its value, that of tiles 0."""
    layout = shape.layout
    widths = layout.padded_dimensions or shape.dims
    wide = Shape(shape.element_type, widths, replace(layout, padded_dimensions=None))
    memory = np.zeros(wide.padded_elements(), shape.dtype)
    for index in np.ndindex(*widths):
        inside = all(i < size for i, size in zip(index, shape.dims, strict=True))
        memory[wide.linear_index(index)] = array[index] if inside else layout.padding_value
    return memory.tobytes()


def graph_of(kind: str, source: Layout, result: Layout) -> Graph:
    """One operation on s = f32[5,6] whose source and result have these layouts."""
    builder = GraphBuilder("dram")
    x = builder.tensor("x", Shape("f32", (5, 6), source))
    if kind == "transpose":
        builder.transpose(x, Shape("f32", (6, 5), result), (1, 0), name="y")
    elif kind == "matmul":
        builder.matmul(x, builder.tensor("w", "f32[6,6]"), Shape("f32", (5, 6), result), name="y")
    else:
        dims = (6, 5) if kind == "reshape" else (5, 6)
        builder.add(kind, (x,), Shape("f32", dims, result), name="y")
    return builder.graph()


def expected(kind: str, values: dict[str, np.ndarray]) -> np.ndarray:
    x = values["x"]
    answers = {"transpose": x.T, "relayout": x, "reshape": x.reshape(6, 5)}
    return x @ values["w"] if kind == "matmul" else answers[kind]


def data(graph: Graph) -> dict[str, np.ndarray]:
    random = np.random.default_rng(2)
    return {name: random.integers(-9, 10, graph.shape(name).dims).astype(np.float32)
            for name in graph.inputs}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("which", ["source", "result", "both"])
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_bytes(kind: str, name: str, which: str, engine: str) -> None:
    padded, plain = LAYOUTS[name], Layout((1, 0))
    graph = graph_of(
        kind, padded if which != "result" else plain, padded if which != "source" else plain
    )
    values = data(graph)
    wanted = expected(kind, values)
    compiled = compile_graph("padded", graph, CHIP)
    outcome = simulate(CHIP, compiled.program, graph_images(compiled, values), engine=engine)
    np.testing.assert_array_equal(graph_results(compiled, outcome.memory)["y"], wanted)
    dram = outcome.memory.bytes_of(Buffer.DRAM)[0].tobytes()
    for tensor, array in (("x", values["x"]), ("y", wanted)):
        base = next(place.base for place in compiled.layers.dram if place.name == tensor)
        memory = bytes_by_formula(array, graph.shape(tensor))
        assert dram[base : base + len(memory)] == memory, tensor


@pytest.mark.parametrize("via", ["pe", "dram"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_both_ways_of_a_transpose(name: str, via: str) -> None:
    from systolic.compiler import Options

    graph = graph_of("transpose", LAYOUTS[name], LAYOUTS[name])
    values = data(graph)
    run = systolic.run(graph, CHIP, values, options=Options(via=via))
    np.testing.assert_array_equal(run.outputs["y"], values["x"].T)


def test_a_place_in_dram_holds_the_shape_itself() -> None:
    graph = graph_of("transpose", LAYOUTS["rows"], LAYOUTS["columns"])
    compiled = compile_graph("padded", graph, CHIP)
    shapes = {place.name: place.shape for place in compiled.layers.dram}
    assert shapes["x"] is graph.shape("x")
    assert shapes["y"] is graph.shape("y")
    listing = "\n".join(show_lower(compiled))
    assert "x = f32[5,6]{1,0} padded to [7,9], 256 bytes" in listing
