"""Is the value right? Random graphs of operations element by element, against numpy by bits."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import systolic
from support.lane_graphs import grow, random_chip, start, values
from support.refusals import is_for_room
from systolic.compiler import Options
from systolic.compiler.arithmetic import rules_of
from systolic.errors import SystolicError, WorkloadError
from systolic.isa.lint.lint import lint
from systolic.machine import simulate
from systolic.run.tensors import graph_images
from systolic.run.verdict import differences
from systolic.workload import Graph, GraphBuilder, reference_graph

AT_ONCE = "take at most 1 at once"


def random_graph(rng: Random) -> Graph:
    builder = GraphBuilder(rng.choice(["state_buffer", "dram"]))
    now = start(rng, builder)
    for number in range(rng.randint(1, 4)):
        now = grow(rng, builder, now, number)
    return builder.graph()


@settings(max_examples=15)
@given(rng=st.randoms(use_true_random=True))
def test_random_graphs(rng):
    equals_the_reference(rng)


@pytest.mark.slow
@settings(max_examples=500)
@given(rng=st.randoms(use_true_random=True))
def test_many_random_graphs(rng):
    equals_the_reference(rng)


def equals_the_reference(rng):
    """Equal to numpy bit for bit in both engines, clean for the checker, as long without values.

    What the reference refuses, a reduction of elements one at a time, the compiler refuses too.
    """
    chip, graph = random_chip(rng), random_graph(rng)
    options = Options(drain_engine=rng.choice([None, "activation", "pooling"]))
    inputs = {name: values(rng, graph.shape(name)) for name in graph.inputs}
    try:
        expected = reference_graph(graph, inputs, rules_of(chip))
    except WorkloadError:
        with pytest.raises(SystolicError) as refused:
            systolic.run(graph, chip, inputs, options=options)
        assert is_for_room(refused.value) or AT_ONCE in str(refused.value)
        return
    assume(all(np.isfinite(array.astype(np.float64)).all() for array in expected.values()))
    try:
        run = systolic.run(graph, chip, inputs, options=options)
    except SystolicError as error:
        if not is_for_room(error):
            raise
        return
    expected = reference_graph(graph, inputs, rules_of(chip), run.compiled.arithmetic.own)
    for name, array in expected.items():
        assert differences(run.outputs[name], array, signed_zeros=False) == 0, f"{name}: {graph}"
    program = run.compiled.program
    given_ = [image.access for image in graph_images(run.compiled, inputs)]
    assert not [d for d in lint(program, chip, given_) if d.severity == "error"]
    assert simulate(chip, program, values=False).trace.times == run.trace.times
    if run.trace.cycles() < 20_000:
        stepped = systolic.run(graph, chip, inputs, options=options, engine="register")
        assert stepped.trace.times == run.trace.times
        for name in expected:
            assert stepped.outputs[name].tobytes() == run.outputs[name].tobytes()
