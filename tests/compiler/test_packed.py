"""Do narrow and packed tensors go through transpose, relayout, reshape and cast, in both homes?"""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest

from support.chips import ideal_chip
from support.packed import HOMES, NARROW, WIDE, random_text, run, whole_numbers
from systolic.element_types import ELEMENT_TYPES
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


# Casts


def cast_by_value(value: float, after: str) -> float:
    """Return what one number becomes, in plain Python."""
    if after == "pred":
        return value != 0
    limits = ELEMENT_TYPES[after].integer_range
    if limits is None:
        return value
    low, high = limits
    if isinstance(value, int):
        return (value - low) % (high - low + 1) + low
    if math.isnan(value):
        return 0
    return low if value < low else high if value > high else math.trunc(value)


def numbers_of(values: np.ndarray, element: str) -> list[Any]:
    if element in NARROW:
        return list(whole_numbers(values, element).ravel().tolist())
    whole = ELEMENT_TYPES[element].integer_range is not None
    return list(values.astype(np.int64 if whole else np.float64).ravel().tolist())


def check_random_cast(seed: int) -> None:
    rng = Random(seed)
    before, after = rng.choice(NARROW), rng.choice((*NARROW, *WIDE))
    if rng.random() < 0.5:
        before, after = after, before
    dims = tuple(rng.randint(1, 15) for _ in range(rng.randint(1, 3)))
    texts = random_text(rng, before, dims), random_text(rng, after, dims)
    graph = graph_of("cast", *texts, (rng.choice(HOMES), rng.choice(HOMES)))
    engine = rng.choice(("event", "register"))
    _, inputs, outputs = run(graph, chip_8x8(), engine, seed)
    wanted = [cast_by_value(value, after) for value in numbers_of(inputs["x"], before)]
    np.testing.assert_array_equal(numbers_of(outputs["y"], after), np.array(wanted, np.float64))


@pytest.mark.parametrize("seed", range(40))
def test_random_casts(seed: int) -> None:
    check_random_cast(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 400))
def test_many_random_casts(seed: int) -> None:
    check_random_cast(seed)


@pytest.mark.parametrize("before", NARROW)
@pytest.mark.parametrize("after", [*NARROW, "bf16", "s8"])
def test_every_pair_of_narrow_types(before: str, after: str) -> None:
    """All values of a type, by the reference in numpy as well as by the lanes."""
    from systolic.workload.operations.cast import to_type

    limits = ELEMENT_TYPES[before].integer_range
    assert limits is not None
    values = np.arange(limits[0], limits[1] + 1).astype(ELEMENT_TYPES[before].dtype)
    found = to_type(values, ELEMENT_TYPES[before], ELEMENT_TYPES[after])
    wanted = [cast_by_value(value, after) for value in range(limits[0], limits[1] + 1)]
    assert found.dtype == ELEMENT_TYPES[after].dtype
    np.testing.assert_array_equal(numbers_of(found, after), np.array(wanted, np.float64))
