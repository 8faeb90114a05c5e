"""Is the value right? Random operations against a second writer, in both engines."""

from __future__ import annotations

import zlib
from random import Random

import numpy as np
import pytest

import systolic
from support.drawn_operations import MEANINGS, SPECIAL, Meaning, grown
from support.lane_graphs import random_chip
from support.refusals import is_for_room
from systolic.errors import SystolicError
from systolic.isa.lint.lint import lint
from systolic.layout import Shape
from systolic.run.tensors import graph_images
from systolic.workload import GraphBuilder

QUICK, SLOW = 4, 200


def operand(rng: Random, meaning: Meaning, place: int, shape: Shape) -> np.ndarray:
    """Return random elements; of floats some special ones, where the meaning knows them."""
    numbers = np.random.default_rng(rng.randint(0, 1 << 30))
    if shape.dtype.kind in "iu":
        limits = np.iinfo(shape.dtype)
        return numbers.integers(limits.min, limits.max, shape.dims, shape.dtype, endpoint=True)
    if shape.dtype.kind == "b":
        return numbers.integers(0, 2, shape.dims).astype(bool)
    found = numbers.standard_normal(shape.dims)
    if meaning.special and rng.random() < 0.5:
        found = np.where(
            numbers.random(shape.dims) < 0.3, numbers.choice(SPECIAL, shape.dims), found
        )
    found = np.abs(found) + 0.1 if place in meaning.positive else found
    with np.errstate(over="ignore"):
        return found.astype(shape.dtype)


def holds(kind: str, seed: int) -> bool:
    """Means what the second writer says, with equal times and bits in both engines, and lint."""
    rng = Random(zlib.crc32(f"{kind}{seed}".encode()))
    meaning = MEANINGS[kind](rng)
    builder, chip = GraphBuilder("dram"), random_chip(rng)
    grown(rng, builder, meaning)
    graph = builder.graph()
    data = {
        name: operand(rng, meaning, place, graph.shape(name))
        for place, name in enumerate(graph.inputs)
    }
    try:
        runs = [systolic.run(graph, chip, data, engine=each) for each in ("event", "register")]
    except SystolicError as error:
        if not is_for_room(error):
            raise
        return False
    found, stepped = (run.outputs["y"] for run in runs)
    assert runs[0].summary["values"]["equal"], f"{kind} {seed}: {graph}"
    assert found.tobytes() == stepped.tobytes()
    assert runs[0].trace.times == runs[1].trace.times
    compiled = runs[0].compiled
    assert compiled is not None
    there = [image.access for image in graph_images(compiled, data)]
    problems = lint(compiled.program, chip, there)
    assert not [each for each in problems if each.severity == "error"]
    wide = [
        each.astype(np.int64 if each.dtype.kind in "iub" else np.float64) for each in data.values()
    ]
    with np.errstate(all="ignore"):
        close(np.asarray(meaning.means(*wide)), found, meaning)
    return True


def close(wanted: np.ndarray, found: np.ndarray, meaning: Meaning) -> None:
    if not meaning.near:
        wanted = wanted.astype(found.dtype)
        both = np.isnan(wanted.astype(np.float64)) & np.isnan(found.astype(np.float64))
        assert np.array_equal(np.where(both, 0, wanted), np.where(both, 0, found))
        return
    own = {"bf16": 2**-7, "f16": 2**-9}
    near = max(meaning.near, *(own.get(kind, 0.0) for kind in (meaning.out, "f32")))
    finite = wanted[np.isfinite(wanted)]
    scale = np.max(np.abs(finite), initial=1.0) if not meaning.special else np.abs(wanted) + 1e-30
    with np.errstate(invalid="ignore"):
        right = np.abs(found - wanted) <= near * scale
    same = (found == wanted.astype(np.float32)) | (np.isnan(found) & np.isnan(wanted))
    assert (right | same).all(), f"{found} for {wanted}"


@pytest.mark.parametrize("kind", MEANINGS)
def test_operations(kind: str) -> None:
    assert sum(holds(kind, seed) for seed in range(QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("kind", MEANINGS)
def test_many_operations(kind: str) -> None:
    assert sum(holds(kind, seed) for seed in range(QUICK, SLOW)) > (SLOW - QUICK) // 2
