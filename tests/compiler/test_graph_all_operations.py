"""Is the value right? Random chains of operations of all kinds, against numpy by bits."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

import systolic
from support.all_operations import SELECTS, random_graph
from support.lane_graphs import random_chip, values
from support.refusals import is_for_room
from support.tiers import quick_first
from systolic.bounds import run_bound
from systolic.compiler.arithmetic import rules_of
from systolic.errors import SystolicError
from systolic.hw.spec import Chip
from systolic.isa.lint.lint import lint
from systolic.machine import simulate
from systolic.run.tensors import graph_images
from systolic.run.verdict import differences
from systolic.workload import OPERATIONS, Graph, reference_graph

FEW, MANY = 24, 64
STEPPED_CYCLES = 10_000


def drawn(seed: int) -> tuple[Random, Chip, Graph]:
    rng = Random(seed)
    return rng, random_chip(rng, **rng.choice([SELECTS, {}])), random_graph(rng)


def test_the_graphs_have_every_operation_often() -> None:
    kinds = Counter(op.kind for seed in range(12 * MANY) for op in drawn(seed)[2].operations)
    assert kinds.keys() == OPERATIONS.keys()
    assert min(kinds.values()) >= 3


@pytest.mark.parametrize("seed", quick_first(range(FEW), 8))
def test_random_graphs(seed: int) -> None:
    holds(seed)


def test_one_predicate_for_all_elements_on_a_crowded_chip() -> None:
    """Tensors without tiles have no unbroken room, so what is given of them comes in pieces."""
    assert holds(5000137)


@pytest.mark.parametrize("seed", [31303, 31609])
def test_what_a_thousand_graphs_found(seed: int) -> None:
    """A predicate that the compiler makes is turned; a result buffer has one bank."""
    assert holds(seed)


@pytest.mark.slow
def test_many_random_graphs() -> None:
    """Most graphs are compared; the others have no room, or numbers beyond all bounds."""
    assert sum(holds(seed) for seed in range(FEW, MANY)) > (MANY - FEW) * 2 // 3


def holds(seed: int) -> bool:
    """Equal to numpy bit for bit in both engines, clean for the checker, above its bound.

    Returns False if numpy itself finds no finite result, or the chip has no room.
    """
    rng, chip, graph = drawn(seed)
    inputs = {name: values(rng, graph.shape(name)) for name in graph.inputs}
    expected = reference_graph(graph, inputs, rules_of(chip))
    if not all(np.isfinite(array.astype(np.float64)).all() for array in expected.values()):
        return False
    try:
        run = systolic.run(graph, chip, inputs)
    except SystolicError as error:
        if not is_for_room(error):
            raise
        return False
    assert run.compiled is not None
    expected = reference_graph(graph, inputs, rules_of(chip), run.compiled.arithmetic.own)
    for name, array in expected.items():
        wrong = differences(run.outputs[name], array, signed_zeros=False)
        assert wrong == 0, f"seed {seed}, {name}: {graph}"
    assert run.cycles * chip.period("pe_array") >= run_bound(graph, chip).ticks
    program = run.compiled.program
    there = [image.access for image in graph_images(run.compiled, inputs)]
    assert not [found for found in lint(program, chip, there) if found.severity == "error"]
    assert simulate(chip, program, values=False).trace.times == run.trace.times
    if run.cycles < STEPPED_CYCLES:
        stepped = systolic.run(graph, chip, inputs, engine="register")
        assert stepped.trace.times == run.trace.times
        for name in expected:
            assert stepped.outputs[name].tobytes() == run.outputs[name].tobytes()
    return True
