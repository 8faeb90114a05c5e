"""Is the value right? Random chains of convolutions and pooling, against numpy by bits."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import systolic
from support.image_graphs import chain
from support.lane_graphs import random_chip, values
from support.refusals import is_for_room
from systolic.bounds import run_bound
from systolic.compiler.arithmetic import rules_of
from systolic.errors import SystolicError
from systolic.isa.lint.lint import lint
from systolic.run.tensors import graph_images
from systolic.run.verdict import differences
from systolic.workload import reference_graph


@settings(max_examples=8)
@example(rng=Random(1035))  # two groups of sums write a tile, which is turned behind both
@given(rng=st.randoms(use_true_random=True))
def test_random_chains(rng):
    equals_the_reference(rng)


@pytest.mark.slow
@settings(max_examples=100)
@given(rng=st.randoms(use_true_random=True))
def test_many_random_chains(rng):
    equals_the_reference(rng)


def equals_the_reference(rng):
    """Equal to numpy bit for bit in both engines, clean for the checker, above its bound."""
    chip, graph = random_chip(rng), chain(rng).graph()
    inputs = {name: values(rng, graph.shape(name)) for name in graph.inputs}
    expected = reference_graph(graph, inputs, rules_of(chip))
    assume(all(np.isfinite(array.astype(np.float64)).all() for array in expected.values()))
    try:
        run = systolic.run(graph, chip, inputs)
    except SystolicError as error:
        if not is_for_room(error):
            raise
        return
    expected = reference_graph(graph, inputs, rules_of(chip), run.compiled.arithmetic.own)
    for name, array in expected.items():
        assert differences(run.outputs[name], array, signed_zeros=False) == 0, f"{name}: {graph}"
    assert run.cycles * chip.period("pe_array") >= run_bound(graph, chip).ticks
    given_ = [image.access for image in graph_images(run.compiled, inputs)]
    found = lint(run.compiled.program, chip, given_)
    assert not [each for each in found if each.severity == "error"]
    if run.cycles < 15_000:
        stepped = systolic.run(graph, chip, inputs, engine="register")
        assert stepped.trace.times == run.trace.times
        for name in expected:
            assert stepped.outputs[name].tobytes() == run.outputs[name].tobytes()
