"""Are the estimates that choose mapping, loops and tiles near what the machine takes?"""

from __future__ import annotations

import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler import Options
from systolic.compiler.cost.products import turning_banks
from systolic.workload import GraphBuilder


@pytest.mark.parametrize("weight_buffer", ["single", "double"])
@pytest.mark.parametrize("array", [(4, 4), (8, 4), (16, 16)], ids=str)
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (2, 1, 1), (16, 1, 1), (2, 2, 1), (16, 3, 2)], ids=str
)
def test_an_estimate_is_near_the_run(sizes, array, weight_buffer):
    """M a number of half arrays, K of rows, N of columns: within 30 % of the run, on the chip.

    Most of the shortest run is its last results: they enter the array one column after the
    other and cross all of it.
    """
    (rows, cols), (halves, k, n) = array, sizes
    M, K, N = max(1, halves * rows // 2), k * rows, n * cols
    chip = ideal_chip(rows, cols, pe_array={"weight_buffer": weight_buffer})
    builder = GraphBuilder("state_buffer")
    lhs, rhs = builder.tensor("lhs", f"f32[{M},{K}]{{0,1}}"), builder.tensor("rhs", f"f32[{K},{N}]")
    builder.matmul(lhs, rhs, f"f32[{M},{N}]{{0,1}}", name="y")
    result = systolic.run(builder.graph(), chip, values=False)
    ((_, loops),) = result.compiled.tiled.loops
    assert loops.estimate == pytest.approx(result.cycles, rel=0.3)


@pytest.mark.parametrize(("banks", "taken"), [(1, 1), (2, 1), (4, 2), (8, 4), (64, 4)])
def test_blocks_are_turned_in_as_many_banks_as_are_in_use_at_once(banks, taken):
    """A block's 4 vectors stream in, its last sum comes 4 + 4 cycles later, and 4 cycles copy it.

    Meanwhile three other blocks of 4 cycles stream into banks of their own; but half of the banks
    are kept for sums.
    """
    chip = ideal_chip(4, 4, result_buffer={"banks": banks})
    assert turning_banks(chip, Options(), "f32") == taken
