"""Do words, cycles and windows of a picture stand where things happened? Held against the grid.

`GridHistory.at` says what every PE does in a cycle; it shares nothing with what is tested here.
"""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.documents import ROOT
from support.runs import run_transpose
from systolic.config import load_run
from systolic.hw.spec import Chip
from systolic.report.wavefront.moments import (
    Moments,
    _busiest,
    moments,
    panel_cycles,
    phase_places,
    turning_points,
    window,
)
from systolic.report.wavefront.picture import plot_wavefront
from systolic.spans import Interval
from systolic.trace.records import Trace

KINDS = ("psum_write", "read", "write")
LEAVES, BOTTOM = "drain: the wave leaves", "the wave reaches the bottom"


def picture(run: str, *overrides: str, values: bool = True) -> tuple[Chip, Trace]:
    config = load_run(ROOT / "configs" / "runs" / f"{run}.toml", ["sweep=[]", *overrides])
    result = systolic.run(config, grid=True, kinds=KINDS, values=values)
    return result.chip, result.trace


def tiles(rows: int, cols: int, m: int, n: int, **tables: Any) -> tuple[Chip, Trace]:
    chip = ideal_chip(rows, cols, **tables)
    data = np.arange(1, m * n + 1, dtype=np.float32).reshape(m, n)
    outcome = run_transpose(chip, f"f32[{m},{n}]", data, grid=True, kinds=KINDS)[1]
    return chip, outcome.trace


SMALL_ON_LARGE = ("chip=patent_128x64",)
FROM_DRAM = ("workload.home=dram", "workload.shape=f32[8,8]", "compile.via=pe")
RUNS: dict[str, Any] = {
    "4 x 4 on 128 x 64": lambda: picture("transpose_fig3", *SMALL_ON_LARGE),
    "8 x 8 from DRAM": lambda: picture("transpose_vs_dram", *FROM_DRAM),
    "Fig. 3": lambda: picture("transpose_fig3"),
    "Fig. 4": lambda: picture("transpose_fig4"),
    "1 x 1 on 40 x 3": lambda: tiles(40, 3, 1, 1),
    "2 x 3 on 16 x 16": lambda: tiles(16, 16, 2, 3),
    "3 x 9 on 3 x 40": lambda: tiles(3, 40, 3, 9),
    "9 x 3 on 40 x 3": lambda: tiles(40, 3, 9, 3),
    "two clocks": lambda: tiles(
        8, 8, 4, 4, clock={"core": 3000, "slow": 1000}, activation={"clock": "slow"}
    ),
    "entry and cells": lambda: tiles(
        8, 6, 4, 6, pe_array={"hop": [1, 1], "cell": [2, 2], "entry_cycles": 3}
    ),
    "top path": lambda: tiles(12, 12, 4, 4, pe_array={"weight_path": "top"}),
    "many tiles": lambda: tiles(4, 4, 8, 12),
}


@pytest.fixture(params=RUNS, ids=list(RUNS))
def story(request: pytest.FixtureRequest) -> tuple[Trace, Moments]:
    chip, trace = RUNS[request.param]()
    when = moments(chip, trace)
    assert when is not None
    return trace, when


def test_every_cycle_that_is_shown_is_one_of_the_run(story: tuple[Trace, Moments]) -> None:
    trace, when = story
    shown = window(trace, when)
    assert 0 <= shown.first < shown.stop <= trace.cycles()
    assert all(0 <= cycle < trace.cycles() for cycle, _ in panel_cycles(trace.grid, when))
    assert all(0 <= cycle <= trace.cycles() for cycle, _ in turning_points(when))


def test_the_wave_leaves_while_it_is_at_the_bottom(story: tuple[Trace, Moments]) -> None:
    trace, when = story
    found = {caption: cycle for cycle, caption in panel_cycles(trace.grid, when)}
    if LEAVES in found:
        assert trace.grid.at(found[LEAVES]).valid[-1].any()
        assert not trace.grid.at(found[LEAVES]).valid[0, 0]
        assert found[LEAVES] >= found.get(BOTTOM, 0)


