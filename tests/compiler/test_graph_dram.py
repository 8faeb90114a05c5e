"""Does a compiled graph run on a chip whose DRAM has channels and banks, in both engines alike?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import systolic
from compiler.test_graph_values import holds_on, random_chip
from support.chips import ideal_chip
from support.random_programs import random_dma, spread_over_engines
from support.random_transfers import random_organisation
from systolic.bounds import run_bound
from systolic.hw.spec import Chip
from systolic.workload import GraphBuilder

CHIP = ideal_chip(
    8,
    8,
    dma={"queues": 3, "bytes_per_cycle": 16, "latency_cycles": 5},
    dram={
        "size_bytes": 1 << 20,
        "bytes_per_cycle": 16,
        "organisation": {
            "channels": 2, "banks": 4, "row_bytes": 256, "burst_bytes": 32,
            "interleave_bytes": 64, "activate_cycles": 5, "precharge_cycles": 4,
        },
    },
)  # fmt: skip


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}", "{1,0:T(8,4)}"])
def test_a_product_in_any_layout(layout):
    builder = GraphBuilder(home="dram")
    x, w = builder.tensor("x", f"f32[20,12]{layout}"), builder.tensor("w", "f32[12,9]")
    builder.matmul(x, w, "f32[20,9]", name="y")
    graph = builder.graph()
    rng = np.random.default_rng(1)
    inputs = {
        name: rng.integers(-9, 9, graph.shape(name).dims).astype(np.float32) for name in ("x", "w")
    }
    runs = [systolic.run(graph, CHIP, inputs, engine=e) for e in ("event", "register")]
    for run in runs:
        assert np.array_equal(run.outputs["y"], inputs["x"] @ inputs["w"])
    event, register = (run.trace for run in runs)
    assert event.times == register.times
    assert event.transfers == register.transfers
    assert event.transfers.channels[0].bursts > 0
    assert event.cycles() >= run_bound(graph, CHIP).cycles


def organised(rng):
    """Return a chip with channels, banks in groups, bursts in hand, hashes, refresh, timings."""
    chip = random_chip(rng).model_dump()
    chip["dram"] |= random_organisation(rng)
    chip["dma"] |= random_dma(rng, 4)
    return Chip.model_validate(chip)


@pytest.mark.slow
@settings(max_examples=12)
@given(rng=st.randoms(use_true_random=True))
def test_random_graphs_on_organised_dram(rng):
    """Equal to numpy, clean for the checker, not below the bound, and alike in both engines."""
    holds_on(organised(rng), rng, stepped_cycles=3_000)


@pytest.mark.slow
@settings(max_examples=12)
@given(rng=st.randoms(use_true_random=True))
def test_random_graphs_on_spread_copies(rng):
    """The same where DMA engines share out each copy by partition."""
    holds_on(spread_over_engines(random_chip(rng), rng), rng, stepped_cycles=3_000)


@pytest.mark.slow
@settings(max_examples=40)
@given(rng=st.randoms(use_true_random=True))
def test_many_random_graphs_on_spread_copies(rng):
    holds_on(spread_over_engines(random_chip(rng), rng), rng, stepped_cycles=3_000)


@pytest.mark.slow
@settings(max_examples=50)
@given(rng=st.randoms(use_true_random=True))
def test_many_random_graphs_on_organised_dram(rng):
    holds_on(organised(rng), rng, stepped_cycles=3_000)
