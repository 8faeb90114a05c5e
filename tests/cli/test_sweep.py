"""Does a sweep keep the points that are done, also if others fail or it is interrupted?"""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import systolic
from support.command_line import refused, run_command
from systolic.config import load_run

ROOT = Path(__file__).resolve().parents[2]
HEAD = (
    'chip = "ideal_4x4"\n[workload]\nop = "transpose"\nshape = "f32[4,4]"\n[[sweep]]\nname = "s"\n'
)
SIZES = HEAD + 'vary = { "workload.shape" = ["f32[8,8]", "f32[0,4]", "f32[6,2]"] }\n'
ZIPPED = HEAD + (
    'zip = [["chip.pe_array.rows", "compile.drain"]]\n'
    'vary = { "chip.pe_array.rows" = [4, 8], "workload.shape" = ["f32[4,4]", "s8[4,4]"], '
    '"compile.drain" = ["row", "block"] }\n'
)


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str) -> None:
    Path("s.toml").write_text(text, encoding="utf-8")


def is_gone(group: int) -> bool:
    """Return whether no process of a group is left, after 20 seconds at most."""
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def table(folder: str = "o") -> list[dict[str, str]]:
    with Path(folder, "sweep.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def summary(folder: str = "o") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, "summary.json").read_text(encoding="utf-8"))
    return found


def test_a_bad_point_is_a_row_with_its_error() -> None:
    write(SIZES)
    status, out, err = run_command("run", "s.toml", "--out", "o")
    assert status == 2
    assert err.startswith("systolic: error: 1 of 3 points could not be run (see o/sweep.csv); ")
    assert err.count("\n") == 1
    assert "f32[0,4]" in err
    assert [row["workload.shape"] for row in table()] == ["f32[8,8]", "f32[0,4]", "f32[6,2]"]
    assert [bool(row["error"]) for row in table()] == [False, True, False]
    assert [bool(row["cycles"]) for row in table()] == [True, False, True]
    points = summary()["points"]
    assert "no elements" in points[1]["error"]
    assert points[0]["cycles"] == int(table()[0]["cycles"])
    assert "failed: shape=f32[0,4]: " in out
    assert Path("o/sweep.png").exists()


def test_columns_are_those_of_the_run_alone() -> None:
    write(ZIPPED)
    assert run_command("run", "s.toml", "--out", "o", "--no-plots")[0] == 0
    for row in table():
        keys = ("chip.pe_array.rows", "workload.shape", "compile.drain")
        given = ["sweep=[]", *(f"{key}={row[key]}" for key in keys)]
        alone = systolic.run(load_run("s.toml", given))
        assert int(row["cycles"]) == alone.summary["cycles"]
        assert float(row["time_ns"]) == alone.summary["time_ns"]
        assert int(row["bound_cycles"]) == alone.summary["bound"]["cycles"]
        assert (row["equal"], row["error"]) == ("true", "")
        # 4 x 4 weights in an array of 4 columns meet 4 vectors, of 1 cycle each.
        pe_cycles = int(row["chip.pe_array.rows"]) * 4 * alone.summary["cycles"]
        assert float(row["multiplying"]) == pytest.approx(4 * 4 * 4 / pe_cycles)
        assert float(row["utilisation"]) == 0  # a transpose needs no multiply-add


def test_an_array_that_is_always_full_is_used_but_for_its_latencies() -> None:
    shapes = 'lhs = "bf16[512,4]{0,1}"\nrhs = "bf16[4,4]"\nout = "bf16[512,4]"'
    text = HEAD.replace('shape = "f32[4,4]"', shapes).replace('"transpose"', '"matmul"')
    write(text + 'vary = { "chip.pe_array.cols" = [4, 8] }\n')
    assert run_command("run", "s.toml", "--out", "o", "--no-plots")[0] == 0
    full, half = (point["utilisation"] for point in summary()["points"])
    streaming = summary()["points"][0]["units"]["pe_array"]["labels"]["streaming"]
    assert full == streaming / summary()["points"][0]["cycles"] > 0.9
    assert 0.45 < half < 0.5


def test_zip_and_product() -> None:
    write(ZIPPED)
    run_command("run", "s.toml", "--out", "o", "--values", "none", "--no-plots")
    assert [tuple(point["vary"].values()) for point in summary()["points"]] == [
        (4, "f32[4,4]", "row"),
        (4, "s8[4,4]", "row"),
        (8, "f32[4,4]", "block"),
        (8, "s8[4,4]", "block"),
    ]


BAD_ZIPS = {
    "unknown": ('[["chip.pe_array.rows", "compile.drian"]]', r'zip: "compile.drian" is no key of'),
    "alone": ('[["compile.drain"]]', r"zip.* needs a list of 2 or more values"),
    "twice": (
        '[["chip.pe_array.rows", "compile.drain"], ["compile.drain", "workload.shape"]]',
        r'"compile.drain" is named twice',
    ),
    "lengths": (
        '[["chip.pe_array.rows", "workload.data"]]',
        r"equally many values, found: chip.pe_array.rows has 2, workload.data has 1",
    ),
}


@pytest.mark.parametrize(("group", "message"), BAD_ZIPS.values(), ids=BAD_ZIPS)
def test_a_zip_that_makes_no_sense(group: str, message: str) -> None:
    more = ZIPPED.replace("vary = { ", 'vary = { "workload.data" = ["random"], ')
    write(more.replace('[["chip.pe_array.rows", "compile.drain"]]', group))
    found = refused("run", "s.toml", "--out", "o")
    assert re.search(message, found), found
    assert not Path("o").exists()


def test_values_none_is_obeyed() -> None:
    write(SIZES.replace('"f32[0,4]", ', '"f32[5,5]", '))
    status, out, _ = run_command("run", "s.toml", "--out", "o", "--values", "none")
    assert status == 0
    assert [point["values"]["checked"] for point in summary()["points"]] == [False] * 3
    assert [row["equal"] for row in table()] == [""] * 3
    assert "results not checked" in out
    assert "results are right" not in out


def test_the_same_whatever_the_number_of_jobs() -> None:
    write(ZIPPED.replace('"f32[4,4]", "s8[4,4]"', '"f32[40,40]", "f32[0,4]", "s8[4,4]"'))
    ends = [run_command("run", "s.toml", "--out", "o", "--jobs", jobs) for jobs in (1, 3)]
    kept = {path.name: path.read_bytes() for path in Path("o").iterdir()}
    run_command("run", "s.toml", "--out", "p")
    assert ends[0] == ends[1]
    assert ends[0][0] == 2
    assert kept == {path.name: path.read_bytes() for path in Path("p").iterdir()}


def test_jobs_is_for_sweeps() -> None:
    run_file = ROOT / "configs" / "runs" / "transpose_fig3.toml"
    assert "is for run files with a [[sweep]]" in refused("run", run_file, "--jobs", "2")
    write(ZIPPED)
    assert "--jobs" in refused("run", "s.toml", "--jobs", "0")


def test_two_sweeps_of_one_name() -> None:
    write(ZIPPED + '[[sweep]]\nname = "s"\nvary = { "compile.drain" = ["row"] }\n')
    assert refused("run", "s.toml") == 's.toml: two sweeps are called "s"'


def test_what_another_run_left_there_is_gone() -> None:
    Path("o").mkdir()
    for name in ("result.npy", "wavefront.png", "comparison.png", "mine.txt"):
        Path("o", name).write_bytes(b"old")
    write(SIZES)
    run_command("run", "s.toml", "--out", "o", "--no-plots")
    assert sorted(p.name for p in Path("o").iterdir()) == ["mine.txt", "summary.json", "sweep.csv"]


def test_a_folder_that_cannot_be_written_is_found_first(monkeypatch: pytest.MonkeyPatch) -> None:
    write(SIZES)
    Path("o").write_bytes(b"")
    monkeypatch.setattr("systolic.sweep.rows.run", lambda *_, **__: pytest.fail("computed first"))
    assert "nothing can be written there" in refused("run", "s.toml", "--out", "o")


@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupted(jobs: int, tmp_path: Path) -> None:
    """Ctrl-C, which a terminal sends to all processes, ends all with one line and loses nothing."""
    sizes = ", ".join(
        f'"f32[{n},4]"' for n in range(1600, 2000)
    )  # all have room, so each takes time
    write(HEAD + f'vary = {{ "workload.shape" = [{sizes}] }}\n')
    command = [sys.executable, "-m", "systolic", "run", "s.toml", "--out", "o", "--jobs", str(jobs)]
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = tmp_path / "o" / "sweep.csv"
    while not lines.exists() or lines.read_bytes().count(b"\n") < 3:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), err
    done = len(table())
    assert err == f"systolic: error: interrupted: {done} of 400 points done, in o/sweep.csv\n"
    assert 2 <= done < 400
    assert (summary()["complete"], len(summary()["points"])) == (False, done)
    assert is_gone(process.pid)


def test_processes_end_when_the_first_is_killed(tmp_path: Path) -> None:
    sizes = ", ".join(
        f'"f32[{n},4]"' for n in range(1600, 2000)
    )  # all have room, so each takes time
    write(HEAD + f'vary = {{ "workload.shape" = [{sizes}] }}\n')
    command = [sys.executable, "-m", "systolic", "run", "s.toml", "--out", "o", "--jobs", "2"]
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    lines = tmp_path / "o" / "sweep.csv"
    while not lines.exists() or lines.read_bytes().count(b"\n") < 3:
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait(60)
    assert len(table()) >= 2
    assert is_gone(process.pid)
