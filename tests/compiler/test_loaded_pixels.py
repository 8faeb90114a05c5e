"""Is the value right? Convolutions whose pixels are loaded into the array, and filters stream."""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.bounds import run_bound
from systolic.compiler import compile_graph
from systolic.isa import MatMul
from systolic.isa.lint.lint import lint
from systolic.run.tensors import graph_images
from systolic.run.verdict import differences, rules_of
from systolic.workload import GraphBuilder, reference_graph

FAST = {"fast_load": 4}
"""A load of 16 columns takes 4 cycles, so that 4 filters may stream through 16 pixels."""


def network(dims=(2, 8, 8, 16), filters=8, dtype="bf16") -> GraphBuilder:
    """Return a convolution of 3 x 3 with bias and ramp, a second one, and a residual."""
    builder = GraphBuilder("dram")
    images, height, width, channels = dims
    made = f"[{images},{height},{width},{filters}]"
    builder.tensor("x", f"{dtype}[{images},{height},{width},{channels}]{{2,1,3,0}}")
    builder.tensor("w", f"{dtype}[3,3,{channels},{filters}]")
    builder.tensor("b", f"f32[{filters}]")
    builder.tensor("v", f"{dtype}[3,3,{filters},{filters}]")
    pad = {"padding": [1, 1, 1, 1]}
    builder.add("conv2d", ("x", "w"), f"f32{made}", name="sums", **pad)
    builder.add(
        "binary",
        ("sums", "b"),
        f"f32{made}",
        name="biased",
        operator="add",
        broadcast_dimensions=[3],
    )
    builder.add("activation", ("biased",), f"{dtype}{made}", name="y", function="ramp")
    builder.add("conv2d", ("y", "v"), f"f32{made}", name="again", **pad)
    builder.add("cast", ("y",), f"f32{made}", name="wide")
    builder.add("binary", ("again", "wide"), f"f32{made}", name="z", operator="add")
    return builder


def loaded_blocks(compiled) -> list[int]:
    return [loops.loaded for _, loops in compiled.tiled.loops]


@pytest.mark.parametrize("array", [FAST, {**FAST, "pass_through": {"f32": 1}}])
@pytest.mark.parametrize(
    ("dims", "filters"),
    [
        ((2, 8, 8, 16), 8),  # two blocks of 16 pixels are turned together
        ((1, 9, 7, 12), 5),  # blocks of 14 pixels, three together, and one of 7
        ((6, 4, 4, 16), 8),  # images of one block each
    ],
)
def test_bits_are_those_of_the_reference_in_both_engines(dims, filters, array):
    chip, graph = ideal_chip(16, 16, pe_array=array), network(dims, filters).graph()
    rng = np.random.default_rng(1)
    inputs = {
        name: rng.normal(size=graph.shape(name).dims).astype(graph.shape(name).dtype)
        for name in graph.inputs
    }
    compiled = compile_graph("network", graph, chip, verify=True)
    assert any(loaded_blocks(compiled))
    found = systolic.run(graph, chip, inputs)
    expected = reference_graph(graph, inputs, rules_of(chip))
    for name, array_ in expected.items():
        assert differences(found.outputs[name], array_) == 0
    given = [image.access for image in graph_images(found.compiled, inputs)]
    assert not [
        each for each in lint(found.compiled.program, chip, given) if each.severity == "error"
    ]
    bound = run_bound(graph, chip).ticks
    assert found.cycles * chip.period("pe_array") >= bound
    stepped = systolic.run(graph, chip, inputs, engine="register")
    assert stepped.trace.times == found.trace.times
    assert stepped.outputs["z"].tobytes() == found.outputs["z"].tobytes()


def test_loads_are_pixels_and_filters_stream():
    """A block of 16 pixels is a load of 16 columns; 8 filters stream; two blocks are turned."""
    compiled = compile_graph("network", network().graph(), ideal_chip(16, 16, pe_array=FAST))
    done = [each for each in compiled.program.instructions if each.queue == "pe_array"]
    sums = [each for each in done if isinstance(each, MatMul) and each.result.partitions == 16]
    turns = [each for each in sums if each.moving.dtype == "f32" and each.moving.elements == 16]
    streams = [each for each in sums if each.moving.dtype == "bf16"]
    assert {each.moving.elements for each in streams} == {8}
    # Nine K-tiles of 2 x 64 pixels, eight blocks; the second convolution has 72 rows, five K-tiles.
    assert len(streams) == 8 * 9 + 8 * 5
    assert len(turns) == 2 * 8 // 2


@pytest.mark.parametrize(
    ("dims", "filters", "array", "why"),
    [
        ((2, 8, 8, 16), 8, {}, "a load of 16 columns takes 16 cycles"),
        ((2, 8, 8, 16), 16, FAST, "16 filters fill all columns"),
        ((2, 8, 8, 3), 8, FAST, "engines would be busy for as long as the array"),
        ((2, 8, 8, 16), 8, {**FAST, "weight_path": "top"}, "weights come by rows"),
        ((2, 8, 8, 16), 8, {**FAST, "cycles_per_vector": {"bf16": 1}}, "sums cannot be turned"),
        (
            (2, 8, 8, 16),
            8,
            {**FAST, "cycles_per_vector": {"bf16": 1, "f32": 8}},
            "a turn takes eight cycles for each pixel",
        ),
    ],
)
def test_the_usual_way_is_kept(dims, filters, array, why):
    graph = one_convolution(dims, filters).graph()
    compiled = compile_graph("one", graph, ideal_chip(16, 16, pe_array=array))
    assert loaded_blocks(compiled) == [0], why


def one_convolution(dims, filters) -> GraphBuilder:
    builder = GraphBuilder("dram")
    images, height, width, channels = dims
    builder.tensor("x", f"bf16[{images},{height},{width},{channels}]{{2,1,3,0}}")
    builder.tensor("w", f"bf16[3,3,{channels},{filters}]")
    out = f"f32[{images},{height},{width},{filters}]{{2,1,3,0}}"
    builder.add("conv2d", ("x", "w"), out, name="y", padding=[1, 1, 1, 1])
    return builder
