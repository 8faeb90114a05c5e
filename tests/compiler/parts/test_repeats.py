"""Is what a graph repeats compiled once, and is its value right? Stretches of equal operations."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from support.chips import ideal_chip
from support.lane_graphs import values
from systolic.compiler import compile_graph, pipeline
from systolic.compiler.parts.repeats import repeated
from systolic.config import load_chip
from systolic.isa import require_clean
from systolic.machine import simulate
from systolic.run.judge import judge_on
from systolic.run.tensors import graph_images, graph_results, initial_accesses
from systolic.run.verdict import graph_verdict
from systolic.shipped import CHIPS
from systolic.workload import GraphBuilder
from systolic.workload.options import Options

CHIP = ideal_chip(8, 8, state_buffer={"bytes_per_partition": 4096})


def layers(count, wide=256, rows=32, *, cached=False):
    """Return equal layers, their own names in turn: what goes on from one to the next is small.

    cached: each layer makes a result of the graph besides, which it takes itself too.
    """
    builder = GraphBuilder("dram")
    mask = builder.tensor("mask", f"f32[{rows},8]")
    x = builder.tensor("x", f"f32[{rows},8]")
    results = []
    for number in range(count):
        up = builder.tensor(f"up{number}", f"f32[8,{wide}]")
        down = builder.tensor(f"down{number}", f"f32[{wide},8]")
        h = builder.matmul(x, up, f"f32[{rows},{wide}]", name=f"h{number}")
        h = builder.add("activation", (h,), name=f"f{number}", function="ramp")
        y = builder.matmul(h, down, f"f32[{rows},8]", name=f"y{number}")
        results += [y] * cached
        y = builder.add("binary", (y, x), name=f"r{number}", operator="add")
        x = builder.add("binary", (y, mask), name=f"m{number}", operator="multiply")
    if cached:
        return builder.graph((*results, x))
    return builder.graph()


@pytest.mark.parametrize("cached", [False, True])
def test_equal_layers_are_compiled_once_and_compute_right(cached, monkeypatch):
    graph, asked = layers(4, cached=cached), []
    passed = pipeline._passed

    def counting(name, part, *given, **more):
        asked.append(len(part.operations))
        return passed(name, part, *given, **more)

    monkeypatch.setattr(pipeline, "_passed", counting)
    compiled = compile_graph("layers", graph, CHIP, verify=True, judge=judge_on(CHIP))
    assert len(compiled.parts) == 4
    assert asked == [5]  # a layer's operations, once
    require_clean(compiled.program, CHIP, initial_accesses(compiled))
    rng = Random(1)
    inputs = {name: values(rng, graph.shape(name)) for name in graph.inputs}
    images, times = graph_images(compiled, inputs), []
    for engine in ("event", "register"):
        outcome = simulate(CHIP, compiled.program, images, engine=engine)
        found = graph_results(compiled, outcome.memory)
        assert {*found} == {*graph.outputs}
        verdict = graph_verdict(compiled, CHIP, inputs, found)
        assert verdict["equal"], (engine, verdict["wrong"])
        times.append(outcome.trace.times)
    assert times[0] == times[1]
    x = inputs["x"]
    for number in range(4):  # the same in plain numpy, by its meaning
        h = np.maximum(x @ inputs[f"up{number}"], 0)
        x = (h @ inputs[f"down{number}"] + x) * inputs["mask"]
    np.testing.assert_allclose(found[graph.outputs[-1]], x, rtol=1e-3)


def test_stretches_end_where_the_fewest_bytes_go_on():
    """The ends lie between the layers, whatever is in front of them and behind."""
    builder = GraphBuilder("dram")
    x = builder.tensor("x", "f32[32,8]")
    x = builder.add("activation", (x,), name="front", function="tanh")
    for number in range(3):
        wide = builder.tensor(f"wide{number}", "f32[8,256]")
        narrow = builder.tensor(f"narrow{number}", "f32[256,8]")
        h = builder.matmul(x, wide, "f32[32,256]", name=f"h{number}")
        x = builder.matmul(h, narrow, "f32[32,8]", name=f"y{number}")
    builder.add("activation", (x,), name="back", function="gelu")
    parts = repeated(builder.graph(), CHIP, Options())
    found = [[op.name for op in part.graph.operations] for part in parts]
    assert found == [["front"], ["h0", "y0"], ["h1", "y1"], ["h2", "y2"], ["back"]]


def test_what_would_lose_by_it_is_one_schedule():
    """Tensors between the layers that take as long as the layers: nothing is divided."""
    assert repeated(layers(4), CHIP, Options())
    assert not repeated(layers(4, wide=8), CHIP, Options())
    assert not repeated(layers(1), CHIP, Options())


def test_no_plan_is_simulated_without_effort():
    """A greater effort simulates more programs, none of 0 any, and the counts say so."""
    chip = load_chip(CHIPS / "ideal_128x128.toml")
    builder = GraphBuilder("dram")
    x = builder.tensor("x", "f32[40,300]")
    builder.add("activation", (x,), "f32[40,300]", name="y", function="gelu")
    judge, asked = judge_on(chip), []
    for effort in (0, 2, 12):
        count = []

        def counting(program, limit, count=count):
            count.append(program)
            return judge(program, limit)

        compile_graph("t", builder.graph(), chip, Options(effort=effort), judge=counting)
        asked.append(len(count))
    assert asked[0] == 0 < asked[1] < asked[2]
