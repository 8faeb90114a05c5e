"""Does a run end well with closed streams, narrow screens, or a wrong environment?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNS = ROOT / "configs" / "runs"
FIG3 = RUNS / "transpose_fig3.toml"
ALL = ["result.npy", "summary.json", "wavefront.png"]


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in which `systolic` is this program."""
    name = f'systolic() {{ "{sys.executable}" -m systolic "$@"; }}; '
    return subprocess.run(
        ["bash", "-c", name + command],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def test_a_reader_that_leaves_stops_nothing(tmp_path: Path) -> None:
    """The pipe is closed before the table is printed: all the files are there, and status 0."""
    command = f'systolic run "{FIG3}" --out o | true; echo ${{PIPESTATUS[0]}}'
    found = shell(command, tmp_path)
    assert (found.stdout, found.stderr) == ("0\n", "")
    assert sorted(os.listdir(tmp_path / "o")) == ALL


def test_a_reader_that_leaves_hides_no_failure(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text(
        'systolic program 1\nchip "ideal_4x4"\n'
        "copy pooling source=state_buffer[0:4]+0 f32 (1x4) "
        "target=state_buffer[0:4]+64 f32 (1x4)\n",
        encoding="utf-8",
    )
    found = shell('systolic lint p.txt | true; echo "${PIPESTATUS[0]}"', tmp_path)
    assert (found.stdout, found.stderr) == ("1\n", "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str, tmp_path: Path) -> None:
    found = shell(f'systolic run "{FIG3}" --out o {closed}', tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert sorted(os.listdir(tmp_path / "o")) == ALL
    for name in ALL:  # and the table is in none of them
        assert b"waiting for pe_array  " not in (tmp_path / "o" / name).read_bytes()
    found = shell(f"systolic run no.toml {closed}", tmp_path)
    assert found.returncode == 2


def test_a_drawing_backend_that_is_not_there(tmp_path: Path) -> None:
    found = shell(f'systolic run "{FIG3}" --out o', tmp_path, MPLBACKEND="nope")
    assert (found.returncode, found.stderr) == (0, "")
    assert sorted(os.listdir(tmp_path / "o")) == ALL


@pytest.mark.parametrize("columns", ["0", "00", "", "-3", "wide"])
def test_a_width_that_is_none_is_unknown(columns: str, tmp_path: Path) -> None:
    command = f'systolic run "{FIG3}" --no-plots'
    assert shell(command, tmp_path, COLUMNS=columns).stdout == (
        shell(command, tmp_path, COLUMNS="80").stdout
    )


@pytest.mark.parametrize("columns", [1, 40])
def test_numbers_and_names_stay_on_a_narrow_screen(columns: int, tmp_path: Path) -> None:
    run = f'systolic run "{RUNS / "transpose_300x1000.toml"}" --no-plots'
    vary = (
        '{"compile.drain"=["row"], "workload.shape"=["f32[12,34]"], "compile.via"=["pe", "dram"]}'
    )
    sweep = f"systolic run '{FIG3}' --no-plots --set 'sweep=[{{name=\"s\", vary={vary}}}]'"
    layout = 'systolic layout "f32[5,7]" --buffer state_buffer --chip ideal_4x4 --index 2,3'
    options = "--set chip.state_buffer.banks=1"
    for command in (f"{run} {options}", sweep, layout):
        wide = shell(command, tmp_path, COLUMNS="200").stdout
        narrow = shell(command, tmp_path, COLUMNS=str(columns)).stdout
        assert "…" not in narrow
        assert "█" not in narrow
        for line in wide.splitlines():
            cells = [cell.strip() for cell in line.replace("█", " ").split("  ")]
            for cell in cells:
                kept = cell.strip(" ▏▎▍▌▋▊▉█")
                assert "".join(kept.split()) in "".join(narrow.split()), (command, line, kept)
