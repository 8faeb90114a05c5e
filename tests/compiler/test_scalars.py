"""Tensors of rank 0 go through every operation that takes them, on both engines, as in numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import systolic
from support.all_operations import SELECTS
from support.chips import ideal_chip
from systolic.layout import Shape
from systolic.workload import GraphBuilder

Build = Callable[[GraphBuilder], object]
TYPES = ("f32", "bf16", "s8", "u8", "pred", "s4", "u4", "u2", "s1")
HOMES = ("state_buffer", "dram")


def results(build: Build, home: str, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Return the output `y`, which both engines must give alike."""
    found = []
    for engine in ("event", "register"):
        builder = GraphBuilder(home=home)
        build(builder)
        chip = ideal_chip(4, 4, **SELECTS)
        run = systolic.run(builder.graph(), chip, inputs, engine=engine)
        found.append(run.outputs["y"])
    one, other = found
    assert (one.shape, one.dtype, one.tobytes()) == (other.shape, other.dtype, other.tobytes())
    return one


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", ["relayout", "transpose", "reshape", "reshaped", "cast"])
def test_what_moves_or_casts(kind: str, dtype: str, home: str) -> None:
    source, result = f"{dtype}[]", f"{dtype}[]"
    if kind == "cast":
        result = "s32[]" if dtype[0] in "sup" else "f32[]"
    if kind == "reshape":
        result = f"{dtype}[1,1]"
    if kind == "reshaped":
        source = f"{dtype}[1,1]"
    value = np.ones(Shape.parse(source).dims).astype(Shape.parse(source).dtype)

    def build(builder: GraphBuilder) -> None:
        given = (builder.tensor("x", source),)
        if kind == "transpose":
            builder.transpose(*given, result, [], name="y")
        else:
            builder.add(kind.removesuffix("d"), given, result, name="y")

    found = results(build, home, {"x": value})
    expected = Shape.parse(result)
    assert (found.shape, found.dtype) == (expected.dims, expected.dtype)
    assert found.tobytes() == value.reshape(expected.dims).astype(expected.dtype).tobytes()


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("chosen", [False, True])
def test_a_predicate_selects_for_all_elements(chosen: bool, home: str) -> None:
    def build(builder: GraphBuilder) -> None:
        predicate = builder.tensor("p", "pred[]")
        sides = (builder.tensor("t", "f32[3,2]"), builder.tensor("f", "f32[3,2]"))
        builder.add("select", (predicate, *sides), "f32[3,2]", name="y")

    inputs = {"p": np.array(chosen), "t": np.full((3, 2), 1, np.float32),
              "f": np.full((3, 2), 2, np.float32)}  # fmt: skip
    assert (results(build, home, inputs) == (1 if chosen else 2)).all()


@pytest.mark.parametrize("home", HOMES)
def test_what_computes(home: str) -> None:
    """Two numbers, a function of their sum, and the sum of a matrix."""

    def build(builder: GraphBuilder) -> None:
        x, z = builder.tensor("x", "f32[]"), builder.tensor("z", "f32[]")
        total = builder.add("binary", (x, z), "f32[]", name="sum", operator="add")
        ramp = builder.add("activation", (total,), "f32[]", name="ramp", function="ramp")
        matrix = builder.tensor("m", "f32[4,3]")
        whole = builder.add("reduce", (matrix,), "f32[]", name="r", reduction="sum", axes=[0, 1])
        builder.add("binary", (ramp, whole), "f32[]", name="y", operator="subtract")

    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)
    given = {"x": np.array(-5, np.float32), "z": np.array(7, np.float32), "m": matrix}
    found = results(build, home, given)
    assert found.shape == ()
    assert found == 2 - matrix.sum()
