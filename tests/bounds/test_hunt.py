"""No run is shorter than its bound: thousands of random small works, times only.

Units have clocks, latencies and rates of their own (`support.random_works`); 5,000 works in all,
the first of them every time.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import systolic
from support.random_works import random_clocked_chip, random_options, random_work
from support.refusals import NO_ROOM
from support.tiers import quick_first
from systolic.bounds import operation_bounds, run_bound
from systolic.config import load_chip
from systolic.errors import SystolicError
from systolic.workload import GraphBuilder

CHIPS = Path(__file__).resolve().parents[2] / "configs" / "chips"
BATCH = 25
KNOWN = (*NO_ROOM, "cannot take", "cannot be multiplied", "is too small for one block")


@pytest.mark.parametrize("batch", quick_first(range(200), 6))
def test_no_work_is_quicker_than_its_bound(batch):
    ran = sum(_holds(seed) for seed in range(batch * BATCH, (batch + 1) * BATCH))
    assert ran > BATCH // 2


def _holds(seed: int) -> bool:
    """Return whether a work ran, having asserted that it took no less than its bound."""
    rng = Random(seed)
    chip, graph = random_clocked_chip(rng), random_work(rng)
    options = random_options(rng, chip)
    try:
        run = systolic.run(graph, chip, options=options)
    except SystolicError as error:
        assert any(text in str(error) for text in KNOWN), seed  # noqa: PT017
        return False
    bound = run_bound(graph, chip)
    assert run.trace.ticks >= bound.ticks, (seed, bound)
    assert all(b.bound.ticks <= bound.ticks for b in operation_bounds(graph, chip))
    assert set(run.compiled.synchronised.layers) <= {op.name for op in graph.operations}
    return True


SIDES = [(m, k, n) for m in (1, 2, 5) for k in (1, 4, 130) for n in (1, 4, 9)]


@pytest.mark.parametrize("sides", quick_first([(sides,) for sides in SIDES], 9))
@pytest.mark.parametrize("chip", ["ddr4_128x128", "multi_clock_128x128"])
def test_no_small_product_is_quicker_on_a_shipped_chip_with_clocks(chip, sides):
    """f32[1,4] x [4,1] takes 1,403 cycles on ddr4_128x128."""
    (M, K, N), chip = sides, load_chip(CHIPS / f"{chip}.toml")
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", f"f32[{M},{K}]"), builder.tensor("w", f"f32[{K},{N}]")
    builder.matmul(x, w, f"f32[{M},{N}]")
    graph = builder.graph()
    assert systolic.run(graph, chip).trace.ticks >= run_bound(graph, chip).ticks
