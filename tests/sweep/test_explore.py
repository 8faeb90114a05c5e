"""Does `systolic sweep` run what is not stored, once, and say what it did?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import systolic
from support.command_line import refused, run_command
from support.sweeps import HEAD, LATENCIES, sweep, sweep_file
from systolic.config import load_run
from systolic.sweep.store import RESULTS, rows_of, table_of

ROOT = Path(__file__).resolve().parents[2]
SIM = Path(systolic.__file__).resolve().parents[1]
RUN = "import sys; os.execv(sys.argv[1], sys.argv[1:])"


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def counts(*arguments: object) -> dict[str, int]:
    status, out, err = run_command(
        "sweep", *arguments, "--out", "o", "--json", "--no-plots", "--values", "none"
    )
    assert status == 0, err
    found: dict[str, int] = json.loads(out)
    return found


def rows() -> list[dict[str, Any]]:
    found = [pq.read_table(path).to_pylist() for path in Path("o/results/parts").glob("*.parquet")]
    return [row for part in found for row in part]


def test_rows_are_those_of_the_run_alone() -> None:
    path = sweep_file(Path(), LATENCIES + '[compile]\nvia = "pe"\n')
    assert counts(path) == {"points": 6, "stored": 0, "computed": 6, "failed": 0}
    assert len(rows()) == 6
    for row in rows():
        given = [f"{key}={value}" for key, value in json.loads(row["vary"]).items()]
        alone = systolic.run(load_run(path, ["sweep=[]", *given]), values=False).summary
        assert row["cycles"] == alone["cycles"]
        assert row["bound_cycles"] == alone["bound"]["cycles"]
        assert row["dram_bytes"] == alone["dram_bytes"]
        assert (
            row["chip.dram.latency_cycles"] == json.loads(row["vary"])["chip.dram.latency_cycles"]
        )
        assert (
            row["units.pe_array.streaming"] == (alone["units"]["pe_array"]["labels"]["streaming"])
        )
        reads = alone["ports"]["state_buffer"].values()
        assert row["ports.state_buffer.read"] == sum(bank["read"] for bank in reads)
        assert row["instructions.DmaCopy"] == alone["instructions"]["DmaCopy"]
        assert (row["error"], row["equal"], row["program"]) == (None, None, "each")


def test_what_is_stored_is_not_run_again() -> None:
    path = sweep_file(Path(), LATENCIES)
    counts(path)
    sweep_file(Path(), LATENCIES.replace("[0, 10, 20]", "[20, 30, 10]"))
    assert counts(path) == {"points": 6, "stored": 4, "computed": 2, "failed": 0}
    assert len(rows()) == len({row["key"] for row in rows()}) == 8


def test_a_point_of_two_sweeps_is_run_once_and_has_two_rows() -> None:
    twice = LATENCIES + LATENCIES[len(HEAD) :].replace('name = "s"', 'name = "t"')
    path = sweep_file(Path(), twice)
    assert counts(path) == {"points": 12, "stored": 6, "computed": 6, "failed": 0}
    assert len(rows()) == 12
    assert len({row["key"] for row in rows()}) == 6
    renamed = sweep_file(Path(), LATENCIES.replace('name = "s"', 'name = "u"'))
    assert counts(renamed) == {"points": 6, "stored": 6, "computed": 0, "failed": 0}
    found = {(row["sweep"], row["vary"]): row["cycles"] for row in rows()}
    for _, vary in found:
        assert found["u", vary] == found["s", vary] == found["t", vary]


def test_a_point_that_cannot_be_run_is_a_row_with_its_error() -> None:
    path = sweep_file(Path(), LATENCIES.replace('"f32[4,4]"', '"f32[0,4]"'))
    for computed in (6, 0):
        status, out, err = run_command("sweep", path, "--out", "o", "--json", "--no-plots")
        assert status == 2
        assert json.loads(out) == {
            "points": 6, "stored": 6 - computed, "computed": computed, "failed": 3,
        }  # fmt: skip
        assert err.startswith("systolic: error: 3 of 6 points could not be run (see o/results); ")
        assert "has no elements" in err
        assert err.count("\n") == 1
    bad = [row for row in rows() if row["error"]]
    assert {row["failure"] for row in bad} == {"point"}
    assert all(row.get("cycles") is None for row in bad)


def test_budgets() -> None:
    path = sweep_file(Path(), LATENCIES)
    assert counts(path, "--points", 2)["computed"] == 2
    assert counts(path, "--minutes", 0)["computed"] == 0
    assert counts(path, "--jobs", 1) == {"points": 6, "stored": 2, "computed": 4, "failed": 0}


def test_a_dry_run_writes_nothing() -> None:
    path = sweep_file(Path(), LATENCIES)
    status, out, _ = run_command("sweep", path, "--out", "o", "--dry-run", "--json")
    found = json.loads(out)
    assert (status, found["points"], found["stored"]) == (0, 6, 0)
    assert found["seconds"] > 0
    assert found["bytes_per_process"] > 1 << 20
    assert not Path("o").exists()
    counts(path)
    out = run_command("sweep", path, "--out", "o", "--dry-run", "--values", "none")[1]
    assert "6 points, 6 stored" in out


def test_a_search_goes_on_where_it_ended() -> None:
    more = 'method = "optuna"\npoints = 7\nseed = 1\nobjectives = ["cycles", "utilisation"]'
    vary = '"chip.pe_array.rows" = [1, 2, 4]\n"chip.pe_array.cols" = [1, 2, 4]'
    path = sweep_file(Path(), sweep(more, vary))
    assert counts(path, "--points", 3, "--jobs", 1)["computed"] == 3
    assert counts(path) == {"points": 7, "stored": 3, "computed": 4, "failed": 0}
    assert counts(path) == {"points": 7, "stored": 7, "computed": 0, "failed": 0}
    sweep_file(Path(), sweep(more.replace("7", "100"), vary))
    assert counts(path) == {"points": 9, "stored": 7, "computed": 2, "failed": 0}
    assert len({row["vary"] for row in rows()}) == 9


def test_an_objective_that_there_is_not() -> None:
    more = 'method = "optuna"\npoints = 3\nobjectives = ["cycle"]'
    path = sweep_file(Path(), sweep(more, '"chip.pe_array.rows" = [1, 2, 4]'))
    line = refused("sweep", path, "--out", "o", "--values", "none")
    assert 'results have no number "cycle"' in line
    assert line.endswith('perhaps "cycles" was meant')
    assert len(list(rows_of(Path("o", RESULTS)))) >= 1


def test_a_program_that_is_compiled_once() -> None:
    vary = '"chip.dram.latency_cycles" = [0, 500]\n"chip.pe_array.rows" = [4, 2]'
    path = sweep_file(Path(), sweep('program = "once"', vary))
    counts(path)
    once = {row["vary"]: row for row in rows()}
    assert {row["program"] for row in once.values()} == {"once"}
    sweep_file(Path(), sweep("", vary))
    assert counts(path)["computed"] == 4
    each = {row["vary"]: row for row in rows() if row["program"] == "each"}
    for vary_text, row in once.items():
        alone = each[vary_text]
        if json.loads(vary_text)["chip.dram.latency_cycles"] == 0:
            assert row["cycles"] == alone["cycles"]
        assert row["key"] != alone["key"]
    out = run_command("sweep", path, "--out", "o", "--no-plots", "--values", "none")[1]
    assert "once" not in out
    sweep_file(Path(), sweep('program = "once"', vary))
    out = run_command("sweep", path, "--out", "o", "--no-plots", "--values", "none")[1]
    assert "the program is that of the first point wherever only times differ" in out


def test_once_keeps_the_instructions_where_only_times_change() -> None:
    """With a latency that makes the compiler choose otherwise, the program stays the first's."""
    vary = '"chip.dma.descriptor_cycles" = [0, 4000]'
    shape = '"workload.shape" = ["f32[64,64]"]'
    path = sweep_file(Path(), sweep('program = "once"', f"{vary}\n{shape}"))
    counts(path)
    copies = {row["instructions.DmaCopy"] for row in rows()}
    cycles = {row["cycles"] for row in rows()}
    assert len(copies) == 1
    assert len(cycles) == 2


