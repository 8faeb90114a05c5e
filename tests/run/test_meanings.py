"""Is the value right? Each operation against numpy or jax.lax, for random operands and attributes.

The chip's bits are the reference's (the run's verdict); here they are held against another writer's
function. Special values are among them, both engines agree, and the program is clean for lint.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from support.lane_graphs import HOMES, random_chip
from support.meanings import CASES, operands, shape_text
from support.refusals import is_for_room
from systolic.errors import SystolicError
from systolic.isa.lint.lint import lint
from systolic.run.tensors import graph_images
from systolic.workload import GraphBuilder

FEW, MANY = 3, 200
STEPPED_CYCLES = 10_000


@pytest.mark.parametrize("kind", CASES)
def test_some(kind: str) -> None:
    assert sum(holds(kind, seed) for seed in range(FEW)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_many(kind: str) -> None:
    assert sum(holds(kind, seed) for seed in range(FEW, MANY)) > MANY // 2


def holds(kind: str, seed: int) -> bool:
    """Return whether a case ran, with the right values; False if the chip has no room for it."""
    rng = Random(f"{kind} {seed}")
    case, chip = CASES[kind](rng), random_chip(rng)
    builder = GraphBuilder(rng.choice(HOMES))
    names = [
        builder.tensor(f"x{n}", shape_text(rng, each), rng.choice(HOMES))
        for n, each in enumerate(case.inputs)
    ]
    builder.add(case.kind, names, shape_text(rng, case.out), name="y", **case.given)
    graph = builder.graph()
    arrays = operands(rng, case, [graph.shape(name) for name in names])
    inputs = dict(zip(names, arrays, strict=True))
    try:
        with np.errstate(all="ignore"):
            run = systolic.run(graph, chip, inputs)
    except SystolicError as error:
        if not is_for_room(error):
            raise
        return False
    assert run.compiled is not None
    ordinary = all(np.isfinite(each.astype(np.float64)).all() for each in arrays)
    turns = any(node.kind == "turn" for node in run.compiled.layers.nodes)
    # Of a tensor with a NaN that is turned, parts may read both what it was and what it became.
    assert run.summary["values"]["equal"] or (turns and not ordinary), f"{seed}: {graph}"
    if ordinary or not turns:  # where products turn a block, a NaN spreads over it
        with np.errstate(all="ignore"):
            wanted = case.meaning(*arrays)
        check(run.outputs["y"], wanted, case.near, f"seed {seed}: {graph}")
    program = run.compiled.program
    there = [image.access for image in graph_images(run.compiled, inputs)]
    assert not [found for found in lint(program, chip, there) if found.severity == "error"]
    if run.cycles < STEPPED_CYCLES:
        stepped = systolic.run(graph, chip, inputs, engine="register")
        assert stepped.trace.times == run.trace.times
        assert stepped.outputs["y"].tobytes() == run.outputs["y"].tobytes()
    return True


def check(found: np.ndarray, wanted: np.ndarray, near: float, what: str) -> None:
    """Raise AssertionError unless a result is the wanted one, or near it where it is rounded."""
    assert found.shape == wanted.shape, what
    if found.dtype.kind in "iub":
        assert np.array_equal(found, wanted), what
        return
    both = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(*both, rtol=near, atol=near, err_msg=what)
