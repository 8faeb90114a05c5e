"""Is the value right? Functions of networks against a second writer, the machine against both."""

from __future__ import annotations

import math

import numpy as np
import pytest

import systolic
from systolic.workload import GraphBuilder

NAN = math.nan


def _rounded_away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x) if abs(x) < 2**52 else x


def _gate(x: float) -> float:
    return min(max((x + 3) / 6, 0.0), 1.0)


MEANT = {
    "cos": math.cos,
    "floor": lambda x: float(math.floor(x)),
    "ceil": lambda x: float(math.ceil(x)),
    "round": lambda x: float(round(x)),
    "round_away": _rounded_away,
    "log1p": lambda x: math.log(1 + x) if x > -1 else (-math.inf if x == -1 else NAN),
    "expm1": math.expm1,
    "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x),
    "elu": lambda x: x if x > 0 else math.exp(x) - 1,
    "selu": lambda x: 1.05070098 * (x if x > 0 else 1.67326324 * (math.exp(x) - 1)),
    "hard_sigmoid": _gate,
    "hard_swish": lambda x: x * _gate(x),
    "mish": lambda x: x * math.tanh(math.log(1 + math.exp(x))),
    "erf": math.erf,
    "arctan": math.atan,
    "gelu_erf": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
}
NUMBERS = np.array(
    [-7.25, -3.5, -3.0, -2.5, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 1.5, 2.5, 3.0, 6.5, 9.0],
    np.float32,
)


def run_function(name: str, x: np.ndarray) -> np.ndarray:
    builder = GraphBuilder()
    builder.tensor("x", f"f32[{len(x)}]")
    builder.activation("x", function=name, name="y")
    result = systolic.run(builder.graph(), "ideal_4x4", {"x": x})
    assert result.summary["values"]["equal"]
    return result.outputs["y"]


@pytest.mark.parametrize("name", MEANT)
def test_a_function_is_what_its_name_says(name):
    with np.errstate(invalid="ignore"):
        wanted = np.array([MEANT[name](float(x)) for x in NUMBERS], np.float32)
    np.testing.assert_allclose(run_function(name, NUMBERS), wanted, rtol=3e-7, atol=3e-7)


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("floor", (-math.inf, math.inf)),
        ("elu", (-1.0, math.inf)),
        ("selu", (-1.7580993, math.inf)),
        ("hard_sigmoid", (0.0, 1.0)),
        ("hard_swish", (0.0, math.inf)),
        ("mish", (0.0, math.inf)),
        ("gelu_erf", (0.0, math.inf)),
        ("erf", (-1.0, 1.0)),
        ("cos", (NAN, NAN)),
    ],
)
def test_at_infinity_a_function_has_its_limit(name, ends):
    found = run_function(name, np.array([-np.inf, np.inf, np.nan], np.float32))
    np.testing.assert_allclose(found[:2], np.array(ends, np.float32), rtol=1e-7)
    assert np.isnan(found[2])


@pytest.mark.parametrize(
    ("dtype", "operator", "pairs", "wanted"),
    [
        ("f32", "remainder", [(7, 3), (-7, 3), (7, -3), (5.5, 2)], [1, -1, 1, 1.5]),
        ("s32", "remainder", [(7, 3), (-7, 3), (7, -3), (5, 0)], [1, -1, 1, 5]),
        ("f32", "arctan2", [(1, 1), (1, -1), (-1, -1), (0, -1)],
         [math.pi / 4, 3 * math.pi / 4, -3 * math.pi / 4, math.pi]),
    ],
)  # fmt: skip
def test_operators_of_two_numbers(dtype, operator, pairs, wanted):
    builder = GraphBuilder()
    builder.tensor("a", f"{dtype}[4]")
    builder.tensor("b", f"{dtype}[4]")
    builder.binary("a", "b", operator=operator, name="y")
    graph = builder.graph()
    left, right = (np.array(side, graph.shape("a").dtype) for side in zip(*pairs, strict=True))
    found = systolic.run(graph, "ideal_4x4", {"a": left, "b": right})
    np.testing.assert_allclose(found.outputs["y"], np.array(wanted), rtol=1e-7)


@pytest.mark.parametrize("operator", ["and", "or", "xor", "equal", "not_equal"])
def test_truths(operator):
    builder = GraphBuilder()
    for name in ("a", "b"):
        builder.tensor(name, "f32[3,4]")
    builder.binary("a", "b", operator="less", out="pred[3,4]", name="p")
    builder.binary("a", "b", operator="greater_equal", out="pred[3,4]", name="q")
    builder.binary("p", "q", operator=operator, out="pred[3,4]", name="r")
    builder.reduce("r", reduction="max", axes=(1,), out="pred[3]", name="any")
    builder.reduce("r", reduction="min", axes=(1,), out="pred[3]", name="all")
    a, b = np.random.default_rng(3).integers(0, 3, (2, 3, 4)).astype(np.float32)
    found = systolic.run(builder.graph(), "ideal_4x4", {"a": a, "b": b}).outputs
    logic = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
             "equal": np.equal, "not_equal": np.not_equal}[operator]  # fmt: skip
    wanted = logic(a < b, a >= b)
    assert np.array_equal(found["any"], wanted.any(1))
    assert np.array_equal(found["all"], wanted.all(1))
