"""Is the value right? The node cases of the package onnx, against the values it stores."""

from __future__ import annotations

import os
from random import Random

import pytest

from support.onnx_node_cases import node_cases, out_of_scope, outcome

CHIP = "ideal_128x128"
IN_SCOPE = sorted(name for name, case in node_cases().items() if not out_of_scope(case.model))
QUICK = 150
SHARE = set(Random(int(os.environ.get("SYSTOLIC_SEED", "7"))).sample(IN_SCOPE, QUICK))


def test_so_many_cases_are_in_scope() -> None:
    assert len(node_cases()) >= 1884
    assert len(IN_SCOPE) >= 769


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in SHARE else [pytest.mark.slow])
        for name in IN_SCOPE
    ],
)  # fmt: skip
def test_a_case_gives_the_stored_values_or_a_line(name: str) -> None:
    found = outcome(node_cases()[name], CHIP)
    assert found.kind != "wrong", found.text
    assert "\n" not in found.text
