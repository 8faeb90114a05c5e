"""Does the command line do what README says, and is every failure one line with its status?"""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import systolic
from support.command_line import refused, run_command
from systolic import __version__
from systolic.cli.main import call
from systolic.errors import SystolicError

ROOT = Path(__file__).resolve().parents[2]
RUNS = ROOT / "configs" / "runs"
FIG3, FIG4 = str(RUNS / "transpose_fig3.toml"), str(RUNS / "transpose_fig4.toml")
SWEEP = """\
chip = "ideal_4x4"
[workload]
op = "transpose"
shape = "f32[4,4]"
[[sweep]]
name = "ways"
description = "both"
vary = { "workload.shape" = ["f32[2,2]", "f32[4,4]"], "compile.via" = ["pe", "dram"] }
[[sweep]]
name = "drains"
vary = { "compile.drain" = ["row", "block"] }
"""
Run = Any


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call the command line in an empty folder; give its status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run_it(*arguments: str) -> tuple[int, str, str]:
        status = call(list(arguments))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run_it


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-m", "systolic", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        **options,
    )


class TestRun:
    """`systolic run`."""

    def test_table_and_files(self, run: Run, tmp_path: Path) -> None:
        status, out, err = run("run", FIG3)
        assert (status, err) == (0, "")
        assert "19 cycles" in out
        assert "result equals numpy: yes" in out
        folder = tmp_path / "out" / "transpose_fig3"
        names = ["result.npy", "summary.json", "wavefront.png"]
        assert sorted(path.name for path in folder.iterdir()) == names
        assert np.load(folder / "result.npy").tolist() == np.arange(1, 17).reshape(4, 4).T.tolist()
        assert (folder / "wavefront.png").read_bytes().startswith(b"\x89PNG")

    def test_json_is_the_file(self, run: Run, tmp_path: Path) -> None:
        status, out, err = run("run", FIG3, "--json", "--no-plots", "--out", "there")
        assert (status, err) == (0, "")
        assert out == (tmp_path / "there" / "summary.json").read_text(encoding="utf-8")
        assert not (tmp_path / "there" / "wavefront.png").exists()

    def test_keys_others_rely_on(self, run: Run) -> None:
        summary = json.loads(run("run", FIG4, "--json", "--no-plots")[1])
        assert summary["run"] == "transpose_fig4"
        assert summary["chip"] == "patent-128x64"
        assert summary["engine"] == "event"
        assert (summary["cycles"], summary["time_ns"]) == (511, 511.0)
        assert (summary["blocks"], summary["sub_blocks"]) == (1, 1)
        assert summary["instructions"] == {"Copy": 1, "LoadWeights": 1, "MatMul": 1}
        assert {"cycles", "why"} <= summary["bound"].keys()
        assert summary["values"]["checked"] is True
        assert summary["values"]["equal"] is True
        assert summary["values"]["max_abs_error"] == 0
        for unit in summary["units"].values():
            assert sum(unit["labels"].values()) == unit["total"] == 511

    @pytest.mark.parametrize("engine", ["event", "register"])
    def test_engine(self, run: Run, engine: str) -> None:
        summary = json.loads(run("run", FIG3, "--json", "--no-plots", "--engine", engine)[1])
        assert (summary["engine"], summary["cycles"]) == (engine, 19)

    def test_set(self, run: Run) -> None:
        options = ["--set", "compile.drain=row", "--set", "chip.pe_array.rows=5"]
        summary = json.loads(run("run", FIG3, "--json", "--no-plots", *options)[1])
        assert summary["cycles"] == 4 + 4 + 4 + 3 + 1 + 1  # N + K + (R - 1) + (N - 1) + 1 + latency

    @pytest.mark.parametrize("name", ["bf16", "f8e5m2", "f8e4m3fn", "s8"])
    def test_result_of_every_type_reads_back(self, run: Run, tmp_path: Path, name: str) -> None:
        again = ["--set", f"workload.shape={name}[4,3]", "--no-plots"]
        assert run("run", FIG3, *again, "--out", "a")[0] == 0
        back = [
            *again,
            "--set",
            f"workload.shape={name}[3,4]",
            "--set",
            "workload.data=a/result.npy",
        ]
        assert run("run", FIG3, *back, "--out", "b")[0] == 0
        once, twice = np.load("a/result.npy"), np.load("b/result.npy")
        assert once.tobytes() == np.ascontiguousarray(twice.T).tobytes()

    def test_sweep(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "s.toml").write_text(SWEEP, encoding="utf-8")
        status, out, err = run("run", "s.toml", "--out", "o")
        assert (status, err) == (0, "")
        lines = [line.split() for line in out.splitlines()]
        assert ["shape", "cycles", "via", "pe", "via", "dram", "dram", "takes"] in lines
        assert [
            "row",
            "16",
            "16",
            "ns",
            "433.3",
            "%",
            "0.0",
            "%",
            "25.0",
            "%",
            "yes",
        ] in lines
        points = json.loads((tmp_path / "o" / "summary.json").read_text(encoding="utf-8"))["points"]
        assert [point["sweep"] for point in points] == ["ways"] * 4 + ["drains"] * 2
        assert points[1]["vary"] == {"workload.shape": "f32[2,2]", "compile.via": "dram"}
        assert points[5]["cycles"] == 19
        for name in ("comparison.png", "sweep.png"):
            assert (tmp_path / "o" / name).read_bytes().startswith(b"\x89PNG")

    def test_nothing_is_left_half_written(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("numpy.save", refuse)
        status, out, err = run("run", FIG3, "--out", "o")
        assert (status, out) == (2, "")
        assert err == "systolic: error: o/result.npy: cannot be written (No space left on device)\n"
        assert list((tmp_path / "o").iterdir()) == []

    def test_out_is_a_file(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "o").write_text("", encoding="utf-8")
        status, _, err = run("run", FIG3, "--out", "o", "--no-plots")
        assert status == 2
        assert err == "systolic: error: o: nothing can be written there (Not a directory)\n"


class TestTrace:
    """`systolic trace`."""

    def rows(self, text: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(text)))

    def test_results_of_fig3(self, run: Run) -> None:
        status, out, _ = run("trace", FIG3, "--kind", "psum_write")
        rows = self.rows(out)
        assert status == 0
        assert out.startswith("cycle,unit,buffer,partition,address,value\n")
        assert len(rows) == 16
        for row in rows:
            cycle, c, i = int(row["cycle"]), int(row["partition"]), int(row["address"])
            assert cycle == 7 + c + i
            assert int(row["value"]) == 1 + 4 * i + c  # row i, column c of 1, 2, 3, ...

    def test_psum_write_is_the_default(self, run: Run) -> None:
        assert run("trace", FIG3)[1] == run("trace", FIG3, "--kind", "psum_write")[1]

    @pytest.mark.parametrize("kind", ["load", "inject", "read", "write"])
    def test_words(self, run: Run, kind: str) -> None:
        assert len(self.rows(run("trace", FIG3, "--kind", kind)[1])) == 16

    def test_posts_and_waits(self, run: Run) -> None:
        assert run("trace", FIG3, "--kind", "post")[1].splitlines()[1:] == ["13,pe_array,,,0,1"]
        assert run("trace", FIG3, "--kind", "wait")[1].splitlines()[1:] == ["14,activation,,,0,1"]

    @pytest.mark.parametrize("scope", ["bank", "partition"])
    def test_a_row_for_each_refused_cycle(self, run: Run, scope: str) -> None:
        shared = ["--set", "chip.state_buffer.banks=1"]
        shared += ["--set", f"chip.state_buffer.port_scope={scope}"]
        wide = str(RUNS / "transpose_300x1000.toml")
        summary = json.loads(run("run", wide, *shared, "--no-plots", "--json")[1])
        rows = self.rows(run("trace", wide, "--kind", "stall", *shared)[1])
        assert len(rows) == sum(stall["cycles"] for stall in summary["stalls"]) > 0
        assert all(row["partition"].isdigit() == (scope == "partition") for row in rows)

    def test_both_engines(self, run: Run) -> None:
        for kind in ("psum_write", "stall", "post"):
            event = run("trace", FIG3, "--kind", kind)[1]
            assert run("trace", FIG3, "--kind", kind, "--engine", "register")[1] == event

    def test_unknown_kind(self, run: Run) -> None:
        status, out, err = run("trace", FIG3, "--kind", "pots")
        assert (status, out) == (2, "")
        assert err == (
            'systolic: error: --kind: there is no "pots" (known: load, inject, read, write, '
            'psum_write, stall, wait, post, descriptor); perhaps "post" was meant\n'
        )

    def test_sweep(self, run: Run) -> None:
        path = str(RUNS / "transpose_vs_dram.toml")
        assert run("trace", path)[2] == (
            f"systolic: error: {path}: is a sweep; --set sweep=[] traces the run it varies\n"
        )
        assert run("trace", path, "--set", "sweep=[]")[0] == 0


