"""Does a folder hold the files of one run, all of them? Is a bad folder found before the run?"""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from support.command_line import refused, run_command
from support.graphs import TWO_OUTPUTS

ROOT = Path(__file__).resolve().parents[2]
RUNS = ROOT / "configs" / "runs"
FIG3, FIG4 = RUNS / "transpose_fig3.toml", RUNS / "transpose_fig4.toml"
LAYER = ROOT / "configs" / "programs" / "layer.txt"
QUIET = ("--no-plots",)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def names(folder: str) -> list[str]:
    return sorted(os.listdir(folder))


def summary(folder: str) -> dict:
    return json.loads(Path(folder, "summary.json").read_text(encoding="utf-8"))


def test_every_output_of_a_graph_is_written_and_listed() -> None:
    Path("g.toml").write_text(TWO_OUTPUTS, encoding="utf-8")
    status, out, err = run_command("run", "g.toml", *QUIET, "--out", "o")
    assert (status, err) == (0, "")
    assert names("o") == ["a.npy", "b.npy", "layers.csv", "summary.json"]
    x, w, v = (np.arange(1, r * c + 1).reshape(r, c) for r, c in ((2, 4), (4, 4), (4, 6)))
    assert np.array_equal(np.load("o/a.npy"), x @ w)
    assert np.array_equal(np.load("o/b.npy"), x @ v)
    text = " ".join(out.split())
    assert "inputs x f32[2,4], w f32[4,4], v f32[4,6]" in text
    assert "outputs a f32[2,4] in a.npy, b f32[2,6] in b.npy" in text
    for name in ("a", "b"):
        record, array = summary("o")["outputs"][name], np.load(f"o/{name}.npy")
        assert record["file"] == f"{name}.npy"
        assert record["shape"] == list(array.shape)
        assert record["sha256"] == hashlib.sha256(array.tobytes()).hexdigest()


def test_a_lone_operation_keeps_its_result() -> None:
    Path("p.toml").write_text(
        'chip = "ideal_4x4"\n[workload]\nop = "matmul"\nlhs = "f32[2,3]"\nrhs = "f32[3,2]"\n'
        'out = "f32[2,2]"\n',
        encoding="utf-8",
    )
    status, out, _ = run_command("run", "p.toml", *QUIET, "--out", "o")
    assert status == 0
    assert "out f32[2,2] in result.npy" in out
    assert names("o") == ["result.npy", "summary.json"]


def test_a_run_leaves_nothing_of_an_older_run() -> None:
    everything = ["result.npy", "summary.json", "wavefront.png"]
    assert run_command("run", FIG3, "--out", "o")[0] == 0
    assert names("o") == everything
    assert run_command("run", FIG4, "--out", "o", "--values", "none")[0] == 0
    assert names("o") == ["summary.json"]
    assert summary("o")["outputs"]["result"].get("file") is None
    assert run_command("run", FIG3, "--out", "o")[0] == 0
    assert run_command("run", FIG4, "--out", "o", *QUIET)[0] == 0
    assert names("o") == ["result.npy", "summary.json"]
    assert np.load("o/result.npy").shape == (64, 128)
    Path("g.toml").write_text(TWO_OUTPUTS, encoding="utf-8")
    assert run_command("run", "g.toml", "--out", "o")[0] == 0
    assert names("o") == ["a.npy", "b.npy", "layers.csv", "summary.json", "wavefront.png"]
    assert run_command("run", LAYER, "--values", "none", "--out", "o")[0] == 0
    assert names("o") == ["summary.json"]


def test_files_of_others_stay() -> None:
    """Also those that a hostile summary.json in the folder calls an output."""
    Path("up.npy").write_text("mine", encoding="utf-8")
    Path("o").mkdir()
    for name in ("notes.txt", "data.npy", "run.toml"):
        Path("o", name).write_text("mine", encoding="utf-8")
    listed = {name: {"file": name} for name in ("../up.npy", "notes.txt", "run.toml", "/", "..")}
    Path("o/summary.json").write_text(json.dumps({"outputs": listed}), encoding="utf-8")
    assert run_command("run", FIG3, "--out", "o", *QUIET)[0] == 0
    assert Path("up.npy").exists()
    assert names("o") == ["data.npy", "notes.txt", "result.npy", "run.toml", "summary.json"]


