"""Do narrow and packed tensors go through transpose, relayout, reshape and cast, in both homes?"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from support.chips import ideal_chip
from support.packed import HOMES, NARROW, random_text, run, whole_numbers
from systolic.hw.spec import Chip
from systolic.layout import Shape
from systolic.workload import Graph, GraphBuilder, Tensor


def chip_8x8(**tables: Any) -> Chip:
    return ideal_chip(8, 8, state_buffer={"bytes_per_partition": 8192, **tables})


def graph_of(kind: str, source: str, out: str, homes: tuple[str, str], **attributes: Any) -> Graph:
    builder = GraphBuilder()
    builder.tensor("x", Tensor(Shape.parse(source), homes[0]))  # type: ignore[arg-type]
    result = Tensor(Shape.parse(out), homes[1])  # type: ignore[arg-type]
    builder.add(kind, ("x",), result, name="y", **attributes)
    return builder.graph()


def random_graph(rng: Random) -> tuple[Graph, tuple[int, ...]]:
    """One move of a narrow type between random homes and layouts; the permutation of its axes."""
    rank = rng.randint(1, 4)
    dims = tuple(rng.randint(1, {1: 70, 2: 21, 3: 9, 4: 5}[rank]) for _ in range(rank))
    axes = list(range(rank))
    kind = rng.choice(("transpose", "relayout", "reshape"))
    element, homes = rng.choice(NARROW), (rng.choice(HOMES), rng.choice(HOMES))
    after = dims
    attributes: dict[str, Any] = {}
    if kind == "transpose":
        rng.shuffle(axes)
        after = tuple(dims[axis] for axis in axes)
        attributes = {"permutation": tuple(axes)}
    elif kind == "reshape":
        count = int(np.prod(dims))
        first = rng.choice([n for n in range(1, count + 1) if count % n == 0])
        after = (first, count // first)
    source, out = random_text(rng, element, dims), random_text(rng, element, after)
    return graph_of(kind, source, out, homes, **attributes), tuple(axes)


def check_random_move(seed: int) -> None:
    rng = Random(seed)
    graph, axes = random_graph(rng)
    engine = rng.choice(("event", "register"))
    _, inputs, outputs = run(graph, chip_8x8(banks=rng.choice([1, 8])), engine, seed)
    shape = graph.shape("y")
    before = whole_numbers(inputs["x"], shape.element_type)
    expected = before.transpose(axes).reshape(shape.dims)
    np.testing.assert_array_equal(whole_numbers(outputs["y"], shape.element_type), expected)


@pytest.mark.parametrize("seed", range(40))
def test_random_moves(seed: int) -> None:
    check_random_move(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 400))
def test_many_random_moves(seed: int) -> None:
    check_random_move(seed)
