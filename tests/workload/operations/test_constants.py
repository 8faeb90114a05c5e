"""Is a constant of an operation the number that its type holds, in the float64 reference too?"""

from __future__ import annotations

import numpy as np
import pytest

from support.chips import ideal_chip
from systolic import run
from systolic.report.summary.values import values_text
from systolic.workload import GraphBuilder


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("kind", "out", "attributes"),
    [
        ("causal_mask", "[4,4]", {"value": -1e30}),
        ("causal_mask", "[4,4]", {"value": 0.1}),
        ("pad", "[6,4]", {"low": (1, 0), "high": (1, 0), "value": 0.1}),
    ],
)
def test_a_right_result_is_no_distance_away(
    kind: str, out: str, attributes: dict[str, object], dtype: str
) -> None:
    """Whole numbers are copied, and the constant is rounded once: nothing is off."""
    builder = GraphBuilder(home="dram")
    x = builder.tensor("x", f"{dtype}[4,4]")
    builder.add(kind, [x], f"{dtype}{out}", name="y", **attributes)
    graph = builder.graph()
    data = np.arange(16).reshape(4, 4).astype(graph.shape("x").dtype)
    values = run(graph, ideal_chip(4, 4), {"x": data}).summary["values"]
    assert values["max_abs_error"] == 0
    assert values_text(values) == ("result equals numpy: yes", True)
