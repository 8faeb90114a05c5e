"""Do the extracted data of the pictures show what happened? Nothing is drawn here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.blocks import block_images, block_program
from support.chips import ideal_chip
from support.runs import run_transpose
from systolic.hw.spec import Chip
from systolic.machine import simulate
from systolic.report.wavefront.bands import (
    Band,
    CycleAxis,
    drain_bands,
    is_small,
    results_band,
    vectors_band,
    weights_band,
)
from systolic.report.wavefront.moments import (
    drains,
    moments,
    panel_cycles,
    result_times,
    turning_points,
    window,
)
from systolic.report.wavefront.panels import Scene, panels
from systolic.report.wavefront.pe_bands import dry_spells, in_spell, pe_band, row_band
from systolic.spans import Interval
from systolic.trace.records import Trace
from systolic.trace.words import WordTable

KINDS = ("psum_write", "read", "write")
Run = tuple[Chip, Trace]


def block(K: int, N: int, drain: Any = "block", **tables: Any) -> Run:
    chip = ideal_chip(K, N, **tables)
    values = np.arange(1, K * N + 1, dtype=np.float32).reshape(K, N)
    outcome = simulate(
        chip, block_program(K, N, drain), block_images(values), kinds=KINDS, grid=True
    )
    return chip, outcome.trace


def tiles(rows: int, cols: int, m: int, n: int, **tables: Any) -> Run:
    chip = ideal_chip(rows, cols, **tables)
    data = np.arange(1, m * n + 1, dtype=np.float32).reshape(m, n)
    _, outcome, _ = run_transpose(chip, f"f32[{m},{n}]", data, kinds=KINDS, grid=True)
    return chip, outcome.trace


def wordless(trace: Trace) -> Trace:
    return replace(trace, words=WordTable(trace.words.rows[:0], trace.words.units))


def busy(band: Band, phase: Any) -> np.ndarray:
    return np.argwhere(band.layers.get(phase, np.zeros((1, 1))) > 0)


@pytest.fixture
def fig3() -> Run:
    return block(4, 4)


def test_fig3_turning_points(fig3: Run) -> None:
    when = moments(*fig3)
    assert [cycle for cycle, _ in turning_points(when)] == [0, 4, 7, 14, 19]
    assert window(fig3[1], when) == Interval(0, 19)


def test_fig3_results_by_processing_cycle(fig3: Run) -> None:
    """The patent's table: processing cycle 1 is cycle 7."""
    band = results_band(*fig3, CycleAxis(0, 19), values=True)
    table = {
        cycle: {line: text for (line, c), text in band.texts["stream"].items() if c == cycle + 6}
        for cycle in range(1, 8)
    }
    assert table == {
        1: {0: "1"},
        2: {0: "5", 1: "2"},
        3: {0: "9", 1: "6", 2: "3"},
        4: {0: "13", 1: "10", 2: "7", 3: "4"},
        5: {1: "14", 2: "11", 3: "8"},
        6: {2: "15", 3: "12"},
        7: {3: "16"},
    }


def test_fig3_what_the_memories_gave_and_took(fig3: Run) -> None:
    chip, trace = fig3
    axis = CycleAxis(0, 19)
    weights = weights_band(trace, axis, values=True)
    assert [weights.texts["load"][0, t] for t in range(4)] == ["1", "2", "3", "4"]
    vectors = vectors_band(trace, axis, values=True)
    assert [vectors.texts["stream"][2, t] for t in range(4, 8)] == ["0", "0", "1", "0"]
    read, stored = drain_bands(chip, trace, axis, values=True)
    assert [read.texts["drain"][1, t] for t in range(14, 18)] == ["2", "6", "10", "14"]
    assert [stored.texts["drain"][1, t] for t in range(15, 19)] == ["2", "6", "10", "14"]


