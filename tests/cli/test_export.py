"""`systolic export`: the file, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import refused, run_command
from systolic.shipped import CONFIGS
from systolic.trace.exports.table import FORMATS

FIG_3 = CONFIGS / "runs" / "transpose_fig3.toml"
LAYER = CONFIGS / "programs" / "layer.txt"


def test_a_run_and_a_program(tmp_path):
    for work, cycles in ((FIG_3, 19), (LAYER, 22)):
        file = tmp_path / "deep" / "run.json"
        told = run_command("export", "perfetto", work, "--out", file)
        assert told == (0, f"{file}: {cycles} cycles\n", "")
        events = json.loads(file.read_text())["traceEvents"]
        assert max(e["ts"] + e["dur"] for e in events if e["ph"] == "X") == cycles


def test_a_waveform(tmp_path):
    for work, cycles in ((FIG_3, 19), (LAYER, 22)):
        file = tmp_path / "run.vcd"
        told = run_command("export", "vcd", work, "--out", file)
        assert told == (0, f"{file}: {cycles} cycles\n", "")
        times = [line for line in file.read_text().splitlines() if line.startswith("#")]
        assert times[-1] == f"#{cycles}"


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk(form):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    assert refused("export", form, FIG_3, "--out", "/dev/full") == (
        "/dev/full: cannot be written (No space left on device)"
    )


@pytest.mark.parametrize("form", FORMATS)
def test_a_folder_in_the_way(form, tmp_path):
    assert refused("export", form, FIG_3, "--out", tmp_path) == (
        f"{tmp_path}: is a folder; needed the name of a file to write"
    )


def test_overrides(tmp_path):
    file = tmp_path / "run.json"
    told = run_command(
        "export", "perfetto", FIG_3, "--out", file, "--set", "chip.semaphore_cycles=3"
    )
    assert told == (0, f"{file}: 21 cycles\n", "")


def test_bad_input(tmp_path):
    file = tmp_path / "run.json"
    assert refused("export", "perfeto", FIG_3, "--out", file) == (
        'FORMAT: there is no "perfeto" (known: perfetto, vcd); perhaps "perfetto" was meant'
    )
    own = tmp_path / "own.toml"
    own.write_text(FIG_3.read_text())
    assert refused("export", "perfetto", own, "--out", own) == (
        f"{own}: this run reads it; needed another file (--out FILE)"
    )
    sweep = CONFIGS / "runs" / "transpose_fetch.toml"
    assert "is a sweep" in refused("export", "perfetto", sweep, "--out", file)
    assert list(tmp_path.iterdir()) == [own]
