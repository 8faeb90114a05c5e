"""Reductions and the operations that are made of them, against numpy and cases worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.errors import CompileError, WorkloadError
from systolic.isa import Activate, MatMul, Pool
from systolic.layout import Shape
from systolic.workload import OPERATIONS, GraphBuilder, Rules
from systolic.workload.operations.reduce import ReduceAttributes

CHIP = ideal_chip(4, 4)
ENGINES = ("event", "register")
NUMPY = {"max": np.max, "min": np.min, "sum": np.sum, "product": np.prod, "mean": np.mean,
         "median": np.median}  # fmt: skip


def run_lone(kind: str, data: dict[str, np.ndarray], out: str, engine: str = "event",
             home: str = "dram", **given):  # fmt: skip
    builder = GraphBuilder(home)
    for name, array in data.items():
        builder.tensor(name, f"f32[{','.join(map(str, array.shape))}]")
    builder.add(kind, tuple(data), out, name="y", **given)
    return systolic.run(builder.graph(), CHIP, data, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("home", ["dram", "state_buffer"])
@pytest.mark.parametrize(("dims", "axes"), [((6, 9), (1,)), ((6, 9), (0,)), ((3, 5, 4), (0, 2)),
                                            ((21,), (0,)), ((3, 7), (0, 1))])  # fmt: skip
@pytest.mark.parametrize("reduction", ["max", "min", "sum", "product", "mean"])
def test_every_reduction_over_every_axis(reduction, dims, axes, home, engine):
    """Whole numbers, and products of ones and twos, are exact in any order."""
    numbers = np.random.default_rng(2).integers(1, 3, dims).astype(np.float32)
    left = [size for axis, size in enumerate(dims) if axis not in axes]
    out = f"f32[{','.join(map(str, left))}]"
    found = run_lone("reduce", {"x": numbers}, out, engine, home, reduction=reduction, axes=axes)
    exact = NUMPY[reduction](numbers.astype(np.float64), axis=axes)
    assert np.array_equal(found.outputs["y"], exact.astype(np.float32))


def test_a_median_is_the_middle():
    data = np.array([[5, 1, 9], [2, 8, 4]], np.float32)
    found = run_lone("reduce", {"x": data}, "f32[2]", reduction="median", axes=(1,))
    assert found.outputs["y"].tolist() == [5, 4]


def test_a_sum_is_that_of_its_segments():
    """2^24 + 1 + 1 ... : added one by one each 1 is lost, four ones together are not."""
    numbers = np.array([1 << 24, 1, 1, 1, 1, 1, 1, 1], np.float32)
    attributes = ReduceAttributes("sum")
    for segment, expected in ((0, 1 << 24), (4, (1 << 24) + 4), (2, (1 << 24) + 6)):
        rules = Rules(lambda K: (0, K), segment=segment)
        out = Shape.parse("f32[]")
        assert OPERATIONS["reduce"].reference([numbers], out, attributes, rules) == expected
    found = run_lone("reduce", {"x": numbers}, "f32[]", reduction="sum")
    assert found.outputs["y"] == (1 << 24) + 4  # blocks of 4 rows


def test_segments_of_one_element_are_refused():
    """They would never be fewer, and the reference would not end; one element alone has a sum."""
    rules, out = Rules(lambda K: (0, K), segment=1), Shape.parse("f32[]")
    reference = OPERATIONS["reduce"].reference
    with pytest.raises(WorkloadError, match="sum of 3 elements, one at a time: needs segments of"):
        reference([np.ones(3, np.float32)], out, ReduceAttributes("sum"), rules)
    assert reference([np.ones(1, np.float32)], out, ReduceAttributes("sum"), rules) == 1


def test_what_lies_along_the_address_is_not_turned():
    ones = np.ones((6, 9), np.float32)
    for axes, turned in (((1,), False), ((0,), True)):
        found = run_lone("reduce", {"x": ones}, f"f32[{6 if axes == (1,) else 9}]",
                         reduction="max", axes=axes, home="state_buffer")  # fmt: skip
        program = found.compiled.program.instructions
        assert any(isinstance(i, MatMul) for i in program) == turned
        assert any(isinstance(i, Pool) for i in program)


@pytest.mark.parametrize(
    ("dims", "given", "out", "said"),
    [
        ("f32[3,4]", {"axes": (2,)}, "f32[3]",
         "axes: needs different numbers from 0 to 1, axes of f32[3,4], found [2]"),
        ("f32[3,4]", {"axes": (1, 1)}, "f32[3]",
         "axes: needs different numbers from 0 to 1, axes of f32[3,4], found [1, 1]"),
        ("f32[3,4]", {"axes": (1,)}, "f32[4]", "f32[3,4] gives f32[3], but out is f32[4]"),
        ("s8[3,4]", {"axes": (1,)}, "f32[3]", "sum of s8[3,4] gives integers, but out is f32[3]"),
    ],
)  # fmt: skip
def test_reductions_that_are_refused(dims, given, out, said):
    builder = GraphBuilder()
    builder.add("reduce", (builder.tensor("x", dims),), out, name="y", reduction="sum", **given)
    with pytest.raises(WorkloadError) as caught:
        builder.graph()
    assert str(caught.value) == f'operation "y": {said}'


def test_a_median_of_more_than_a_block_is_refused():
    with pytest.raises(CompileError) as caught:
        run_lone("reduce", {"x": np.ones((2, 5), np.float32)}, "f32[2]", reduction="median",
                 axes=(1,))  # fmt: skip
    assert str(caught.value) == (
        'operation "y": median of 5 elements: engines of test 4 x 4 take at most 4 at once, the '
        "rows of a block"
    )


# -- operations made of reductions ----------------------------------------------------------------


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("dims", "axis"), [((6, 9), 1), ((6, 9), 0), ((2, 5, 7), 1), ((5,), 0)])
def test_softmax(dims, axis, engine):
    data = np.random.default_rng(4).standard_normal(dims, np.float32) * 5
    found = run_lone("softmax", {"x": data}, f"f32[{','.join(map(str, dims))}]", engine, axis=axis)
    assert np.allclose(found.outputs["y"], softmax(data, axis), rtol=2e-6, atol=0)
    assert found.summary["values"]["equal"] is True


def test_the_largest_is_taken_from_the_power_in_one_instruction():
    data = np.random.default_rng(4).standard_normal((4, 4), np.float32)
    found = run_lone("softmax", {"x": data}, "f32[4,4]", home="state_buffer")
    (power,) = [
        i for i in found.compiled.program.instructions
        if isinstance(i, Activate) and i.function == "exponential"
    ]  # fmt: skip
    assert not isinstance(power.bias, float)
    assert [op["op"] for op in found.summary["operations"]] == ["softmax"]


def test_a_softmax_does_not_overflow():
    """e^90 and e^89 are beyond float32; their quotient e is not."""
    found = run_lone("softmax", {"x": np.array([[90, 89]], np.float32)}, "f32[1,2]")
    assert np.allclose(found.outputs["y"], [[1 / (1 + np.exp(-1)), 1 / (1 + np.e)]], rtol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dims", [(6, 9), (2, 5, 7), (5,)])
def test_norms(dims, engine):
    rng = np.random.default_rng(5)
    x = rng.standard_normal(dims, np.float32) * 3 + 1
    g, b = (rng.standard_normal(dims[-1:], np.float32) for _ in "gb")
    out = f"f32[{','.join(map(str, dims))}]"
    wide = x.astype(np.float64)
    mean, variance = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
    layer = run_lone("layer_norm", {"x": x, "g": g, "b": b}, out, engine, epsilon=0.5)
    assert np.allclose(layer.outputs["y"], (wide - mean) / np.sqrt(variance + 0.5) * g + b,
                       rtol=1e-5, atol=1e-5)  # fmt: skip
    root = run_lone("rms_norm", {"x": x, "g": g}, out, engine, epsilon=0.5)
    square = (wide**2).mean(-1, keepdims=True)
    assert np.allclose(root.outputs["y"], wide / np.sqrt(square + 0.5) * g, rtol=1e-5, atol=1e-5)
    for found in (layer, root):
        assert found.summary["values"]["equal"] is True
        assert found.summary["values"]["max_abs_error"] < 1e-5


@pytest.mark.parametrize(
    ("kind", "shapes", "given", "said"),
    [
        ("softmax", ["f32[3,4]"], {"axis": 2},
         "axis: needs 0 to 1, an axis of f32[3,4], found 2"),
        ("softmax", ["s8[3,4]"], {}, "needs floats, found s8[3,4]"),
        ("rms_norm", ["f32[3,4]", "f32[3]"], {},
         "factors: needs a number for each of 4 elements of the last axis of f32[3,4], "
         "found f32[3]"),
        ("layer_norm", ["f32[3,4]", "f32[4]", "f32[5]"], {},
         "terms: needs a number for each of 4 elements of the last axis of f32[3,4], "
         "found f32[5]"),
    ],
)  # fmt: skip
def test_composites_that_are_refused(kind, shapes, given, said):
    builder = GraphBuilder()
    names = [builder.tensor(f"x{n}", shape) for n, shape in enumerate(shapes)]
    builder.add(kind, names, shapes[0], name="y", **given)
    with pytest.raises(WorkloadError) as caught:
        builder.graph()
    assert str(caught.value) == f'operation "y": {said}'