def test_a_sweep_over_the_chip_of_a_program() -> None:
    program = ROOT / "configs" / "programs" / "layer.txt"
    text = f'base = "{program}"\n[[sweep]]\nname = "p"\n[sweep.vary]\n'
    path = sweep_file(Path(), text + '"chip.activation.latency_cycles" = [1, 3]\n')
    assert counts(path)["computed"] == 2
    for row in rows():
        latency = row["chip.activation.latency_cycles"]
        status, out, _ = run_command(
            "run", program, "--set", f"chip.activation.latency_cycles={latency}", "--json",
            "--values", "none", "--out", "alone",
        )  # fmt: skip
        assert (status, json.loads(out)["cycles"]) == (0, row["cycles"])
    status, out, _ = run_command("sweep", path, "--out", "o", "--no-plots")
    assert status == 0
    lines = [line.split()[-2:] for line in out.splitlines() if line.split()[:1] in (["1"], ["3"])]
    assert lines == [["-", "-"], ["-", "-"]]  # what of it work needs, a program does not say
    sweep_file(Path(), text + '"workload.shape" = ["f32[4,4]"]\n')
    status, _, err = run_command("sweep", path, "--out", "o")
    assert (status, 'of a program only "chip." can be set' in err) == (2, True)


def test_a_base_gives_what_the_file_does_not_say() -> None:
    sweep_file(Path(), HEAD + '[compile]\ndrain = "row"\n', "base.toml")
    Path("below").mkdir()
    text = 'base = "../base.toml"\n[workload]\nshape = "f32[4,8]"\n[[sweep]]\nname = "s"\n'
    path = sweep_file(
        Path("below"), text + '[sweep.vary]\n"chip.dram.latency_cycles" = [3]\n', "b.toml"
    )
    config = load_run(path)
    assert (config.name, config.compile.drain) == ("b", "row")
    assert config.graph.shape("source").dims == (4, 8)
    assert counts(path)["computed"] == 1
    status, out, _ = run_command("run", path, "--out", "r", "--json", "--no-plots")
    assert status == 0
    assert json.loads(out)["points"][0]["cycles"] == rows()[0]["cycles"]


