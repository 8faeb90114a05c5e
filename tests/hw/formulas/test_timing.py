"""Is the cycle right? The closed formulas of `hw.timing` against the machine, on random chips."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from support.blocks import IDENTITY, block_images, block_program, psum, state
from support.chips import ideal_chip
from support.random_programs import aside
from systolic.hw.formulas import timing
from systolic.isa import LoadWeights, MatMul, Program
from systolic.machine import simulate


def _random_ideal_chip(rng: Random, K: int, N: int):
    ports = aside(rng, "ports")
    return ideal_chip(
        K + rng.randint(0, 5),
        N + rng.randint(0, 5),
        semaphore_cycles=rng.randint(1, 3),
        state_buffer={
            "port_bytes": ports.choice([None, 12, 13, 16]),
            "port_scope": ports.choice(["bank", "partition"]),
        },
        pe_array={
            "weight_path": rng.choice(["left", "top"]),
            "fast_load": rng.randint(1, 3),
            "hop": (rng.randint(1, 3), rng.randint(1, 3)),
            "entry_cycles": rng.randint(0, 2),
            "cycles_per_vector": {"f32": rng.randint(1, 3)},
        },
        result_buffer={"write_latency_cycles": rng.randint(0, 2)},
        activation={
            "independent_lanes": rng.random() < 0.5,
            "latency_cycles": rng.randint(1, 3),
            "elements_per_cycle": ports.choice([1, 1, 2, 3]),
        },
    )


@pytest.mark.parametrize("drain", ["block", "row", "partition"])
@pytest.mark.parametrize("seed", range(40))
def test_one_block(drain, seed):
    rng = Random(seed)
    K, N = rng.randint(1, 9), rng.randint(1, 9)
    chip = _random_ideal_chip(rng, K, N)
    values = np.ones((K, N), np.float32)
    trace = simulate(chip, block_program(K, N, drain), block_images(values)).trace
    assert trace.cycles() == timing.transpose_block_cycles(
        chip, K, N, "f32", drain=drain, unit="activation"
    )


@pytest.mark.parametrize(
    ("weight_path", "M", "C", "K", "period"),
    [
        ("left", 10, 4, 4, 10),  # max(M, C): the stream is the longer
        ("left", 3, 8, 4, 8),  # the load is the longer
        ("top", 3, 4, 8, 8),  # max(M, K) on the top path
    ],
)
def test_steady_period_of_double_buffered_tiles(weight_path, M, C, K, period):
    """With a double buffer and f = 1 a tile takes max(M, columns) cycles (rows on the top path)."""
    chip = ideal_chip(K, C, pe_array={"weight_path": weight_path})
    pairs = 6
    steps: list[LoadWeights | MatMul] = []
    for tile in range(pairs):
        steps.append(LoadWeights(weights=state(0, K, 0, C)))
        steps.append(MatMul(moving=state(0, K, IDENTITY, M), result=psum(0, C, tile * M, M)))
    trace = simulate(chip, Program("pairs", tuple(steps))).trace
    starts = [time.first for time in trace.times if time.instruction % 2]
    assert np.diff(starts).tolist() == [period] * (pairs - 1)


def test_scale_sim_fold():
    """`top`, `serial` and full tiles: 2R + C + M - 2 cycles for one tile, as SCALE-Sim counts."""
    for R, C, M in [(4, 7, 5), (12, 14, 9), (3, 3, 1)]:
        chip = ideal_chip(R, C, pe_array={"weight_path": "top", "weight_buffer": "serial"})
        steps: list[LoadWeights | MatMul] = []
        for tile in range(3):
            steps.append(LoadWeights(weights=state(0, R, 0, C)))
            steps.append(MatMul(moving=state(0, R, IDENTITY, M), result=psum(0, C, tile * M, M)))
        trace = simulate(chip, Program("folds", tuple(steps))).trace
        fold = 2 * R + C + M - 2
        assert trace.cycles() == 3 * fold
        loads = [time.start for time in trace.times if time.instruction % 2 == 0]
        assert loads == [0, fold, 2 * fold]


def test_dma_formula():
    chip = ideal_chip(
        4, 4,
        dma={"bytes_per_cycle": 16, "latency_cycles": 30, "descriptor_cycles": 2},
        dram={"bytes_per_cycle": 10, "latency_cycles": 7},
    )  # fmt: skip
    # 5 descriptors of 33 bytes and 1 of 4: 37 + 5 * (2 + 4) + (2 + 1)
    assert timing.dma_cycles(chip, [(5, 33), (1, 4)], dram=True) == 37 + 30 + 3
    assert timing.dma_cycles(chip, [(5, 33), (1, 4)], dram=False) == 30 + 5 * (2 + 3) + 3
