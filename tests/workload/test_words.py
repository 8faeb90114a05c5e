"""s64 and u32, which are s32 on the chip: values, types of results, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import systolic
from systolic.errors import SystolicError, WorkloadError
from systolic.workload import GraphBuilder

HOMES = ("dram", "state_buffer")
LARGE = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 0x12345678], np.uint32)


def ran(kind: str, operation: str, *arrays: np.ndarray, home: str, **given: Any) -> np.ndarray:
    builder, data = GraphBuilder(home), {}
    for number, array in enumerate(arrays):
        data[builder.tensor(f"x{number}", f"{kind}[{len(array)}]")] = array
    builder.add(operation, (*data,), f"{kind}[{len(arrays[0])}]", name="y", **given)
    found = systolic.run(builder.graph(), "ideal_4x4", data)
    assert found.summary["values"]["equal"]
    return found.outputs["y"]


@pytest.mark.parametrize("home", HOMES)
def test_an_s64_is_an_s32_whose_results_are_int64(home):
    x = np.array([-(2**31), -1, 0, 5, 2**31 - 1], np.int64)
    found = ran("s64", "minimum", x, x[::-1].copy(), home=home)
    assert found.dtype == np.int64
    assert np.array_equal(found, np.minimum(x, x[::-1]))


def test_numbers_of_an_s64_that_do_not_fit_are_refused():
    x = np.array([1, 2**31], np.int64)
    with pytest.raises(WorkloadError, match=r'input "x0": s64 is s32 .*, found 2147483648$'):
        ran("s64", "abs", x, home="dram")
    with pytest.raises(WorkloadError, match=r'tensor "y": s64 is s32 .*, and 1 of its 2 numbers'):
        ran("s64", "add", x - 1, x - 1, home="dram")


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize(
    ("name", "means"),
    [("add", np.add), ("mul", np.multiply), ("sub", np.subtract), ("xor", np.bitwise_xor),
     ("and", np.bitwise_and), ("shift_right_logical", lambda x, y: x >> (y % 32))],
)  # fmt: skip
def test_a_u32_goes_by_bits(name, means, home):
    other = LARGE[::-1].copy() % 32 if name.startswith("shift") else LARGE[::-1].copy()
    with np.errstate(over="ignore"):
        wanted = means(LARGE, other)
    found = ran("u32", name, LARGE, other, home=home)
    assert found.dtype == np.uint32
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("name", ["less", "divide", "maximum", "remainder"])
def test_what_u32_and_s32_do_not_share_is_refused(name):
    with pytest.raises(WorkloadError, match="of u32: the machine has s32"):
        ran("u32", name, LARGE, LARGE, home="dram")


@pytest.mark.parametrize(("kind", "near"), [("f64", "f32"), ("s16", "s32"), ("u64", "s32")])
def test_other_wide_types_are_refused_with_the_next(kind, near):
    x = np.zeros(3, {"f64": "f8", "s16": "i2", "u64": "u8"}[kind])
    with pytest.raises(SystolicError) as raised:
        ran(kind, "add", x, x, home="dram")
    assert f"the machine has no type {kind}" in str(raised.value)
    assert str(raised.value).endswith(f'perhaps "{near}" was meant')
