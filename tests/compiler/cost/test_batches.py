"""Estimates of batches from DRAM with channels: what short runs cost all queues together."""

from __future__ import annotations

import pytest

from systolic.compiler import compile_graph
from systolic.compiler.cost.batches import (
    Beside,
    apart_cost,
    apart_queue_cycles,
    queue_cycles,
    together_cost,
    waits_for_latencies,
)
from systolic.compiler.cost.dma import bus_cost, load_cost, wastes_bursts
from systolic.compiler.ir.nodes import Axes
from systolic.config import load_chip
from systolic.layout import Shape
from systolic.shipped import CHIPS
from systolic.workload import GraphBuilder

AXES: Axes = ((0,), (1,), (2,), (3,))
BATCH_MINOR = Shape.parse("s8[4,8,64,80]{1,0,3,2}")


def hbm3():
    return load_chip(CHIPS / "hbm3_128x128.toml")


def test_each_short_run_is_a_burst_that_all_channels_share() -> None:
    # 4 * 8 * 64 * 80 single bytes: a burst each, 2 cycles (tCCD_S) in one of 32 channels, which
    # refresh stops for tRP + tRFC in every tREFI.
    parts = hbm3().dram.organisation
    assert parts is not None
    lost = parts.precharge_cycles + parts.refresh_cycles
    every = parts.refresh_interval_cycles / (parts.refresh_interval_cycles - lost)
    wanted = 4 * 8 * 64 * 80 * 2 / 32 * every
    assert bus_cost(hbm3(), BATCH_MINOR, AXES) == pytest.approx(wanted, rel=1e-4)


def test_runs_of_whole_bursts_waste_none() -> None:
    rows = Shape.parse("s8[4,8,64,80]")
    assert wastes_bursts(hbm3(), BATCH_MINOR, AXES)
    assert not wastes_bursts(hbm3(), rows, AXES)
    assert apart_queue_cycles(hbm3(), BATCH_MINOR, AXES) > apart_queue_cycles(hbm3(), rows, AXES)


def test_the_channels_are_as_busy_for_every_number_of_queues() -> None:
    large = Shape.parse("s8[4,8,512,512]{1,0,3,2}")
    found = apart_queue_cycles(hbm3(), large, AXES)
    assert load_cost(hbm3(), large, AXES) < found == 4 * bus_cost(hbm3(), large, AXES)
    assert queue_cycles(hbm3(), large, AXES) < found // 5


def test_without_channels_nothing_is_shared() -> None:
    chip = load_chip(CHIPS / "ideal_128x128.toml")
    assert bus_cost(chip, BATCH_MINOR, AXES) == 0
    assert not wastes_bursts(chip, BATCH_MINOR, AXES)


def test_a_batch_that_shares_bursts_comes_in_whole_rows() -> None:
    # As work 216 of benchmarks/bench_moves.py: 1 byte of each burst of 32 is of one matrix.
    builder = GraphBuilder(home="dram")
    builder.tensor("x", "s8[4,8,80,64]{1,2,3,0}")
    builder.tensor("w", "s8[4,8,64,197]{0,1,3,2}")
    builder.matmul("x", "w", "s32[4,8,80,197]", name="y")
    found = compile_graph("product", builder.graph(), hbm3()).layers.choices
    whole = [text for text in found if "in whole rows of all its matrices" in text]
    assert [text.split()[1] for text in whole] == ["x", "w"]


@pytest.mark.parametrize(
    ("chip", "text", "waits"),
    [
        # A partition's row of 256 bytes takes a cycle or more, a copy of 96 of them 372; the
        # latency is 983. Four queues have all bytes in (983 + 372) / 4 cycles, DRAM in 106.
        ("hbm2e_128x128", "f16[16,96,128]", True),
        ("hbm2e_128x128", "f16[16,96,1024]", False),  # bytes take longer than the latency
        # The latency is 737, 128 x 256 bytes take 544: (737 + 544) / 4 for a queue's, DRAM 537.
        ("ddr4_2400_128x128", "bf16[16,256,128]", False),
        ("neuroncore_v3", "f16[16,96,128]", False),  # queues have further copies in hand
    ],
)
def test_queues_wait_for_latencies_of_short_copies(chip: str, text: str, waits: bool) -> None:
    hardware = load_chip(CHIPS / f"{chip}.toml")
    assert waits_for_latencies(hardware, Shape.parse(text), ((0,), (1,), (2,))) is waits


def test_beside_work_in_turn_short_copies_are_fewer_together() -> None:
    # As w of work 18 of benchmarks/bench_moves.py. Whole rows take the copies' time and the
    # work's behind it; 16 copies for themselves seem to hide behind work that is taken too long.
    chip, w, axes = load_chip(CHIPS / "hbm2e_128x128.toml"), Shape.parse("f16[16,96,128]"), AXES[:3]
    waited, in_turn = Beside(8160, 27623), Beside(8160, 27623, 4350)
    assert together_cost(chip, w, axes, waited) > apart_cost(chip, w, axes, waited) == 8160
    assert together_cost(chip, w, axes, in_turn) < apart_cost(chip, w, axes, in_turn) < 8160
