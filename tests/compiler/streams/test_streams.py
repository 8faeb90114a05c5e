"""Is work that need not pass through the array right, on every chip, and is it done as streams?

Works are drawn as `benchmarks/bench_works.py` draws them, small: element by element, slices,
concats, pads, rows of tables, reductions, pools, in all layouts.
"""

from __future__ import annotations

import runpy
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import systolic
from support.chips import able_chip
from support.documents import ROOT
from systolic.compiler import compile_graph
from systolic.compiler.arithmetic import rules_of
from systolic.compiler.streams.table import with_padded_images
from systolic.config import load_chip
from systolic.hw.spec import Chip
from systolic.isa import DmaCopy
from systolic.isa.lint.lint import lint
from systolic.machine import simulate
from systolic.run.judge import judge_on
from systolic.run.tensors import graph_images, graph_results, initial_accesses
from systolic.run.verdict import differences, graph_verdict
from systolic.shipped import CHIPS, chips_of_one_core
from systolic.workload import Graph, GraphBuilder, reference_graph

SCRIPT: Any = runpy.run_path(str(ROOT / "benchmarks" / "bench_works.py"), run_name="bench_works")
ALL = chips_of_one_core()
IDEAL = "ideal_128x128"
STEPPED_CYCLES = 20_000
"""What takes longer is not stepped by the register engine."""


def random_chip(rng: Random) -> Chip:
    partitions = rng.randint(2, 12)
    return able_chip(
        partitions, rng.randint(1, partitions),
        state_buffer={
            "partitions": partitions, "banks": rng.choice([1, 2, 8]),
            "bytes_per_partition": rng.choice([512, 2048, 65536]),
            "port_scope": rng.choice(["bank", "partition"]),
        },
        dma={
            "queues": rng.randint(1, 4), "latency_cycles": rng.randint(0, 20),
            "outstanding": rng.choice([1, 1, 3]), "descriptor_cycles": rng.randint(0, 3),
        },
    )  # fmt: skip


def values_of(rng: Random, graph: Graph) -> dict[str, Any]:
    """Return random inputs; a float is a NaN, an infinity or a negative zero now and then."""
    numbers = np.random.default_rng(rng.randint(0, 1 << 30))
    found = {}
    for name in graph.inputs:
        shape = graph.shape(name)
        array = SCRIPT["_values"](numbers, shape)
        if shape.dtype.kind not in "iub" and shape.element_type != "pred":
            odd = numbers.random(shape.dims)
            array = np.where(odd < 0.01, np.nan, array)
            array = np.where((odd > 0.02) & (odd < 0.03), -0.0, array).astype(shape.dtype)
        found[name] = np.asarray(array, shape.dtype)
    return found


def is_right(graph: Graph, chip: Chip, rng: Random) -> bool:
    """Hold a graph against plain numpy bit for bit, clean for the checker, on both engines.

    Return whether it is done as streams, and not as matrices, which may be sooner. What the array
    turns by products, the verdict follows.
    """
    compiled = compile_graph("test", graph, chip, judge=judge_on(chip), verify=True)
    assert lint(compiled.program, chip, initial_accesses(compiled)) == []
    inputs = values_of(rng, graph)
    expected = reference_graph(graph, inputs, rules_of(chip))
    images = graph_images(compiled, inputs)
    outcome = simulate(chip, compiled.program, images)
    found = graph_results(compiled, outcome.memory)
    if compiled.streamed is not None and not compiled.streamed.turned:
        for name, array in expected.items():
            assert differences(found[name], array) == 0
    assert graph_verdict(compiled, chip, inputs, found)["equal"]
    if outcome.trace.cycles() > STEPPED_CYCLES:
        return compiled.streamed is not None
    stepped = simulate(chip, compiled.program, images, engine="register")
    assert stepped.trace.ticks == outcome.trace.ticks
    again = graph_results(compiled, stepped.memory)
    assert all(differences(again[name], array) == 0 for name, array in found.items())
    return compiled.streamed is not None


