"""Do compiled graphs keep to the array's limits: vectors of a multiply, groups of a bank?

Chips with a single open group in a bank, few vectors, passes and least vectors are drawn; graphs
must give numpy's values on them, on both engines, in no less than their bound.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import systolic
from compiler.test_graph_values import holds_on, random_chip
from support.chips import ideal_chip
from systolic.hw.spec import Chip
from systolic.isa import MatMul
from systolic.workload import GraphBuilder


def limited(chip: Chip, rng: Random) -> Chip:
    """Return the chip with limits of the array drawn at random."""
    tables = chip.model_dump()
    array = tables["pe_array"]
    array["moving_max"] = array["rows"] + rng.choice([0, 1, 3])
    array["min_vectors"] = rng.choice([0, 2, 5])
    types = [name for name in array["cycles_per_vector"] if rng.random() < 0.4]
    array["passes"] = {name: rng.choice([2, 3]) for name in types}
    tables["result_buffer"]["groups_per_bank"] = 1
    return Chip.model_validate(tables)


@pytest.mark.slow
@settings(max_examples=15)
@given(rng=st.randoms(use_true_random=True))
def test_random_graphs(rng: Random) -> None:
    holds_on(limited(random_chip(rng), rng), rng)


@pytest.mark.parametrize("home", ["dram", "state_buffer"])
def test_a_deep_product_is_cut_at_the_most_vectors(home: str) -> None:
    """21 moving columns and 30 rows of the contraction on an array of 4 x 4, 5 vectors at most."""
    builder = GraphBuilder(home)
    x, w = builder.tensor("x", "f32[21,30]{0,1}"), builder.tensor("w", "f32[30,9]")
    builder.matmul(x, w, "f32[21,9]", name="y")
    buffer = {"banks": 4, "bank_bytes": 64, "groups_per_bank": 1}
    chip = ideal_chip(4, 4, pe_array={"moving_max": 5}, result_buffer=buffer)
    numbers = np.random.default_rng(5)
    inputs = {
        "x": numbers.integers(-9, 9, (21, 30)).astype(np.float32),
        "w": numbers.integers(-9, 9, (30, 9)).astype(np.float32),
    }
    run = systolic.run(builder.graph(), chip, inputs)
    assert np.array_equal(run.outputs["y"], inputs["x"] @ inputs["w"])
    multiplies = [i for i in run.program.instructions if isinstance(i, MatMul)]
    assert max(each.moving.elements for each in multiplies) == 5
    begun: dict[int, object] = {}
    for each in multiplies:  # a group is finished before its bank begins the next
        bank = each.result.span.first // 64
        if each.accumulate:
            assert begun[bank] == each.result
        begun[bank] = each.result
    assert sum(each.accumulate for each in multiplies) > 0
