"""Is the picture of a program what happened? Its marks are held against what `trace` prints."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.command_line import refused, run_command
from systolic import run
from systolic.report.plots.subject import PlotRun
from systolic.report.wavefront.bands import Band, CycleAxis, drain_bands, results_band
from systolic.report.wavefront.moments import moments
from systolic.run.plotted import plotted
from systolic.shipped import CONFIGS
from systolic.spans import Interval

LAYER = CONFIGS / "programs" / "layer.txt"
KINDS = ("psum_write", "read", "write")
Marks = set[tuple[int, int]]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the inputs of the program: x f32[6,4], w f32[4,3], b f32[3]."""
    folder, rng = tmp_path_factory.mktemp("inputs"), np.random.default_rng(1)
    for name, shape in (("x", (6, 4)), ("w", (4, 3)), ("b", (3,))):
        np.save(folder / f"{name}.npy", rng.integers(1, 9, shape).astype(np.float32))
    return folder


@pytest.fixture(scope="module")
def drawn(inputs: Path) -> PlotRun:
    arrays = {name: np.load(inputs / f"{name}.npy") for name in "xwb"}
    return plotted(run(LAYER, inputs=arrays, kinds=KINDS, grid=True))


def told(inputs: Path, kind: str, buffer: str, unit: str) -> Marks:
    """Return (partition, cycle) of the words that `trace` prints."""
    status, out, _ = run_command("trace", LAYER, "--kind", kind, "--input", inputs)
    assert status == 0
    return {
        (int(row["partition"]), int(row["cycle"]))
        for row in csv.DictReader(io.StringIO(out))
        if (row["buffer"], row["unit"]) == (buffer, unit)
    }


def marks(band: Band, phase: Any = "drain") -> Marks:
    return {(int(line), int(cycle)) for line, cycle in np.argwhere(band.layers[phase] > 0)}


def test_the_result_buffer_is_read_where_trace_says(drawn: PlotRun, inputs: Path) -> None:
    axis = CycleAxis(0, drawn.trace.cycles())
    read, stored = drain_bands(drawn.chip, drawn.trace, axis, values=True)
    assert marks(read) == told(inputs, "read", "result_buffer", "activation")
    assert marks(stored) == told(inputs, "write", "state_buffer", "activation")
    assert marks(stored) == {(p, cycle) for p in range(3) for cycle in range(16, 22)}


def test_the_bias_is_no_read_of_the_result_buffer(drawn: PlotRun, inputs: Path) -> None:
    axis = CycleAxis(0, drawn.trace.cycles())
    read, _ = drain_bands(drawn.chip, drawn.trace, axis, values=True)
    assert told(inputs, "read", "state_buffer", "activation") == {(p, 14) for p in range(3)}
    assert {cycle for _, cycle in marks(read)} == set(range(15, 21))
    when = moments(drawn.chip, drawn.trace)
    assert when is not None
    assert when.drain == Interval(15, 21)


def test_results_are_written_where_trace_says(drawn: PlotRun, inputs: Path) -> None:
    axis = CycleAxis(0, drawn.trace.cycles())
    band = results_band(drawn.chip, drawn.trace, axis, values=True)
    assert marks(band, "stream") == told(inputs, "psum_write", "result_buffer", "pe_array")


def test_plot_takes_inputs_and_draws_the_picture_of_run(inputs: Path, tmp_path: Path) -> None:
    given, picture = ("--input", inputs), tmp_path / "out.png"
    assert run_command("run", LAYER, *given, "--out", tmp_path / "run")[0] == 0
    assert run_command("plot", "wavefront", LAYER, *given, "--out", picture)[0] == 0
    assert picture.read_bytes() == (tmp_path / "run" / "wavefront.png").read_bytes()


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    found = refused("plot", "wavefront", LAYER, "--out", tmp_path / "a.png")
    assert found.endswith('input "x" (f32 [6, 4]) is missing; needed --input x=FILE.npy')
    assert refused("plot", "timeline", LAYER, "--input", tmp_path, "--out", tmp_path / "a.png") == (
        "--input: means nothing to the view timeline"
    )
