"""`systolic export`: the file, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow.parquet import read_table

from support.command_line import refused, run_command
from systolic.shipped import CONFIGS
from systolic.trace.exports.table import FORMATS

FIG_3 = CONFIGS / "runs" / "transpose_fig3.toml"
CHAIN = CONFIGS / "runs" / "matmul_chain.toml"
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


def test_a_table(tmp_path):
    for work, cycles in ((FIG_3, 19), (LAYER, 22)):
        file = tmp_path / "run.parquet"
        told = run_command("export", "parquet", work, "--out", file)
        assert told == (0, f"{file}: {cycles} cycles\n", "")
        stops = read_table(file, filters=[("record", "==", "instruction")])["stop_tick"]
        assert max(stops.to_pylist()) == cycles


def test_a_library_that_is_not_there(tmp_path, monkeypatch):
    """Refused before the run; the formats that need no library go on."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert refused("export", "parquet", FIG_3, "--out", tmp_path / "run.parquet") == (
        'parquet: needs pyarrow, which is not installed (pip install "systolic[parquet]")'
    )
    assert list(tmp_path.iterdir()) == []
    assert run_command("export", "vcd", FIG_3, "--out", tmp_path / "run.vcd")[0] == 0


@pytest.mark.parametrize("form", FORMATS)
def test_a_disk_that_is_full_half_way(form, tmp_path):
    """Of a few thousand bytes: the file that was there stays.

    -B: Python would leave bytecode cut off at that size, and every later process would fail on it.
    """
    file = tmp_path / "run.old"
    file.write_text("old")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))"
    call = f"{limit}; import sys; from systolic.cli.main import main; sys.exit(main())"
    told = subprocess.run(
        [sys.executable, "-B", "-c", call, "export", form, str(CHAIN), "--out", str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    line = f"systolic: error: {file}: cannot be written (File too large)\n"
    assert (told.returncode, told.stdout, told.stderr) == (2, "", line)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("run.old", "old")]


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
        'FORMAT: there is no "perfeto" (known: perfetto, vcd, parquet); '
        'perhaps "perfetto" was meant'
    )
    own = tmp_path / "own.toml"
    own.write_text(FIG_3.read_text())
    assert refused("export", "perfetto", own, "--out", own) == (
        f"{own}: this run reads it; needed another file (--out FILE)"
    )
    sweep = CONFIGS / "runs" / "transpose_fetch.toml"
    assert "is a sweep" in refused("export", "perfetto", sweep, "--out", file)
    assert list(tmp_path.iterdir()) == [own]
