"""Do the operations element by element mean what a scalar statement without numpy says?"""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest

from support import scalar_lanes
from systolic.isa.instruction import ActivationFunction, AluOperation
from systolic.layout import Shape
from systolic.workload import OPERATIONS, Rules
from systolic.workload.operations.activation import ActivationAttributes, FunctionName
from systolic.workload.operations.binary import BinaryAttributes, OperatorName

RULES = Rules(lambda K: (0, K))
NUMBERS = [0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -3.25, 7.5, -20.0, 60.0, 1e-3, math.nan, math.inf,
           -math.inf]  # fmt: skip
WORDS = [0, 1, -1, 2, 3, -3, 7, 31, 32, 33, -31, 2**24 + 1, 2**31 - 1, -(2**31)]


def test_the_names_are_those_of_the_machine():
    """The machine has more: functions and operations that only a program asks for."""
    assert set(get_args(FunctionName)) <= set(get_args(ActivationFunction))
    assert set(get_args(OperatorName)) <= set(get_args(AluOperation))


@pytest.mark.parametrize("name", get_args(FunctionName))
def test_functions(name):
    source = np.array(NUMBERS, np.float32)
    attributes = ActivationAttributes(name, scale=1.5, bias=0.25)
    out = Shape.parse(f"f32[{len(NUMBERS)}]")
    found = OPERATIONS["activation"].reference([source], out, attributes, RULES)
    expected = [scalar_lanes.activate(name, x, 1.5, 0.25) for x in NUMBERS]
    ulps = 0 if name in scalar_lanes.EXACT else 1
    np.testing.assert_array_max_ulp(found, np.float32(expected), max(ulps, 1))
    if not ulps:
        assert np.array_equal(found, np.float32(expected), equal_nan=True)


def test_a_default_bias_leaves_the_sign_of_a_zero():
    source, out = np.array([-0.0], np.float32), Shape.parse("f32[1]")
    found = OPERATIONS["activation"].reference(
        [source], out, ActivationAttributes("reciprocal"), RULES
    )
    assert found.tolist() == [-math.inf]


@pytest.mark.parametrize("name", get_args(OperatorName))
@pytest.mark.parametrize("dtype", ["f32", "s32"])
def test_operators(name, dtype):
    if dtype == "f32" and name not in {*scalar_lanes.FLOATS, *scalar_lanes.COMPARE}:
        return
    every = NUMBERS if dtype == "f32" else WORDS
    source = np.array(every, np.float32 if dtype == "f32" else np.int32)
    count = len(every)
    gives = "f32" if name == "power" else dtype
    out = Shape.parse(f"{gives}[{count},{count}]")
    found = OPERATIONS["binary"].reference(
        [source[:, None], source[None, :]], out, BinaryAttributes(name), RULES
    )
    expected = [
        [scalar_lanes.operate(name, a, b) for b in source.tolist()] for a in source.tolist()
    ]
    wanted = np.array(expected, np.float64 if gives == "f32" else np.int64).astype(out.dtype)
    assert np.array_equal(found, wanted, equal_nan=gives == "f32")
