"""Does a summary say where it comes from, and does its run come out the same again?"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.command_line import refused, run_command
from support.graphs import TWO_OUTPUTS
from support.layer import saved_layer
from systolic import __version__
from systolic.config import load_chip

ROOT = Path(__file__).resolve().parents[2]
RUNS = ROOT / "configs" / "runs"
FIG3 = RUNS / "transpose_fig3.toml"
QUIET = ("--no-plots",)
DATA = """\
name = "mine"
chip = "chip.toml"
[workload]
op = "transpose"
shape = "f32[4,3]"
data = "d.npy"
"""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: object) -> dict[str, Any]:
    status, out, err = run_command("run", *arguments, *QUIET, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def with_data() -> None:
    chip = (ROOT / "configs" / "chips" / "ideal_4x4.toml").read_text(encoding="utf-8")
    Path("chip.toml").write_text(chip, encoding="utf-8")
    Path("r.toml").write_text(DATA, encoding="utf-8")
    np.save("d.npy", np.arange(12, dtype=np.float32).reshape(4, 3))


def test_what_a_summary_says_of_its_origin() -> None:
    graph = TWO_OUTPUTS.replace('shape = "f32[4,4]"', 'shape = "f32[4,4]"\ndata = "random"', 1)
    Path("g.toml").write_text(graph, encoding="utf-8")
    found = run("g.toml", "--set", "chip.state_buffer.banks=2", "--engine", "register")
    assert found["version"] == __version__
    assert found["overrides"] == ["chip.state_buffer.banks=2", "engine=register"]
    assert found["files"] == {
        "run": str(Path("g.toml").resolve()),
        "chip": str(ROOT / "configs" / "chips" / "ideal_4x4.toml"),
    }
    chip = load_chip(ROOT / "configs" / "chips" / "ideal_4x4.toml").model_dump(mode="json")
    chip["state_buffer"]["banks"] = 2
    assert found["config"]["chip"] == chip
    assert found["config"]["engine"] == "register"
    assert found["config"]["compile"]["drain_engine"] is None
    x, w = np.arange(1, 9, dtype="<f4"), np.random.default_rng(1).standard_normal(16, np.float32)
    assert found["inputs"]["x"]["sha256"] == hashlib.sha256(x.tobytes()).hexdigest()
    assert found["inputs"]["w"] == {
        "type": "f32",
        "shape": [4, 4],
        "layout": "f32[4,4]{1,0}",
        "data": "random",
        "seed": 1,
        "sha256": hashlib.sha256(w.tobytes()).hexdigest(),
    }
    assert found["inputs"]["x"]["seed"] is None


def test_a_summary_holds_every_override_whole() -> None:
    """Messages shorten a long text of `--set`; the summary records it as it was given."""
    text = f"description={'long ' * 100}end"
    Path("g.toml").write_text(TWO_OUTPUTS, encoding="utf-8")
    assert run("g.toml", "--set", text)["overrides"] == [text]


SWEEP = 'sweep=[{name="s", vary={"compile.drain"=["row", "block"]}}]'
WAYS: list[tuple[object, ...]] = [
    (FIG3,),
    (FIG3, "--set", "chip.pe_array.rows=5", "--set", "workload.data=random", "--engine",
     "register"),
    (FIG3, "--values", "none"),
    (FIG3, "--set", SWEEP),
    (RUNS / "transpose_fig4.toml", "--set", "workload.shape=bf16[50,60]"),
    ("g.toml",),
    ("r.toml",),
    ("r.toml", "--set", "workload.data=d.npy", "--chip", "chip.toml"),
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=range(len(WAYS)))
def test_the_same_again_to_the_last_byte(way: tuple[object, ...]) -> None:
    """Run file and chip file may be gone: the summary has all of their keys."""
    with_data()
    Path("g.toml").write_text(TWO_OUTPUTS, encoding="utf-8")
    run(*way, "--out", "o")
    for name in ("r.toml", "g.toml", "chip.toml"):
        Path(name).write_text("broken", encoding="utf-8")
    status, out, err = run_command("run", "--again", "o/summary.json", *QUIET, "--out", "p")
    assert (status, err) == (0, "")
    assert "the same again as o/summary.json: " in out
    before, after = ({f.name: f.read_bytes() for f in Path(d).iterdir()} for d in "op")
    assert before == after


def test_a_program_again() -> None:
    given = saved_layer()
    layer = (ROOT / "configs" / "programs" / "layer.txt").read_text(encoding="utf-8")
    Path("l.txt").write_text(layer, encoding="utf-8")
    run("l.txt", *given, "--chip", "ideal_4x4", "--set", "chip.state_buffer.banks=2", "--out", "o")
    again = ("run", "--again", "o", *QUIET, "--out", "p")
    status, out, err = run_command(*again)
    assert (status, err) == (0, "")
    assert "the same again as o: 22 cycles, 1 result" in out
    before, after = ({f.name: f.read_bytes() for f in Path(d).iterdir()} for d in "op")
    assert before == after
    np.save("b.npy", np.load("b.npy") + 1)
    changed = f'input "b": {Path("b.npy").resolve()} holds other elements than it did'
    assert refused(*again) == f"o: cannot be run again: {changed}"
    Path("l.txt").write_text(layer + "\n", encoding="utf-8")
    path = Path("l.txt").resolve()
    assert refused(*again) == f"o: cannot be run again: {path} has changed since"
    path.unlink()
    assert refused(*again) == f"o: cannot be run again: {path}: no such file"


def test_data_that_has_changed() -> None:
    with_data()
    run("r.toml", "--out", "o")
    np.save("d.npy", np.load("d.npy") + 1)
    path = Path("d.npy").resolve()
    line = refused("run", "--again", "o/summary.json")
    assert line.endswith(f'"source": {path} holds other elements than it did')
    path.unlink()
    assert refused("run", "--again", "o/summary.json").startswith(
        "o/summary.json: cannot be run again: "
    )
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"cycles": 1019}, "cycles 1,019 then, 19 now"),
        ({"outputs": {}}, 'output "result" holds other elements than it did'),
    ],
)
def test_not_the_same_again(change: dict[str, Any], line: str) -> None:
    found = run(FIG3, "--out", "o")
    Path("s.json").write_text(json.dumps(found | change), encoding="utf-8")
    status, out, err = run_command("run", "--again", "s.json", "--out", "p")
    assert (status, out) == (1, "")
    assert err == (
        f"systolic: error: s.json: is not the same again, and nothing was written: {line}\n"
    )
    assert not Path("p").exists()


def test_summaries_that_cannot_be_run_again() -> None:
    found = run(FIG3, "--out", "o")
    texts = {
        "": "s.json: is no summary.json: not valid JSON",
        "[]": "s.json: is no summary.json: needed an object",
        json.dumps(found | {"version": "9.9"}):
            f"s.json: was written by systolic 9.9; this is {__version__}, which may count other",
        json.dumps({k: v for k, v in found.items() if k != "version"}):
            's.json: cannot be run again: needs "version"',
        json.dumps(found | {"files": {}}): "s.json: cannot be run again: files has no chip",
        json.dumps(found | {"config": {}}): "s.json: cannot be run again: config has no table chip",
        json.dumps(found | {"config": found["config"] | {"engine": "steam"}}):
            "s.json: cannot be run again: ",
    }  # fmt: skip
    for text, line in texts.items():
        Path("s.json").write_text(text, encoding="utf-8")
        assert refused("run", "--again", "s.json").startswith(line)
    assert refused("run", "--again", "no.json").startswith("no.json: no such file")
    assert refused("run", "--again", "/dev/zero") == "/dev/zero: is a device, not a file"


@pytest.mark.slow
def test_summaries_damaged_in_one_place_are_one_line() -> None:
    """With any value at any key there is a result or one line, and no bug."""
    found = run(FIG3, "--out", "o")
    for key in found:
        for value in (None, 3, "x", [], {}, [3], {"x": 3}):
            Path("s.json").write_text(json.dumps(found | {key: value}), encoding="utf-8")
            status, _, err = run_command("run", "--again", "s.json", *QUIET, "--out", "p")
            assert status in (0, 1, 2), key
            assert "a bug in systolic" not in err, (key, value, err)
            assert err.count("\n") == (status != 0)


@pytest.mark.parametrize(
    "option",
    [
        ("--set", "a=1"),
        ("--chip", "x"),
        ("--engine", "event"),
        ("--no-check",),
        ("--input", "x"),
        ("--values", "none"),
    ],
)
def test_nothing_that_makes_it_another_run(option: tuple[str, ...]) -> None:
    line = refused("run", "--again", "s.json", *option)
    assert line.startswith("--again: does the run of a summary as it was; it takes no --")


def test_either_a_run_or_a_summary() -> None:
    assert refused("run", FIG3, "--again", "s.json").startswith("--again: does the run")
    assert refused("run").startswith("Missing argument 'CONFIG': needs a run file, a program, or")