@pytest.mark.parametrize(
    ("base", "text"),
    [
        ('"none.toml"', "s.toml: base: none.toml: no such file"),
        ("3", "s.toml: base: needs the path of a run file, found 3"),
        ('"s.toml"', "s.toml: base: s.toml has a base of its own; needed a whole run file"),
    ],
)
def test_a_base_that_is_none(base: str, text: str) -> None:
    sweep_file(Path(), f"base = {base}\n")
    assert refused("run", "s.toml") == text


def test_summaries_are_kept_if_they_are_wanted() -> None:
    path = sweep_file(Path(), LATENCIES)
    counts(path, "--points", 1, "--summaries")
    (row,) = rows()
    assert json.loads(row["summary"])["cycles"] == row["cycles"]
    counts(path)
    assert sum("summary" in row and row["summary"] is not None for row in rows()) == 1


def test_values_are_checked_and_other_results() -> None:
    path = sweep_file(Path(), LATENCIES)
    counts(path)
    assert run_command("sweep", path, "--out", "o", "--no-plots")[0] == 0
    found = rows()
    assert [row["equal"] for row in found].count(True) == 6
    assert len(found) == 12


def test_a_wrong_result_is_exit_status_1() -> None:
    path = sweep_file(Path(), LATENCIES)
    counts(path)
    for part in Path("o/results/parts").glob("*.parquet"):
        table = pq.read_table(part).to_pylist()
        lines = [json.dumps({**row, "equal": False}).encode() for row in table]
        pq.write_table(table_of(lines), part)
    status, _, err = run_command("sweep", path, "--out", "o", "--no-plots", "--values", "none")
    assert status == 1
    assert "6 of 6 points have a wrong result" in err


def test_without_an_extra_the_line_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    path = sweep_file(Path(), LATENCIES)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    line = refused("sweep", path, "--out", "o")
    assert line == (
        'a store of results needs pyarrow, which is not installed: pip install "systolic[sweep]"'
    )
    assert not Path("o").exists()
    assert run_command("run", path, "--out", "o", "--values", "none", "--no-plots")[0] == 0
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "pyarrow")
    line = refused("sweep", path, "--out", "p", "--scheduler", "tcp://localhost:1")
    assert line.endswith('pip install "systolic[cluster]"')


def test_a_scheduler_and_jobs() -> None:
    path = sweep_file(Path(), LATENCIES)
    line = refused("sweep", path, "--scheduler", "tcp://localhost:1", "--jobs", 2)
    assert line.startswith("--jobs: is for this computer")


def test_a_full_disk_ends_it_with_one_line_and_nothing_is_lost() -> None:
    """A limit to the size of files stands for the disk: writes beyond it fail."""
    path = sweep_file(Path(), LATENCIES)
    command = [sys.executable, "-m", "systolic", "sweep", path, "--out", "o", "--no-plots"]
    limited = f"import resource, os; resource.setrlimit(resource.RLIMIT_FSIZE, (2500, 2500)); {RUN}"
    done = subprocess.run(
        [sys.executable, "-c", limited, *command, "--values", "none"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SIM)}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("systolic: error: o/results/")
    assert done.stderr.endswith("cannot be written (File too large)\n")
    assert done.stderr.count("\n") == 1
    kept = len({row["key"] for row in rows_of(Path("o", RESULTS))})
    assert kept >= 1
    assert counts(path) == {"points": 6, "stored": kept, "computed": 6 - kept, "failed": 0}
