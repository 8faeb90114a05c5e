"""Is the estimate that chooses between plans near what the machine takes?"""

from __future__ import annotations

import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler.cost.pace import estimated_ticks
from systolic.workload import GraphBuilder


@pytest.mark.parametrize("weight_buffer", ["single", "double", "serial"])
@pytest.mark.parametrize("sizes", [(16, 16, 16), (64, 16, 16), (4, 32, 32), (2, 4, 4)], ids=str)
def test_the_pace_of_a_product_on_the_chip(sizes, weight_buffer):
    """Within a tenth of the run; with "serial" each load waits for the array to drain."""
    M, K, N = sizes
    chip = ideal_chip(4, 4, pe_array={"weight_buffer": weight_buffer})
    builder = GraphBuilder("state_buffer")
    lhs, rhs = builder.tensor("lhs", f"f32[{M},{K}]{{0,1}}"), builder.tensor("rhs", f"f32[{K},{N}]")
    builder.matmul(lhs, rhs, f"f32[{M},{N}]{{0,1}}", name="y")
    result = systolic.run(builder.graph(), chip, values=False)
    ticks = estimated_ticks(result.compiled.scheduled.drafts, chip)
    assert ticks // chip.period("pe_array") == pytest.approx(result.cycles, rel=0.1)
