"""Is the value right? Graphs that do not fit, cut into parts: against numpy, on both engines."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.lane_graphs import values
from systolic.compiler import compile_graph
from systolic.compiler.arithmetic import rules_of
from systolic.compiler.parts.choose import Chooser, EqualParts
from systolic.compiler.parts.compiled import in_parts
from systolic.compiler.parts.cuts import part_for
from systolic.compiler.parts.divide import divided
from systolic.compiler.parts.dram import DramRoom
from systolic.compiler.parts.graph_part import TensorBox
from systolic.config import load_chip
from systolic.errors import CompileError
from systolic.isa import require_clean
from systolic.machine import simulate
from systolic.run.judge import judge_on
from systolic.run.tensors import graph_images, graph_results, initial_accesses
from systolic.run.verdict import graph_verdict
from systolic.shipped import CHIPS
from systolic.workload import GraphBuilder
from systolic.workload.evaluate import reference_values
from systolic.workload.expand import expanded
from systolic.workload.options import Options


def small_chip(bytes_per_partition: int):
    """Return an array of 4 x 4 with so much memory beside it."""
    return ideal_chip(
        4,
        4,
        state_buffer={"bytes_per_partition": bytes_per_partition},
        dma={"queues": 2, "latency_cycles": 5},
    )


def convolution(rng: Random):
    """Return a convolution, perhaps with bias and function, of a few pixels."""
    builder, dtype = GraphBuilder("dram"), rng.choice(["f32", "bf16"])
    size, stride, dilation = rng.choice([1, 2, 3]), rng.choice([1, 2]), rng.choice([1, 2])
    images, height, width = rng.choice([1, 2]), rng.randint(6, 11), rng.randint(6, 9)
    channels, filters = rng.choice([1, 3, 5]), rng.choice([2, 6])
    extent = (size - 1) * dilation + 1
    padding = tuple(rng.randint(0, min(2, extent - 1)) for _ in range(4))
    layout = rng.choice(["{3,2,1,0}", "{2,1,3,0}"])
    x = builder.tensor("x", f"{dtype}[{images},{height},{width},{channels}]{layout}")
    w = builder.tensor("w", f"{dtype}[{size},{size},{channels},{filters}]")
    given = {"stride": (stride, stride), "padding": padding, "dilation": (dilation, dilation)}
    down = (height + padding[0] + padding[1] - extent) // stride + 1
    across = (width + padding[2] + padding[3] - extent) // stride + 1
    out = f"f32[{images},{down},{across},{filters}]{layout}"
    sums = builder.add("conv2d", (x, w), out, name="sums", **given)
    if rng.random() < 0.5:
        bias = builder.tensor("bias", f"f32[{filters}]")
        added = {"operator": "add", "broadcast_dimensions": (3,)}
        sums = builder.add("binary", (sums, bias), out, name="biased", **added)
        builder.add("activation", (sums,), out, name="y", function="ramp")
    return builder.graph()


def pooled(rng: Random):
    """Return a pool with padding."""
    builder = GraphBuilder("dram")
    x = builder.tensor("x", "f32[1,11,9,5]")
    given = {"window": (3, 3), "stride": (2, 2), "padding": (1, 1, 1, 1)}
    name = rng.choice(["max", "sum"])
    builder.add("pool", (x,), "f32[1,6,5,5]", name="y", reduction=name, **given)
    return builder.graph()


def product(rng: Random):
    """Return a batched product and what goes over it."""
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "f32[2,17,6]"), builder.tensor("w", "f32[6,13]")
    sums = builder.matmul(x, w, "f32[2,17,13]", name="sums")
    builder.add("activation", (sums,), "f32[2,17,13]", name="y", function="gelu")
    return builder.graph()


def normalised(rng: Random):
    """Return a product and a softmax over its rows."""
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "f32[9,6]"), builder.tensor("w", "f32[6,10]")
    sums = builder.matmul(x, w, "f32[9,10]", name="sums")
    builder.add("softmax", (sums,), "f32[9,10]", name="y")
    return builder.graph()


def tiled(rng: Random):
    """Return two products that share an operand, all of them in tiles."""
    builder, layout = GraphBuilder("dram"), rng.choice(["{1,0:T(4,4)}", "{0,1:T(2,4)}"])
    x = builder.tensor("x", f"f32[9,6]{layout}")
    for name in ("y", "z"):
        w = builder.tensor(f"{name}_w", f"f32[6,13]{layout}")
        builder.matmul(x, w, f"f32[9,13]{layout}", name=name)
    return builder.graph()


def run_in_parts(graph, chip, rng):
    """Run a graph in parts; its values are those of the reference, on both engines."""
    compiled = parts_of(graph, chip)
    require_clean(compiled.program, chip, initial_accesses(compiled))
    inputs = {name: values(rng, graph.shape(name)) for name in graph.inputs}
    images, times = graph_images(compiled, inputs), []
    for engine in ("event", "register"):
        outcome = simulate(chip, compiled.program, images, engine=engine)
        found = graph_results(compiled, outcome.memory)
        verdict = graph_verdict(compiled, chip, inputs, found)
        assert verdict["equal"], (engine, verdict["wrong"])
        times.append(outcome.trace.times)
    assert times[0] == times[1]


def parts_of(graph, chip, judge=True):
    """Return a graph compiled in parts, whether it fits or not."""
    options = Options(identity="built")

    def compile_part(part):
        return compile_graph("part", part, chip, options, verify=True)

    equal = EqualParts(chip, options, compile_part)
    chooser = Chooser(equal, judge_on(chip) if judge else None)
    return in_parts("parts", graph, divided(expanded(graph)), chooser)


@pytest.mark.parametrize("seed", range(8))
def test_convolutions_that_do_not_fit(seed):
    rng = Random(seed)
    graph, chip = convolution(rng), small_chip(192)
    run_in_parts(graph, chip, rng)
    run = systolic.run(graph, chip, {n: values(rng, graph.shape(n)) for n in graph.inputs})
    assert run.summary["values"]["equal"]


@pytest.mark.parametrize("make", [pooled, product, normalised, tiled])
def test_other_work_that_does_not_fit(make):
    rng = Random(3)
    run_in_parts(make(rng), small_chip(128), rng)


@pytest.mark.parametrize("make", [convolution, pooled, product])
def test_a_box_of_a_result_needs_just_its_boxes(make):
    """Every box of the result is made by its part as it is by the whole: plain numpy twice."""
    rng, rules = Random(5), rules_of(small_chip(128))
    graph = make(rng)
    inputs = {name: values(rng, graph.shape(name)) for name in graph.inputs}
    whole = reference_values(graph, inputs, rules)
    out = graph.operations[-1].output
    boxes = 0
    for _ in range(60):
        dims = graph.shape(out).dims
        start = [rng.randrange(size) for size in dims]
        sizes = [rng.randint(1, size - first) for size, first in zip(dims, start, strict=True)]
        part = part_for(graph, graph.operations, TensorBox(tuple(start), tuple(sizes)))
        if part is None:
            continue
        boxes += 1
        own = {n: inputs[n][part.boxes[n].slices] for n in part.graph.inputs}
        found = reference_values(part.graph, own, rules)[out]
        assert np.array_equal(found, whole[out][part.boxes[out].slices])
    assert boxes > 20


def test_equal_layers_are_compiled_once():
    builder = GraphBuilder("dram")
    now = builder.tensor("x", "f32[6,6]")
    for layer in range(4):
        w = builder.tensor(f"w{layer}", "f32[6,6]")
        now = builder.matmul(now, w, "f32[6,6]", name=f"y{layer}")
    compiled = parts_of(builder.graph(), load_chip(CHIPS / "ideal_4x4.toml"))
    assert len(compiled.placed) == 4
    assert len({id(part.compiled) for part in compiled.placed}) == 1
    assert [*dict.fromkeys(compiled.synchronised.layers)] == ["y0", "y1", "y2", "y3"]


def test_transposes_between_operations_are_names_of_the_same_bytes():
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "f32[1,3,6,6]"), builder.tensor("w", "f32[1,1,3,4]")
    last = builder.transpose(x, "f32[1,6,6,3]", (0, 2, 3, 1), name="channels_last")
    sums = builder.add("conv2d", (last, w), "f32[1,6,6,4]", name="sums")
    builder.transpose(sums, "f32[1,4,6,6]", (0, 3, 1, 2), name="y")
    compiled = parts_of(builder.graph(), load_chip(CHIPS / "ideal_4x4.toml"))
    assert {*compiled.synchronised.layers} == {"sums"}


def test_rooms_in_dram_are_given_again():
    chip = small_chip(128)
    room = DramRoom(chip)
    assert room.take("a", 100) == (0, [])
    assert room.take("b", 64) == (128, [])
    room.give("a")
    assert room.take("c", 64) == (0, ["a"])
    assert room.take("d", 64) == (64, ["a"])
    room.give("c")
    assert room.take("e", 64) == (0, ["c"])
    with pytest.raises(CompileError, match=r"no room for f: it needs \d+ bytes beside 192"):
        room.take("f", chip.dram.size_bytes)


def test_what_fits_in_no_part_is_refused_by_the_smallest():
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "f32[1,4,400,3]"), builder.tensor("w", "f32[3,3,3,4]")
    builder.add("conv2d", (x, w), "f32[1,2,398,4]", name="y")
    with pytest.raises(CompileError, match=r"the smallest part that was tried makes .* of y"):
        systolic.run(builder.graph(), small_chip(32))