@settings(max_examples=25)
@given(rng=st.randoms(use_true_random=True))
def test_random_works_on_random_chips(rng):
    holds_on_a_random_chip(rng)


@pytest.mark.slow
@settings(max_examples=150)
@given(rng=st.randoms(use_true_random=True))
def test_many_random_works_on_random_chips(rng):
    holds_on_a_random_chip(rng)


def holds_on_a_random_chip(rng: Random) -> None:
    chip = random_chip(rng)
    is_right(SCRIPT["drawn"](rng, chip, ("elementwise", "structural"), 600), chip, rng)


@pytest.mark.parametrize("name", ALL)
def test_random_works_on_shipped_chips(name):
    rng, chip = Random(name), load_chip(CHIPS / f"{name}.toml")
    works = [SCRIPT["drawn"](rng, chip, ("elementwise", "structural"), 2000) for _ in range(2)]
    assert sum(is_right(work, chip, rng) for work in works) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_many_random_works_on_shipped_chips(name):
    rng, chip = Random(f"many {name}"), load_chip(CHIPS / f"{name}.toml")
    works = [SCRIPT["drawn"](rng, chip, ("elementwise", "structural"), 20_000) for _ in range(10)]
    assert sum(is_right(work, chip, rng) for work in works) >= 8


@pytest.mark.parametrize("kind", ["_reduce", "_pool", "_norm"])
def test_reductions_and_pools(kind):
    rng, done = Random(kind), 0
    draw = next(each for each in SCRIPT["FAMILIES"]["reduced"] if each.__name__ == kind)
    for name in (IDEAL, "neuroncore_v2", "fetch_16x16"):
        chip = load_chip(CHIPS / f"{name}.toml")
        for _ in range(4):
            is_right(draw(rng, 2000), chip, rng)
            done += 1
    assert done == 12


@pytest.mark.parametrize("axes", [(0, 1), (0, 2), (1,), (0,)])
@pytest.mark.parametrize("reduction", ["sum", "mean", "max"])
def test_what_an_engine_does_not_reduce_at_once_is_reduced_segment_by_segment(axes, reduction):
    chip = able_chip(4, 4)
    builder = GraphBuilder("dram")
    x = builder.tensor("x", "f32[6,9,2]")
    kept = [size for axis, size in enumerate((6, 9, 2)) if axis not in axes]
    out = f"f32[{','.join(map(str, kept))}]"
    builder.add("reduce", (x,), out, name="y", reduction=reduction, axes=axes)
    is_right(builder.graph(), chip, Random(1))


# What the programs are like


WORKS = {name: (least, graph) for name, least, graph in SCRIPT["ordinary_works"]()}
QUICK = [name for name, (least, _) in WORKS.items() if least.get(IDEAL, 1 << 20) < 10_000]


@pytest.mark.parametrize("name", QUICK)
def test_ordinary_work_runs_well(name):
    """Within 2.5 times of what must move, on an ideal chip."""
    least, graph = WORKS[name]
    chip = load_chip(CHIPS / f"{IDEAL}.toml")
    assert SCRIPT["measured"](graph, chip, values=False, seed=0) <= 2.5 * least[IDEAL]


@pytest.mark.parametrize("name", [IDEAL, "neuroncore_v2"])
def test_an_operand_in_another_order_is_turned_first(name):
    chip, builder = load_chip(CHIPS / f"{name}.toml"), GraphBuilder("dram")
    x, y = builder.tensor("x", "f32[256,256]"), builder.tensor("y", "f32[256,256]{0,1}")
    builder.add("binary", (x, y), "f32[256,256]", name="z", operator="add")
    assert is_right(builder.graph(), chip, Random(3))
    compiled = compile_graph("test", builder.graph(), chip, judge=judge_on(chip))
    assert [place.name for place in compiled.layers.dram] == ["x", "y", "y.relaid", "z"]