class TestSchema:
    """`systolic schema`."""

    def test_is_json(self, run: Run) -> None:
        for kind in ("chip", "run"):
            status, out, _ = run("schema", kind)
            assert status == 0
            assert json.loads(out)["$schema"].endswith("2020-12/schema")

    def test_unknown(self, run: Run) -> None:
        assert run("schema", "chpi")[::2] == (
            2,
            'systolic: error: no schema "chpi" (known: chip, run, system); '
            'perhaps "chip" was meant\n',
        )


class TestFailures:
    """One line on stderr, nothing on stdout, and the right status."""

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (["run", "no.toml"], "no.toml: no such file"),
            (["run", FIG3, "--engine", "evnt"],
             '--engine: needs one of "event", "register", found "evnt"; perhaps "event" was meant'),
            (["run", FIG3, "--set", "compile.drian=row"],
             '--set compile.drian=row: [compile] unknown key "drian" (known: block, '),
            (
                ["run", FIG3, "--set", "workload.data=no.npy"],
                f"{FIG3}: [workload] data: no.npy: no such file",
            ),
            (["run", FIG3, "--set", "chip.result_buffer.bank_bytes=8"],
             "result_buffer of ideal-4x4 is too small for one block: 4 rows of 4 bytes are needed "
             "in a bank, found bank_bytes = 8"),
            (["run", FIG3, "--set", "workload.shape=f32[1000,1000]"],
             "state_buffer of ideal-4x4 has no room for source: f32[1000,1000]{1,0} takes 1000000 "
             "bytes of each of 4 partitions, found 16384"),
            (["rnu"], "No such command 'rnu' (known: run, import, trace, "),
            (["run"], "Missing argument 'CONFIG'"),
            (["run", FIG3, "--bogus"], "No such option: --bogus"),
            (["run", FIG3, "--out"], "Option '--out' requires an argument"),
        ],
    )  # fmt: skip
    def test_one_line(self, run: Run, arguments: list[str], text: str, tmp_path: Path) -> None:
        status, out, err = run(*arguments)
        assert (status, out) == (2, "")
        assert err.startswith(f"systolic: error: {text}")
        assert err.count("\n") == 1
        assert list(tmp_path.iterdir()) == []

    def test_a_bug_asks_to_be_reported(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise ZeroDivisionError("oh\nno")

        monkeypatch.setattr("systolic.config.load_run", fail)
        assert run("run", FIG3) == (
            1,
            "",
            "systolic: error: a bug in systolic: ZeroDivisionError: oh no "
            "(please report it; SYSTOLIC_DEBUG=1 shows where)\n",
        )
        monkeypatch.setenv("SYSTOLIC_DEBUG", "1")
        with pytest.raises(ZeroDivisionError):
            call(["run", FIG3])

    @pytest.mark.parametrize(
        ("error", "status", "text"),
        [
            (KeyboardInterrupt(), 130, "systolic: error: interrupted\n"),
            (MemoryError(), 2, "systolic: error: this computer has too little memory for this\n"),
            (
                OSError(5, "Input/output error"),
                2,
                "systolic: error: [Errno 5] Input/output error\n",
            ),
            (SystolicError("a\n b"), 2, "systolic: error: a b\n"),
        ],
    )
    def test_other_ends(
        self,
        run: Run,
        monkeypatch: pytest.MonkeyPatch,
        error: BaseException,
        status: int,
        text: str,
    ) -> None:
        def fail(*_: object) -> None:
            raise error

        monkeypatch.setattr("systolic.config.load_run", fail)
        assert run("run", FIG3) == (status, "", text)

    def test_no_command_shows_the_help(self, run: Run) -> None:
        status, out, err = run()
        assert status == 2
        for command in ("run", "trace", "check", "schema", "layout", "at", "watch"):
            assert f" {command} " in out
        assert err == ""

    def test_commands_of_other_modules(self, run: Run) -> None:
        for _ in range(2):
            assert run("layout", "f32[2,3]")[0] == 0
        assert run("layout", "f32[2,")[0] == 2
        assert run("at", FIG3, "--cycle", "7")[0] == 0
        assert run("watch", "--help")[0] == 0


class TestProcess:
    """Effects that only a process of its own shows."""

    def test_version(self) -> None:
        assert process("--version").stdout == f"systolic {__version__}\n"

    def test_status_and_streams(self, tmp_path: Path) -> None:
        found = process("run", "no.toml", cwd=tmp_path)
        assert (found.returncode, found.stdout) == (2, "")
        assert found.stderr == "systolic: error: no.toml: no such file\n"

    def test_json_alone_on_stdout(self, tmp_path: Path) -> None:
        found = process("run", FIG3, "--json", "--no-plots", cwd=tmp_path)
        assert (found.returncode, found.stderr) == (0, "")
        assert json.loads(found.stdout)["cycles"] == 19

    def test_a_reader_that_leaves_is_no_error(self, tmp_path: Path) -> None:
        command = f'"{sys.executable}" -m systolic trace "{FIG4}" | head -1'
        found = subprocess.run(
            command,
            shell=True,
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT / "sim")},
        )
        assert found.stdout == "cycle,unit,buffer,partition,address,value\n"
        assert found.stderr == ""

    def test_a_full_disk_on_stdout(self, tmp_path: Path) -> None:
        if not Path("/dev/full").exists():
            pytest.skip("no /dev/full")
        found = subprocess.run(
            f'"{sys.executable}" -m systolic run "{FIG3}" --json --no-plots > /dev/full',
            shell=True,
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert found.returncode == 2
        assert found.stderr == "systolic: error: [Errno 28] No space left on device\n"

    def test_heavy_libraries_are_loaded_only_where_used(self, tmp_path: Path) -> None:
        code = (
            "import sys; from systolic.cli.main import call; "
            f"call(['run', {FIG3!r}, '--json', '--no-plots']); "
            "sys.stderr.write(','.join(m for m in ('matplotlib', 'numba', 'rich.progress') "
            "if m in sys.modules))"
        )
        found = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert found.stderr == ""


# -- the program itself ---------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_that_of_the_package(option: str) -> None:
    line = f"systolic {systolic.__version__}\n"
    assert run_command(option) == (0, line, "")
    done = subprocess.run(
        [sys.executable, "-m", "systolic", option], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, line, "")
    assert importlib.metadata.version("systolic") == systolic.__version__


def test_the_program_exits_with_the_status_of_its_command() -> None:
    """In a process of its own: the program sets streams, environment and collector as it likes."""
    done = subprocess.run(
        [sys.executable, "-m", "systolic", "schema", "nope"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "nope" in done.stderr


@pytest.mark.parametrize(
    ("word", "meant"), [("rnu", "run"), ("shcema", "schema"), ("dis", "disassemble")]
)
def test_the_nearest_command_is_named(word: str, meant: str) -> None:
    assert refused(word).endswith(f'; perhaps "{meant}" was meant')


def test_a_word_that_is_near_none() -> None:
    assert refused("x" * 500).endswith("assemble, disassemble)")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_told_how_to_complete(shell: str) -> None:
    """The shell is the parent process; a plain `sh` under each shell's name stands for it."""
    asked = shlex.join([sys.executable, "-m", "systolic", "--show-completion"])
    done = subprocess.run(
        [shell, "-c", f"{asked}; exit $?"],
        executable="/bin/sh",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "_SYSTOLIC_COMPLETE" in done.stdout


def test_a_shell_is_given_commands_and_options() -> None:
    """Ask for completions as the script of `--show-completion bash` does."""
    for words, found in (("systolic dis", "disassemble"), ("systolic run --no-pl", "--no-plots")):
        done = subprocess.run(
            [sys.executable, "-m", "systolic"],
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                "_SYSTOLIC_COMPLETE": "complete_bash",
                "COMP_WORDS": words,
                "COMP_CWORD": str(len(words.split()) - 1),
            },
        )
        assert done.stdout.split() == [found], done.stderr
