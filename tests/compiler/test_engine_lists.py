"""Does the compiler find the engine for each piece of work, on chips with one, three and six?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

import systolic
from compiler.test_graph_values import as_bits, random_chip, random_graph, random_values
from support.chips import ideal_chip
from support.random_programs import engine_tables
from support.refusals import is_for_room
from support.tiers import quick_first
from systolic.bounds import run_bound
from systolic.compiler import Options, compile_graph
from systolic.compiler.arithmetic import rules_of
from systolic.compiler.cost.engines import cheapest_engine, drain_engine
from systolic.compiler.ir.nodes import TurnNode
from systolic.config import load_chip
from systolic.errors import CompileError, SystolicError
from systolic.hw.spec import Chip
from systolic.isa import Access, Activate, Buffer, Copy, Pool, Select
from systolic.isa.lint.lint import lint
from systolic.machine import simulate
from systolic.run.tensors import graph_images
from systolic.run.verdict import differences
from systolic.workload import Graph, GraphBuilder, reference_graph

CHIPS = Path(__file__).resolve().parents[2] / "configs" / "chips"
BOTH = ["state_buffer", "result_buffer"]


def at(buffer: Buffer, count: int = 8, dtype: str = "f32", step: int = 1) -> Access:
    return Access(buffer, dtype, 0, 4, 0, ((step, count),))


STATE, RESULT = at(Buffer.STATE), at(Buffer.RESULT)
COPY = Copy(engine="", source=RESULT, target=STATE)
CHIP = ideal_chip(4, 4, clock={"core": 1000, "half": 500}, engines={
    "a": {"does": ["copy", "memset"], "writes": ["result_buffer"]},
    "b": {"does": ["copy", "pool"], "rates": [{"types": ["f32"], "elements": 1, "cycles": 3}]},
    "c": {"does": ["copy", "activate"], "elements_per_cycle": 4, "clock": "half"},
    "d": {"does": ["copy", "activate"], "elements_per_cycle": 2},
    "e": {"does": ["copy", "select"], "elements_per_cycle": 2, "fixed_cycles": 1},
})  # fmt: skip


@pytest.mark.parametrize(
    ("instruction", "chosen", "engine"),
    [
        # 8 elements: b takes 24 cycles, c 2 of 2 ns, d 4 and e 5 of 1 ns. c is as soon as d, and
        # stands before it; a cannot write the state buffer.
        (COPY, None, "c"),
        (COPY, "e", "e"),
        (COPY, "a", "c"),
        (replace(COPY, target=RESULT), None, "c"),
        (replace(COPY, source=at(Buffer.STATE, 2), target=at(Buffer.RESULT, 2)), None, "d"),
        # 3 elements of bf16: b takes 3 cycles, c 1 of 2 ns, d 2.
        (replace(COPY, source=at(Buffer.STATE, 3, "bf16"), target=at(Buffer.STATE, 3, "bf16")),
         None, "c"),
        (Activate(engine="", function="tanh", source=RESULT, target=STATE), "b", "c"),
        (Pool(engine="", function="max", window=2, source=STATE, target=at(Buffer.STATE, 4)),
         "c", "b"),
        (Select(engine="", compare="equal", value=1, target=STATE), None, "e"),
    ],
)  # fmt: skip
def test_the_cheapest_that_can_or_what_was_chosen(instruction, chosen, engine) -> None:
    assert cheapest_engine(CHIP, Options(drain_engine=chosen), instruction) == engine


def test_work_that_no_engine_can_do() -> None:
    chip = ideal_chip(4, 4, engines={"a": {"does": ["copy"], "reads": ["state_buffer"]}})
    graph = _transpose("f32[4,4]")
    with pytest.raises(CompileError) as caught:
        compile_graph("t", graph, chip)
    assert str(caught.value) == (
        "no engine of test 4 x 4 does copy from result_buffer to state_buffer "
        "(a does copy, reads state_buffer, writes state_buffer and result_buffer)"
    )
    chip = ideal_chip(4, 4, engines={"a": {"does": ["copy"]}})
    with pytest.raises(CompileError, match="no engine of test 4 x 4 does select to state_buffer"):
        compile_graph("t", graph, chip, Options(identity="built"))


def test_an_engine_gets_only_the_functions_it_knows() -> None:
    """`a` is quicker, and first in the file, but knows the reciprocal alone."""
    chip = ideal_chip(4, 4, engines={
        "a": {"does": ["activate"], "functions": {"activate": ["reciprocal"]}},
        "b": {"does": ["activate"], "elements_per_cycle": 1, "functions": {"activate": ["tanh"]}},
    })  # fmt: skip
    work = Activate(engine="", function="reciprocal", source=STATE, target=STATE)
    assert cheapest_engine(chip, Options(), work) == "a"
    assert cheapest_engine(chip, Options(), replace(work, function="tanh")) == "b"
    with pytest.raises(CompileError) as caught:
        cheapest_engine(chip, Options(), replace(work, function="sin"))
    both = "reads state_buffer and result_buffer, writes state_buffer and result_buffer"
    assert str(caught.value) == (
        "no engine of test 4 x 4 does activate of sin from state_buffer to state_buffer "
        f"(a does activate (of reciprocal), {both}; b does activate (of tanh), {both})"
    )


@pytest.mark.parametrize("chosen", ["activation", "b2", "gpsimd"])
def test_a_drain_engine_that_is_not_there_or_cannot(chosen: str) -> None:
    chip = ideal_chip(4, 4, engines={
        "b1": {"does": ["copy"]}, "b2": {"does": ["memset"]},
        "gpsimd": {"does": ["copy"], "reads": ["state_buffer"]},
    })  # fmt: skip
    with pytest.raises(CompileError, match=f"needs one of b1, engines of .*, found {chosen}"):
        compile_graph("t", _transpose("f32[4,4]"), chip, Options(drain_engine=chosen))


@pytest.mark.parametrize("name", ["patent_128x64", "ideal_128x128", "multi_clock_128x128"])
def test_the_patents_chips_drain_by_the_activation_engine(name: str) -> None:
    assert drain_engine(load_chip(CHIPS / f"{name}.toml"), Options()) == "activation"


def _transpose(shape: str) -> Graph:
    builder = GraphBuilder("state_buffer")
    builder.transpose(builder.tensor("x", shape), shape)
    return builder.graph()


def listed(rng: Random, names: int) -> Chip:
    """Return a random chip whose first engine can do what the compiler asks for."""
    plain = random_chip(rng).model_dump(exclude={"activation", "pooling", "port_priority"})
    engines = engine_tables(rng, ["core"])
    while len(engines) < names:
        engines |= engine_tables(rng, ["core"])
    kept = dict(list(engines.items())[:names])
    able = {"does": ["copy", "select"], "reads": BOTH, "writes": BOTH, "rates": []}
    first = next(iter(kept))
    kept[first] = kept[first] | able
    return Chip.model_validate(plain | {"engines": kept})


@pytest.mark.parametrize("names", [1, 3, 6])
@pytest.mark.parametrize("seed", quick_first(range(12), 3))
def test_random_graphs_on_random_lists(names: int, seed: int) -> None:
    """Equal to numpy, clean for the checker, not below the bound, and alike in both engines."""
    rng = Random(1000 * names + seed)
    chip, graph = listed(rng, names), random_graph(rng)
    assert len(chip.lane_engines) == names
    options = Options(identity=rng.choice(["stored", "built"]))
    inputs = {name: random_values(rng, graph.shape(name)) for name in graph.inputs}
    try:
        run = systolic.run(graph, chip, inputs, options=options)
    except SystolicError as error:
        assert is_for_room(error)  # noqa: PT017
        return
    turned = any(isinstance(node, TurnNode) for node in run.compiled.layers.nodes)
    expected = reference_graph(graph, inputs, rules_of(chip), run.compiled.arithmetic.own)
    finite = all(np.isfinite(array.astype(np.float64)).all() for array in expected.values())
    for name, array in expected.items():
        wrong = differences(run.outputs[name], array, signed_zeros=not turned) if finite else 0
        assert wrong == 0, f"{name}: {graph}"
    program = run.compiled.program
    given = [image.access for image in graph_images(run.compiled, inputs)]
    assert not [d for d in lint(program, chip, given) if d.severity == "error"]
    end = run.trace.cycles() * chip.period("pe_array")
    assert end >= run_bound(graph, chip).ticks
    if run.trace.cycles() < 20_000:
        stepped = systolic.run(graph, chip, inputs, options=options, engine="register")
        assert stepped.trace.times == run.trace.times
        for name in expected:
            assert np.array_equal(as_bits(stepped.outputs[name]), as_bits(run.outputs[name]))
    assert simulate(chip, program, values=False).trace.times == run.trace.times