@pytest.mark.parametrize("seed", range(6))
def test_images_of_a_pool_are_padded_first(seed):
    """On a random chip, any type, reduction and padding; -0.0 and NaN among the pixels."""
    rng, builder = Random(seed), GraphBuilder("dram")
    dtype = rng.choice(["f32", "bf16", "f8e4m3fn"])
    x = builder.tensor("x", f"{dtype}[2,7,6,5]{rng.choice(['', '{2,1,3,0}'])}")
    reductions = ["max", "min", "sum", "mean", "product"]
    padding = (rng.randint(0, 2), rng.randint(0, 1), rng.randint(0, 2), 1)
    given = {"window": (3, 3), "padding": padding, "stride": (rng.randint(1, 2), 1)}
    builder.add("pool", (x,), name="y", reduction=rng.choice(reductions), **given)
    graph = with_padded_images(builder.graph())
    assert [op.kind for op in graph.operations] == ["pad", "pool"]
    is_right(builder.graph(), random_chip(rng), rng)


def test_dimensions_that_lie_alike_are_one():
    chip, counts = load_chip(CHIPS / f"{IDEAL}.toml"), set()
    for dims in ("33,33,3,2", "99,66", "6534"):
        builder = GraphBuilder("dram")
        names = [builder.tensor(name, f"f32[{dims}]") for name in ("x", "y")]
        builder.add("binary", names, name="z", operator="add")
        compiled = compile_graph("test", builder.graph(), chip, judge=judge_on(chip))
        counts.add(compiled.program.instructions)
    assert len(counts) == 1


def chain() -> Graph:
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "f32[40,50]"), builder.tensor("w", "f32[50]")
    sums = builder.add("binary", (x, w), name="sums", operator="add", broadcast_dimensions=(1,))
    builder.add("activation", (sums,), "bf16[40,50]", name="y", function="gelu")
    return builder.graph()


def test_a_chain_stays_on_the_chip():
    chip = load_chip(CHIPS / f"{IDEAL}.toml")
    compiled = compile_graph("test", chain(), chip, judge=judge_on(chip))
    copies = [i for i in compiled.program.instructions if isinstance(i, DmaCopy)]
    read = sum(i.source.size_bytes for i in copies if i.source.buffer == "dram")
    written = sum(i.target.size_bytes for i in copies if i.target.buffer == "dram")
    assert written == 40 * 50 * 2
    assert read >= 40 * 50 * 4
    assert {place.name for place in compiled.layers.dram} == {"x", "w", "y"}
    assert set(compiled.synchronised.layers) == {"sums", "y"}


def test_a_result_that_a_slice_takes_lies_in_dram_between_streams():
    builder = GraphBuilder("dram")
    x = builder.tensor("x", "f32[20,30]")
    y = builder.add("activation", (x,), name="y", function="square")
    given: dict[str, Any] = {"start": (0, 3), "stop": (20, 30), "step": (3, 1)}
    z = builder.add("slice", (y,), name="z", **given)
    builder.add("binary", (z, z), name="w", operator="multiply")
    assert is_right(builder.graph(), able_chip(4, 4), Random(0))


def test_the_same_program_every_time():
    chip = load_chip(CHIPS / "neuroncore_v2.toml")
    first, second = (
        compile_graph("test", chain(), chip, judge=judge_on(chip)).program for _ in range(2)
    )
    assert first == second
    run = systolic.run(chain(), chip, values_of(Random(1), chain()))
    assert run.compiled is not None
    assert run.compiled.program.instructions == first.instructions


def test_without_a_judge_the_best_estimate_is_taken():
    chip = load_chip(CHIPS / f"{IDEAL}.toml")
    plain, judged = (
        compile_graph("t", chain(), chip),
        compile_graph("t", chain(), chip, judge=judge_on(chip)),
    )
    ticks = [simulate(chip, c.program, values=False).trace.ticks for c in (plain, judged)]
    assert ticks[1] <= ticks[0] <= 1.5 * ticks[1]


def test_how_many_plans_are_judged_is_counted():
    chip, asked = load_chip(CHIPS / f"{IDEAL}.toml"), []
    judge = judge_on(chip)

    def counting(program, limit):
        asked.append(program)
        return judge(program, limit)

    compile_graph("test", chain(), chip, judge=counting)
    assert 2 <= len(asked) <= 24
