"""Is the cycle right? The worked totals of the timing model and Fig. 3, on both engines."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from support.blocks import RESULT, block_images, block_program, state
from support.chips import ideal_chip
from systolic.machine import simulate

ENGINES = ("event", "register")
TOTALS = [
    # K, N, drain, independent lanes, cycles (timing contract, section 4)
    (4, 4, "block", True, 19),
    (4, 4, "row", True, 4 + 4 + 3 + 3 + 1 + 1),
    (4, 4, "partition", True, 19),
    (4, 4, "partition", False, 28),
    (128, 64, "block", True, 511),
    (128, 64, "row", True, 384),
    (128, 64, "partition", True, 511),
    (128, 64, "partition", False, 8512),
]
FIG_3 = {
    # processing cycle: {(partition, row): value} (patent, para 62-80)
    1: {(0, 0): 1},
    2: {(1, 0): 2, (0, 1): 5},
    3: {(2, 0): 3, (1, 1): 6, (0, 2): 9},
    4: {(3, 0): 4, (2, 1): 7, (1, 2): 10, (0, 3): 13},
    5: {(3, 1): 8, (2, 2): 11, (1, 3): 14},
    6: {(3, 2): 12, (2, 3): 15},
    7: {(3, 3): 16},
}
FIRST_RESULT_CYCLE = 7


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("K", "N", "drain", "independent", "cycles"), TOTALS)
def test_worked_total(engine, K, N, drain, independent, cycles):
    chip = ideal_chip(K, N, activation={"independent_lanes": independent})
    values = np.arange(1, K * N + 1, dtype=np.float32).reshape(K, N)
    outcome = simulate(chip, block_program(K, N, drain), block_images(values), engine=engine)
    assert outcome.trace.cycles() == cycles
    assert np.array_equal(outcome.memory.read(state(0, N, RESULT, K)), values.T)


@pytest.mark.parametrize("engine", ENGINES)
def test_figure_3(engine):
    values = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    outcome = simulate(
        ideal_chip(4, 4), block_program(4, 4), block_images(values),
        engine=engine, kinds=["psum_write"],
    )  # fmt: skip
    table = outcome.trace.words.of("psum_write")
    found: defaultdict[int, dict[tuple[int, int], int]] = defaultdict(dict)
    for row, value in zip(table.rows, table.values(), strict=True):
        cycle = int(row["tick"]) - FIRST_RESULT_CYCLE + 1
        found[cycle][int(row["partition"]), int(row["address"])] = int(value)
    assert found == FIG_3
    state_buffer = outcome.memory.read(state(0, 4, RESULT, 4))
    assert state_buffer.tolist() == [[1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15], [4, 8, 12, 16]]


@pytest.mark.parametrize("engine", ENGINES)
def test_labels_of_figure_3(engine):
    values = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    outcome = simulate(ideal_chip(4, 4), block_program(4, 4), block_images(values), engine=engine)
    runs = {
        unit: [(run.first, run.stop, run.label) for run in outcome.trace.labels[unit]]
        for unit in ("pe_array", "activation", "pooling")
    }
    assert runs == {
        "pe_array": [
            (0, 4, "loading"),
            (4, 8, "streaming"),
            (8, 14, "draining"),
            (14, 19, "idle"),
        ],
        "activation": [
            (0, 14, "waiting for pe_array"),
            (14, 18, "streaming"),
            (18, 19, "draining"),
        ],
        "pooling": [(0, 19, "idle")],
    }
