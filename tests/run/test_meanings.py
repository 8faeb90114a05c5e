"""Is the value right? Each operation against numpy or jax.lax, for random operands and attributes.

The chip's bits are the reference's (the run's verdict); here they are held against another writer's
function. Special values are among them, both engines agree, and the program is clean for lint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

import systolic
from support.chips import able_chip
from support.lane_graphs import HOMES, random_chip
from support.meanings import CASES, operands, shape_text
from support.refusals import is_for_room
from systolic.compiler import CompiledGraph
from systolic.compiler.ir.nodes import TurnNode
from systolic.config import load_chip
from systolic.errors import SystolicError
from systolic.hw.spec import Chip
from systolic.isa.instruction import (
    CopyDynamicDst,
    CopyDynamicSrc,
    FindIndex8,
    LocalGather,
    Max8,
    Scan,
)
from systolic.isa.lint.lint import lint
from systolic.run.tensors import graph_images
from systolic.workload import GraphBuilder, Operation

CHIPS = Path(__file__).resolve().parents[2] / "configs" / "chips"
FEW, MANY = 3, 200
STEPPED_CYCLES = 10_000
BY_ROWS = ("cumulative", "argmax", "argmin", "top_k", "gather", "dynamic_slice",
           "dynamic_update_slice")  # fmt: skip
"""Operations that some engines do by instructions of whole rows."""
ROW_INSTRUCTIONS = (Scan, Max8, FindIndex8, LocalGather, CopyDynamicSrc, CopyDynamicDst)


@pytest.mark.parametrize("kind", CASES)
def test_some(kind: str) -> None:
    assert sum(holds(kind, seed) for seed in range(FEW)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_many(kind: str) -> None:
    assert sum(holds(kind, seed) for seed in range(FEW, MANY)) > MANY // 2


@pytest.mark.parametrize("kind", BY_ROWS)
def test_by_rows(kind: str) -> None:
    ran = [holds(kind, seed, able) for seed in range(FEW)]
    assert any(ran)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BY_ROWS)
def test_many_by_rows(kind: str) -> None:
    done = Counter[str]()
    ran = sum(holds(kind, seed, able, done) for seed in range(FEW, MANY))
    assert ran > MANY // 2
    assert done[kind] > ran // 8


def able(rng: Random) -> Chip:
    """Return a small chip whose engines do every instruction, or a shipped one that has these."""
    if rng.random() < 0.3:
        name = rng.choice(["neuroncore_v2", "neuroncore_v3", "neuroncore_v4"])
        return load_chip(CHIPS / f"{name}.toml")
    rows, cols = rng.choice([2, 4, 7, 16, 32]), rng.choice([1, 3, 8, 16])
    buffer = {
        "partitions": max(rows, cols),
        "banks": rng.choice([1, 8]),
        "bytes_per_partition": rng.choice([2048, 65536]),
    }
    path = {"weight_path": rng.choice(["left", "top"])}
    return able_chip(rows, cols, state_buffer=buffer, pe_array=path)


def holds(
    kind: str,
    seed: int,
    chip_of: Callable[[Random], Chip] = random_chip,
    done: Counter[str] | None = None,
) -> bool:
    """Return whether a case ran, with the right values; False if the chip has no room for it.

    done: counts the cases of which instructions of whole rows do a part.
    """
    rng = Random(f"{kind} {seed}")
    case, chip = CASES[kind](rng), chip_of(rng)
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
    turns = is_turned(run.compiled)
    # Of a tensor with a NaN that is turned, parts may read both what it was and what it became.
    assert run.summary["values"]["equal"] or (turns and not ordinary), f"{seed}: {graph}"
    if ordinary or not turns:  # where products turn a block, a NaN spreads over it
        with np.errstate(all="ignore"):
            wanted = case.meaning(*arrays)
        check(run.outputs["y"], wanted, case.near, f"seed {seed}: {graph}")
    program = run.compiled.program
    if done is not None:
        done[kind] += any(isinstance(each, ROW_INSTRUCTIONS) for each in program.instructions)
    there = [image.access for image in graph_images(run.compiled, inputs)]
    assert not [found for found in lint(program, chip, there) if found.severity == "error"]
    if run.cycles < STEPPED_CYCLES:
        stepped = systolic.run(graph, chip, inputs, engine="register")
        assert stepped.trace.times == run.trace.times
        assert stepped.outputs["y"].tobytes() == run.outputs["y"].tobytes()
    return True


def is_turned(compiled: CompiledGraph) -> bool:
    """Return whether the array turns some of a graph, or of a part of it."""
    parts = [each.compiled for each in compiled.parts if not isinstance(each, Operation)]
    streamed = compiled.streamed is not None and bool(compiled.streamed.turned)
    here = any(isinstance(node, TurnNode) for node in compiled.layers.nodes)
    return here or streamed or any(map(is_turned, parts))


def check(found: np.ndarray, wanted: np.ndarray, near: float, what: str) -> None:
    """Raise AssertionError unless a result is the wanted one, or near it where it is rounded."""
    assert found.shape == wanted.shape, what
    if found.dtype.kind in "iub":
        assert np.array_equal(found, wanted), what
        return
    both = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(*both, rtol=near, atol=near, err_msg=what)