@pytest.mark.parametrize("drain", ["block", "row", "partition"])
def test_without_words_the_results_are_derived(drain: str) -> None:
    chip, trace = block(3, 4, drain)
    axis = CycleAxis(0, trace.cycles())
    with_words = results_band(chip, trace, axis, values=True)
    without = results_band(chip, wordless(trace), axis, values=True)
    assert with_words.texts == without.texts
    assert [t.instruction for t in drains(chip, wordless(trace))] == [
        t.instruction for t in drains(chip, trace)
    ]


def test_without_words_no_reads_or_stores_are_claimed(fig3: Run) -> None:
    chip, trace = fig3
    assert drain_bands(chip, wordless(trace), CycleAxis(0, 19), values=False) == ()
    when = moments(chip, wordless(trace))
    assert when is not None
    assert when.drain is None
    assert (when.result, when.done) == (Interval(7, 14), 19)


VARIANTS: list[tuple[int, int, dict[str, Any]]] = [
    (4, 4, {}),
    (1, 1, {}),
    (2, 3, {}),
    (4, 4, {"pe_array": {"weight_path": "top"}}),
    (4, 6, {"pe_array": {"hop": [2, 1], "cell": [2, 3], "entry_cycles": 2}}),
    (4, 4, {"pe_array": {"weight_buffer": "serial", "fast_load": 2}}),
    (3, 2, {"pe_array": {"cycles_per_vector": {"f32": 3}}}),
]


@pytest.mark.parametrize(("rows", "cols", "tables"), VARIANTS)
def test_pe_band_is_the_grid_cycle_by_cycle(rows: int, cols: int, tables: dict[str, Any]) -> None:
    _, trace = tiles(rows, cols, 2 * rows, cols, **tables)
    axis = CycleAxis(0, trace.cycles())
    band = pe_band(trace, axis, values=True)
    multiplying = sum(band.layers.get(p, 0) for p in ("stream", "next", "drain"))
    texts = {**band.texts["stream"], **band.texts.get("next", {}), **band.texts.get("drain", {})}
    for cycle in range(axis.stop):
        state = trace.grid.at(cycle)
        np.testing.assert_array_equal(multiplying[:, cycle] > 0, state.valid.ravel())
        for line in np.flatnonzero(state.valid.ravel()):
            assert float(texts[int(line), cycle]) == state.sum.ravel()[line]


@pytest.mark.parametrize(("rows", "cols", "tables"), VARIANTS)
def test_row_band_is_the_share_of_the_pes(rows: int, cols: int, tables: dict[str, Any]) -> None:
    _, trace = tiles(rows, cols, 2 * rows, cols, **tables)
    axis = CycleAxis(0, trace.cycles())
    row, pe = row_band(trace, axis), pe_band(trace, axis, values=False)
    for phase in ("stream", "next", "drain"):
        if phase in pe.layers:
            share = pe.layers[phase].reshape(rows, cols, -1).mean(axis=1)
            np.testing.assert_allclose(row.layers[phase], share)


def test_row_band_binned_keeps_the_work(fig3: Run) -> None:
    whole, binned = row_band(fig3[1], CycleAxis(0, 20)), row_band(fig3[1], CycleAxis(0, 20, step=4))
    for phase in ("stream", "drain"):
        pooled = whole.layers[phase].reshape(4, 5, 4).mean(axis=2)
        np.testing.assert_allclose(binned.layers[phase], pooled)


def test_long_windows_are_binned() -> None:
    axis = CycleAxis.fit(Interval(100, 100_100))
    assert axis.columns <= 1600
    assert axis.columns * axis.step >= 100_000


def test_the_drain_begins_when_nothing_enters_a_row(fig3: Run) -> None:
    spells = dry_spells(fig3[1], Interval(7, 10))
    assert in_spell(spells, np.arange(7, 10)).tolist() == [False, True, True]


def test_multiplies_that_follow_at_once_do_not_drain_between() -> None:
    _, trace = tiles(4, 4, 8, 4)
    first, second = trace.grid.matmuls
    gap = second.injections[0] - first.injections[-1]
    assert len(dry_spells(trace, Interval(0, trace.cycles()))) == (1 if gap == 1 else 2)


