"""Depthwise convolutions: sums by plain loops, the work of diagonal tiles, the cheaper way.

The numbers are small whole ones, exact in float32 in any order, but for those of random graphs,
which are held against numpy in the machine's order.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import systolic
from support.chips import ideal_chip
from support.image_graphs import looped_convolution, made_sides, windows_of
from support.lane_graphs import random_chip, values
from support.refusals import is_for_room
from systolic.bounds import run_bound
from systolic.compiler import compile_graph
from systolic.compiler.arithmetic import rules_of
from systolic.compiler.ir.broken import BrokenPassError
from systolic.compiler.lower.verify import verify_layers
from systolic.compiler.tile.verify import verify_tiled
from systolic.errors import SystolicError
from systolic.isa import Activate, Buffer, LoadWeights, MatMul, Select
from systolic.isa.lint.lint import lint
from systolic.run.tensors import graph_images
from systolic.run.verdict import differences
from systolic.workload import GraphBuilder, reference_graph

PLAIN = {"stride": [1, 1], "padding": [1, 1, 1, 1], "dilation": [1, 1]}
ENGINES = ("event", "register")
CHIPS = {
    "channels in three blocks": ideal_chip(9, 9),
    "fewer columns than rows": ideal_chip(12, 9),
    "fewer rows than columns": ideal_chip(9, 11),
    "two K-tiles in a block": ideal_chip(9, 18, state_buffer={"partitions": 18}),
    "weights from the top": ideal_chip(9, 9, pe_array={"weight_path": "top"}),
}


def whole(dims, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, dims).astype(np.float32)


def depthwise(images, window=(3, 3), dtype: str = "f32", **given_) -> GraphBuilder:
    """Return a convolution with a filter for each channel, a bias and a ramp."""
    builder, taken, channels = GraphBuilder("dram"), {**PLAIN, **given_}, images[3]
    sides = made_sides(*images[1:3], taken, window)
    sums = ",".join(map(str, (images[0], *sides, channels)))
    builder.tensor("x", f"{dtype}[{','.join(map(str, images))}]")
    builder.tensor("w", f"{dtype}[{window[0]},{window[1]},1,{channels}]")
    builder.tensor("b", f"f32[{channels}]")
    builder.add("conv2d", ("x", "w"), f"f32[{sums}]", name="s", groups=channels, **taken)
    builder.add("binary", ("s", "b"), f"f32[{sums}]", name="t", operator="add",
                broadcast_dimensions=[3])  # fmt: skip
    builder.add("activation", ("t",), f"{dtype}[{sums}]", name="y", function="ramp")
    return builder


def of(compiled, cls) -> list:
    return [each for each in compiled.program.instructions if isinstance(each, cls)]


def diagonals(compiled) -> list[Select]:
    """Return the instructions that write weights along a diagonal, not identities."""
    return [each for each in of(compiled, Select) if not isinstance(each.value, int)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("images", "given_"),
    [((1, 4, 5, 22), {}), ((2, 5, 4, 13), {"stride": [2, 1], "padding": [0, 1, 0, 2]}),
     ((1, 6, 6, 27), {"dilation": [2, 2]})],
)  # fmt: skip
def test_sums_are_those_of_plain_loops(chip, images, given_, engine):
    data = {"x": whole(images), "w": whole((3, 3, 1, images[3]), 2), "b": whole(images[3], 3)}
    found = systolic.run(depthwise(images, **given_).graph(), CHIPS[chip], data, engine=engine)
    sums = looped_convolution(data["x"], data["w"], {**PLAIN, **given_}, images[3])
    assert np.array_equal(found.outputs["y"], np.maximum(sums + data["b"], 0))
    assert diagonals(found.compiled)


def test_each_tap_streams_the_results_once_for_each_block_of_channels():
    """22 channels on 9 rows are 3 blocks of 9, 9 and 4; bias and ramp leave with the sums."""
    images = (1, 4, 5, 22)
    data = {"x": whole(images), "w": whole((3, 3, 1, 22), 2), "b": whole(22, 3)}
    compiled = systolic.run(depthwise(images).graph(), CHIPS["channels in three blocks"],
                            data).compiled  # fmt: skip
    made = diagonals(compiled)
    assert sorted(each.target.partitions for each in made) == [4] * 9 + [9] * 18
    starts = {(each.target.start, each.target.partitions) for each in made}
    loaded = [each.weights for each in of(compiled, LoadWeights)]
    products = [each for each in of(compiled, MatMul) if each.moving.elements == 20
                and each.accumulate]  # fmt: skip
    assert len(products) == 3 * 8  # all taps but the first add to its sums
    assert {(weights.start, weights.partitions) for weights in loaded} >= starts
    drains = [each for each in of(compiled, Activate) if each.source.buffer is Buffer.RESULT]
    assert sorted(each.source.partitions for each in drains) == [4, 9, 9]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_chip_that_rounds_once_keeps_its_way_for_float32(engine):
    """A product that is rounded on its own, and then added, would be rounded twice."""
    chip = ideal_chip(9, 9, pe_array={"fused_multiply_add": True})
    images, rng = (1, 4, 4, 10), np.random.default_rng(3)
    data = {"x": rng.standard_normal(images), "w": rng.standard_normal((3, 3, 1, 10)),
            "b": rng.standard_normal(10)}  # fmt: skip
    for dtype, diagonal in (("f32", False), ("bf16", True)):
        graph = depthwise(images, dtype=dtype).graph()
        given_ = {name: data[name].astype(graph.shape(name).dtype) for name in data}
        found = systolic.run(graph, chip, given_, engine=engine)
        expected = reference_graph(graph, given_, rules_of(chip))["y"]
        assert differences(found.outputs["y"], expected, signed_zeros=False) == 0
        assert bool(diagonals(found.compiled)) == diagonal


def test_more_taps_than_the_array_has_rows_keep_the_order_of_a_product():
    """Nine floats on 4 rows are added in parts of 4, 4 and 1; whole numbers in any order."""
    images, rng = (1, 4, 4, 10), np.random.default_rng(4)
    data = {"x": rng.standard_normal(images), "w": rng.standard_normal((3, 3, 1, 10)),
            "b": rng.standard_normal(10)}  # fmt: skip
    for dtype in ("f32", "bf16"):
        graph = depthwise(images, dtype=dtype).graph()
        given_ = {name: data[name].astype(graph.shape(name).dtype) for name in data}
        found = systolic.run(graph, ideal_chip(4, 4), given_)
        expected = reference_graph(graph, given_, rules_of(ideal_chip(4, 4)))["y"]
        assert differences(found.outputs["y"], expected, signed_zeros=False) == 0
        assert not diagonals(found.compiled)


def test_a_channel_alone_is_no_group():
    """Its taps share the partitions, as those of all images with few channels do."""
    images = (1, 4, 4, 1)
    data = {"x": whole(images), "w": whole((3, 3, 1, 1), 2), "b": whole(1, 3)}
    compiled = systolic.run(depthwise(images).graph(), CHIPS["weights from the top"], data).compiled
    assert not diagonals(compiled)


def test_a_chip_whose_engines_do_not_select_takes_the_other_way():
    engine = {"does": ["copy", "memset", "activate", "tensor_tensor", "tensor_scalar", "iota"]}
    chip = ideal_chip(9, 9, engines={"e": engine, "f": {"does": ["select"], "reads": []}})
    images = (1, 3, 3, 10)
    data = {"x": whole(images), "w": whole((3, 3, 1, 10), 2), "b": whole(10, 3)}
    found = systolic.run(depthwise(images).graph(), chip, data)
    sums = looped_convolution(data["x"], data["w"], PLAIN, 10)
    assert np.array_equal(found.outputs["y"], np.maximum(sums + data["b"], 0))
    assert not diagonals(found.compiled)


def random_depthwise(rng: Random) -> GraphBuilder:
    channels = rng.randint(5, 24)
    images = (rng.randint(1, 3), rng.randint(1, 6), rng.randint(1, 6), channels)
    places, window = windows_of(rng, *images[1:3])
    return depthwise(images, window, rng.choice(["f32", "bf16", "f16"]), **places)


@pytest.mark.slow
@settings(max_examples=25)
@given(rng=st.randoms(use_true_random=True))
def test_random_depthwise_convolutions(rng):
    equals_the_reference(rng)


@pytest.mark.slow
@settings(max_examples=60)
@given(rng=st.randoms(use_true_random=True))
def test_many_random_depthwise_convolutions(rng):
    equals_the_reference(rng)


def equals_the_reference(rng: Random) -> None:
    """Equal to numpy in both engines; every pass verified, the program clean, above its bound."""
    chip, graph = random_chip(rng), random_depthwise(rng).graph()
    inputs = {name: values(rng, graph.shape(name)) for name in graph.inputs}
    expected = reference_graph(graph, inputs, rules_of(chip))["y"]
    try:
        compile_graph("random", graph, chip, verify=True)
        runs = [systolic.run(graph, chip, inputs, engine=engine) for engine in ENGINES]
    except SystolicError as error:
        if not is_for_room(error):
            raise
        return
    run = runs[0]
    assert run.trace.times == runs[1].trace.times
    for each in runs:
        assert differences(each.outputs["y"], expected, signed_zeros=False) == 0
    assert run.cycles * chip.period("pe_array") >= run_bound(graph, chip).ticks
    accesses = [image.access for image in graph_images(run.compiled, inputs)]
    assert not [d for d in lint(run.compiled.program, chip, accesses) if d.severity == "error"]


# the verifiers

COMPILED = compile_graph("d", depthwise((1, 4, 5, 10)).graph(), ideal_chip(9, 9), verify=True)


def test_a_diagonal_of_other_sizes_is_found():
    layers = COMPILED.layers
    node = next(each for each in layers.nodes if each.word() == "diagonal")
    for name in (node.output,):
        changed = tuple(
            replace(m, dims=(m.rows, m.cols + 1))
            if m.name == name else m for m in layers.matrices
        )  # fmt: skip
        with pytest.raises(BrokenPassError, match=r"is .* not 162 x 10 in square"):
            verify_layers(replace(layers, matrices=changed))


@pytest.mark.parametrize(
    ("kind", "words"),
    [("diagonal", "elements of w.* are read before"), ("multiply", "come behind|sums begin")],
)
def test_a_tap_that_is_left_out_is_found(kind, words):
    tiled = COMPILED.tiled
    place = [n for n, task in enumerate(tiled.tasks) if task.kind.word() == kind][1]
    tasks = tuple(task for n, task in enumerate(tiled.tasks) if n != place)
    with pytest.raises(BrokenPassError, match=words):
        verify_tiled(replace(tiled, tasks=tasks), COMPILED.layers)