def test_a_summary_that_is_none_is_replaced() -> None:
    Path("o").mkdir()
    for text in ("", "[]", '{"outputs": 3}', '{"outputs": {"a": 3}}', "[" * 100_000):
        Path("o/summary.json").write_text(text, encoding="utf-8")
        assert run_command("run", FIG3, "--out", "o", *QUIET)[0] == 0
        assert summary("o")["cycles"] == 19


def test_a_run_that_fails_leaves_the_older_run_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_command("run", FIG3, "--out", "o")[0] == 0
    before = {path: path.read_bytes() for path in Path("o").iterdir()}

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("numpy.save", refuse)
        assert "No space left" in refused("run", FIG4, "--out", "o")
    assert {path: path.read_bytes() for path in Path("o").iterdir()} == before


def test_a_run_does_not_replace_what_it_reads() -> None:
    assert run_command("run", FIG3, "--out", "o", *QUIET)[0] == 0
    line = refused("run", FIG3, "--out", "o", "--set", "workload.data=o/result.npy")
    assert line == (
        "o/result.npy: this run reads it, and would replace it with its own results; "
        "needed another folder (--out FOLDER)"
    )
    assert np.load("o/result.npy")[0, 1] == 5


@pytest.mark.parametrize("folder", ["/proc/x", "file", "file/below", "deep/er/" + "n" * 300])
def test_a_bad_folder_is_found_before_anything_is_computed(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("this was computed")

    Path("file").write_text("", encoding="utf-8")
    monkeypatch.setattr("systolic.cli.run_file.run", fail)
    monkeypatch.setattr("systolic.cli.run_program.run", fail)
    monkeypatch.setattr("systolic.run.export.export_run", fail)
    for command in (
        ("run", FIG3, "--out", folder),
        ("run", RUNS / "transpose_vs_dram.toml"),
        ("run", LAYER, "--values", "none"),
        ("compile", FIG3, "--program", f"{folder}/p.txt"),
        ("compile", FIG3, "--inputs", folder),
    ):
        where = () if command[0] == "compile" or "--out" in command else ("--out", folder)
        # A long name is cut in the middle; what is wrong with it stands behind it.
        begin, _, reason = refused(*command, *where).partition(": nothing can be written there (")
        assert folder.startswith(begin[:60])
        assert reason
        assert os.listdir() == ["file"]


def test_a_folder_in_the_place_of_a_file_is_found_before_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("o/wavefront.png").mkdir(parents=True)
    monkeypatch.setattr("systolic.cli.run_file.run", None)
    assert refused("run", FIG3, "--out", "o") == (
        "o/wavefront.png: is a folder; needed the name of a file to write"
    )


def test_no_name_is_no_file() -> None:
    line = '".": cannot be written: needs the name of a file'
    assert refused("assemble", LAYER, "") == line
    assert run_command("assemble", LAYER, "l.bin")[0] == 0
    assert refused("disassemble", "l.bin", "") == line
    folder = ".: is a folder; needed the name of a file to write"
    assert refused("compile", FIG3, "--program", "") == folder
    status, _, err = run_command("layout", "f32[2,3]", "--plot", "")
    assert (status, "a file name with an ending" in err) == (2, True)
    assert os.listdir() == ["l.bin"]


def test_compile_writes_all_or_nothing() -> None:
    Path("in/source.npy").mkdir(parents=True)
    assert refused("compile", FIG3, "--program", "p.txt", "--inputs", "in") == (
        "in/source.npy: is a folder; needed the name of a file to write"
    )
    assert not Path("p.txt").exists()


def test_devices_and_links_stay_what_they_are() -> None:
    # A FIFO stands for all devices: a mistake must not replace one of this computer's.
    os.mkfifo("pipe.bin")
    read = ThreadPoolExecutor().submit(Path("pipe.bin").read_bytes)
    assert run_command("assemble", LAYER, "pipe.bin")[0] == 0
    assert Path("pipe.bin").is_fifo()
    assert read.result(timeout=60).startswith(b"SYSB")
    Path("far").mkdir()
    Path("link.bin").symlink_to("far/there.bin")
    for _ in range(2):
        assert run_command("assemble", LAYER, "link.bin")[0] == 0
    assert Path("link.bin").is_symlink()
    assert Path("far/there.bin").read_bytes().startswith(b"SYSB")