def test_the_spells_of_a_few_cycles_are_those_of_the_run() -> None:
    _, trace = tiles(4, 4, 12, 12)
    whole, cycles = dry_spells(trace, Interval(0, trace.cycles())), np.arange(trace.cycles())
    found = [in_spell(dry_spells(trace, Interval(t, t + 1)), cycles[t : t + 1])[0] for t in cycles]
    np.testing.assert_array_equal(found, in_spell(whole, cycles))
    assert 0 < sum(found) < len(found)


@pytest.mark.parametrize("path", ["left", "top"])
def test_what_weights_do_is_what_the_registers_say(path: str) -> None:
    """Late in a run too: a weight that is new waits in its shadow register until it is in use."""
    chip = ideal_chip(4, 4, pe_array={"weight_path": path})
    data = np.arange(1, 145, dtype=np.float32).reshape(12, 12)
    trace = run_transpose(chip, "f32[12,12]", data, grid=True, kinds=KINDS)[1].trace
    history = trace.grid
    delay, held = history.shape.delay(), np.zeros((4, 4), bool)
    arrivals, uses = np.zeros((4, 4), int), np.zeros((4, 4), int)
    scene = Scene.of(chip, trace, Interval(0, trace.cycles()))
    for cycle in range(trace.cycles()):
        now = np.zeros((4, 4), bool)
        for load in history.loads:
            for number, read in enumerate(load.reads.tolist()):
                brought = history.shape.read_of(*load.weights.shape, load.columns) == number
                now |= brought & (read + delay == cycle)
        held |= now
        arrivals += now
        for one in history.matmuls:
            uses += one.exchange & (int(one.injections[0]) + delay == cycle)
        panel = scene.panel(cycle)
        np.testing.assert_array_equal(panel.load, now)
        np.testing.assert_array_equal(panel.held, held)
        np.testing.assert_array_equal(panel.waiting, arrivals > uses)


@pytest.mark.parametrize("drain", ["block", "row", "partition"])
def test_panels_tell_the_story_in_order(drain: str) -> None:
    chip, trace = block(4, 4, drain)
    shots = panels(chip, trace, moments(chip, trace))
    assert [shot.cycle for shot in shots] == sorted({shot.cycle for shot in shots})
    assert shots[0].load.any()
    assert not shots[0].written.any()
    for shot in shots:
        written = result_times(chip, trace.grid.matmuls[0])
        np.testing.assert_array_equal(shot.written, written <= shot.cycle)
        assert not (shot.drained & ~shot.written).any()
        together = shot.stream.astype(int) + shot.next + shot.drain
        np.testing.assert_array_equal(together, shot.state.valid)
    assert shots[-1].drained.any()


def test_a_weight_waits_until_the_first_vector_passes(fig3: Run) -> None:
    shots = {shot.cycle: shot for shot in panels(*fig3, moments(*fig3))}
    assert shots[3].waiting.sum() == 6
    assert not (shots[5].waiting & shots[5].state.valid).any()


def test_snapshots_lie_within_the_tile(fig3: Run) -> None:
    when = moments(*fig3)
    assert all(0 <= cycle < when.tile_done for cycle, _ in panel_cycles(fig3[1].grid, when))


def test_a_window_shows_the_first_tile_and_enough_of_the_next() -> None:
    _, trace = tiles(4, 4, 40, 4)
    when = moments(ideal_chip(4, 4), trace)
    shown = window(trace, when)
    assert shown.first == 0
    assert when.tile_done < shown.stop < trace.cycles()


def test_no_multiply_no_story(fig3: Run) -> None:
    chip, trace = fig3
    nothing = replace(trace, grid=replace(trace.grid, loads=(), matmuls=()))
    assert moments(chip, nothing) is None
    assert drains(chip, nothing) == ()


def test_values_are_shown_up_to_six_by_six() -> None:
    axis = CycleAxis(0, 30)
    assert is_small(ideal_chip(6, 6), axis)
    assert not is_small(ideal_chip(6, 7), axis)
    assert not is_small(ideal_chip(4, 4), CycleAxis(0, 65))
