"""Does broadcasting give XLA's values, and XLA's refusals word for word? XlaBuilder 0.4.30."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from systolic.layout import LayoutError, binary, broadcast, broadcast_in_dim

CASES = json.loads((Path(__file__).parents[1] / "oracle" / "broadcast.json").read_text())["cases"]


def counted(dims: list[int], first: int, dtype: str = "int32") -> np.ndarray:
    return (np.arange(int(np.prod(dims, dtype=int))) + first).reshape(dims).astype(dtype)


def run(case: dict[str, Any]) -> np.ndarray:
    if case["kind"] == "binary":
        lhs = counted(case["lhs"], 1, case["lhs_dtype"])
        rhs = counted(case["rhs"], 100, case["rhs_dtype"])
        return binary(case["op"], lhs, rhs, case["broadcast_dimensions"])
    operand = counted(case["operand"], 1)
    if case["kind"] == "broadcast":
        return broadcast(operand, case["sizes"])
    return broadcast_in_dim(operand, case["out_shape"], case["broadcast_dimensions"])


@pytest.mark.parametrize("case", [case for case in CASES if case["ok"]], ids=str)
def test_values(case: dict[str, Any]) -> None:
    result = run(case)
    assert list(result.shape) == case["shape"]
    assert str(result.dtype) == case["dtype"]
    if case["values"] is not None:
        assert result.ravel().tolist() == case["values"]


@pytest.mark.parametrize("case", [case for case in CASES if not case["ok"]], ids=str)
def test_refusals_word_for_word(case: dict[str, Any]) -> None:
    expected = case["error"].removeprefix("INVALID_ARGUMENT: ").removesuffix(": ")
    if expected.startswith("invalid shape type="):
        # XLA prints the number of its type enumeration there, which has no meaning here.
        expected = "invalid shape: dims=[2,-3] has a negative size"
    with pytest.raises(LayoutError) as refused:
        run(case)
    assert str(refused.value) == expected


def test_every_case_is_used() -> None:
    assert len(CASES) == 227