def test_the_first_vectors_are_shown_among_weights(story: tuple[Trace, Moments]) -> None:
    trace, when = story
    (cycle,) = [c for c, text in panel_cycles(trace.grid, when) if text == "first vectors multiply"]
    used = trace.grid.matmuls[0].moving.shape[1]
    assert trace.grid.at(cycle).valid[:used].any()


def test_a_name_stands_on_its_phase(story: tuple[Trace, Moments]) -> None:
    """In its row the load writes weights and no vector is there; of the others some are."""
    trace, when = story
    history = trace.grid
    for place in phase_places(history, when):
        first, last = int(np.ceil(place.begin)), int(np.ceil(place.end)) - 1
        if last < first:
            continue
        there = [history.vectors(cycle)[0][place.row] >= 0 for cycle in range(first, last + 1)]
        if place.name != "load":
            assert any(mask.any() for mask in there)
            continue
        assert not any(mask.any() for mask in there)
        held = [registers(trace, cycle)[place.row] for cycle in (first - 1, last)]
        assert (held[0] != held[1]).any()


def registers(trace: Trace, cycle: int) -> Any:
    state = trace.grid.at(cycle)
    return np.concatenate([state.weight, state.shadow], axis=1)


def test_the_findings_in_numbers() -> None:
    """Worked by hand: delay r + c, vectors 714..721 and 4..7; columns 8 and 4; 128 rows.

    8 x 8: at the bottom from 714 + 127 to 721 + 127 + 7. 4 x 4: from 131 to 7 + 127 + 3.
    """
    chip, trace = RUNS["8 x 8 from DRAM"]()
    when = moments(chip, trace)
    assert when is not None
    (load, *_) = phase_places(trace.grid, when)
    assert (load.name, load.rows) == ("load", Interval(0, 8))
    (leaving,) = [c for c, caption in panel_cycles(trace.grid, when) if caption == LEAVES]
    assert 841 <= leaving <= 855
    chip, trace = RUNS["4 x 4 on 128 x 64"]()
    when = moments(chip, trace)
    assert when is not None
    (leaving,) = [c for c, caption in panel_cycles(trace.grid, when) if caption == LEAVES]
    assert 131 <= leaving <= 137
    assert trace.cycles() == 143


# -- costs follow what happened, not how long it took ---------------------------------------------


def peak_bytes(latency: int, values: bool, folder: Path) -> int:
    tracemalloc.start()
    try:
        setting = f"chip.activation.latency_cycles={latency}"
        chip, trace = picture("transpose_fig3", setting, values=values)
        plot_wavefront(chip, trace, folder / "w.png", title="a long wait")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("values", [True, False])
def test_a_picture_of_a_long_wait_costs_no_more_memory(values: bool, tmp_path: Path) -> None:
    """Measured as the difference to a wait of a thousandth; 24 bytes a cycle were 240 MB."""
    peak_bytes(10**4, values, tmp_path)  # what is imported and cached once
    short, long = (peak_bytes(latency, values, tmp_path) for latency in (10**4, 10**7))
    assert long < short + 4 * 2**20


def test_the_busiest_cycle_of_a_multiply_that_waits_long() -> None:
    _, trace = tiles(4, 4, 4, 4)
    (one, *_) = trace.grid.matmuls
    late = one.injections.copy()
    late[2:] += 10**8
    history = replace(trace.grid, matmuls=(replace(one, injections=late),))
    tracemalloc.start()
    found = [_busiest(history, int(cycle)) for cycle in (late[0], late[-1])]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20
    counts = {
        cycle: int((history.vectors(cycle)[0] >= 0).sum())
        for start in (late[0], late[2])
        for cycle in range(int(start), int(start) + 12)
    }
    assert [counts[cycle] for cycle in found] == [max(counts.values())] * 2
    assert found[0] < late[2] <= found[1]
