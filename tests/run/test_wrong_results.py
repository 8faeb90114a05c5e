"""Is a wrong result a failure of every command that computes one, and does it say what is wrong?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import systolic.run.execute
from support.command_line import run_command
from support.graphs import TWO_OUTPUTS
from systolic.errors import ResultError
from systolic.run.pins.check import Selection, update
from systolic.run.verdict import require_right
from systolic.workload import first_differing

ROOT = Path(__file__).resolve().parents[2]
FIG3 = str(ROOT / "configs" / "runs" / "transpose_fig3.toml")
QUIET = ("--no-plots",)
RACE = """\
systolic program 1
program "race"
chip "ideal_4x4"
input w (4, 4) = state_buffer[0:4]+64 f32 (1x4)
output y (4, 4) = state_buffer[0:4]+128 f32 (1x4)
load weights=state_buffer[0:4]+64 f32 (1x4)
matmul moving=state_buffer[0:4]+64 f32 (1x4) result=result_buffer[0:4]+0 f32 (1x4)
copy activation source=result_buffer[0:4]+0 f32 (1x4) target=state_buffer[0:4]+128 f32 (1x4)
"""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the memories give back two wrong elements of every output."""
    honest = systolic.run.execute.graph_results

    def tampered(*arguments: Any) -> dict[str, Any]:
        outputs = honest(*arguments)
        for array in outputs.values():
            array[1, 2] += 40
            array[3, 0] = 9
        return outputs

    monkeypatch.setattr("systolic.run.execute.graph_results", tampered)


# The transpose of 1, 2, 3, ... holds 1 + i + 4 * j at [i, j].
WRONG = "result: 2 of 16 elements differ, the first at [1, 2]: found 50, expected 10"


@pytest.mark.usefixtures("broken")
def test_a_wrong_run_says_what_differs_and_fails() -> None:
    status, out, err = run_command("run", FIG3, "--out", "o")
    assert status == 1
    assert err == f"systolic: error: transpose_fig3: the result is wrong: {WRONG}\n"
    assert f"NO (largest absolute error 40.0); {WRONG}" in " ".join(out.split())
    assert sorted(path.name for path in Path("o").iterdir()) == [
        "result.npy",
        "summary.json",
        "wavefront.png",
    ]
    assert np.load("o/result.npy")[1, 2] == 50


@pytest.mark.usefixtures("broken")
def test_with_json_the_file_alone_is_on_stdout() -> None:
    status, out, err = run_command("run", FIG3, "--json", *QUIET)
    assert status == 1
    assert WRONG in err
    assert json.loads(out)["values"]["wrong"] == [
        {
            "output": "result",
            "elements": 2,
            "of": 16,
            "first": [1, 2],
            "found": "50",
            "expected": "10",
        }
    ]


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    "command",
    [
        ("trace", FIG3),
        ("at", FIG3, "--cycle", "7"),
        ("watch", FIG3, "--word", "state_buffer:0:4"),
        ("watch", FIG3, "--word", "state_buffer:0:4", "--differs-from", "0"),
    ],
)
def test_every_command_that_computes_values(command: tuple[str, ...]) -> None:
    status, out, err = run_command(*command)
    assert status == 1
    assert out
    assert WRONG in err


@pytest.mark.usefixtures("broken")
def test_a_point_of_a_sweep() -> None:
    Path("s.toml").write_text(
        'chip = "ideal_4x4"\n[workload]\nop = "transpose"\nshape = "f32[4,4]"\n'
        '[[sweep]]\nname = "drains"\nvary = { "compile.drain" = ["row", "block"] }\n',
        encoding="utf-8",
    )
    status, out, err = run_command("run", "s.toml", *QUIET, "--out", "o")
    assert status == 1
    assert "results wrong: 2" in out
    assert WRONG in err
    assert len(json.loads(Path("o/summary.json").read_text(encoding="utf-8"))["points"]) == 2


@pytest.mark.usefixtures("broken")
def test_check_of_an_engine_that_computes_values() -> None:
    Path("r.toml").write_text(
        'chip = "ideal_4x4"\nengine = "register"\n[workload]\nop = "transpose"\n'
        'shape = "f32[4,4]"\n',
        encoding="utf-8",
    )
    with pytest.raises(ResultError, match="2 of 16 elements differ"):
        update(Selection([Path("r.toml")], Path("pins.toml")))
    assert not Path("pins.toml").exists()
    assert run_command("check", "r.toml", "--pins", "pins.toml", "--update")[0] == 1


def test_of_a_graph_every_wrong_output_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = systolic.run.execute.graph_results

    def tampered(*arguments: Any) -> dict[str, Any]:
        outputs = honest(*arguments)
        outputs["b"][0, 1] = np.nan
        return outputs

    monkeypatch.setattr("systolic.run.execute.graph_results", tampered)
    Path("g.toml").write_text(TWO_OUTPUTS, encoding="utf-8")
    status, _, err = run_command("run", "g.toml", *QUIET)
    assert status == 1
    # Row 0 of x is 1 2 3 4, column 1 of v is 2 8 14 20.
    assert err.endswith(
        "is wrong: b: 1 of 12 elements differ, the first at [0, 1]: found nan, expected 140\n"
    )


def test_the_first_difference_is_found_by_brute_force() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        a = rng.choice(np.array([0.0, -0.0, 1.0, np.nan], np.float32), (2, 3, 2))
        b = np.where(rng.random(a.shape) < 0.8, a, np.float32(0.0))
        same = (a.view("u4") == b.view("u4")) | (np.isnan(a) & np.isnan(b))
        places = [tuple(map(int, place)) for place in np.argwhere(~same)]
        assert first_differing(a, b) == (places[0] if places else None)


def test_a_first_difference_beyond_the_first_slice() -> None:
    a = np.zeros((3, 1 << 20), np.int8)
    b = a.copy()
    b[2, 5] = 1
    assert first_differing(a, b) == (2, 5)


def test_runs_without_values_are_not_wrong() -> None:
    require_right({"run": "x", "values": {"checked": False, "equal": None}})
    require_right({"run": "x"})


# -- numbers that a type cannot hold --------------------------------------------------------------


def product(dtype: str, out: str, *, more: str = "") -> tuple[dict[str, Any], str]:
    Path("p.toml").write_text(
        'chip = "ideal_4x4"\n[workload]\nop = "matmul"\ndata = "random"\n'
        f'lhs = "{dtype}[12,20]"\nrhs = "{dtype}[20,9]"\nout = "{out}[12,9]"\n{more}',
        encoding="utf-8",
    )
    status, text, err = run_command("run", "p.toml", *QUIET, "--out", "o")
    assert (status, err) == (0, "")
    return json.loads(Path("o/summary.json").read_text(encoding="utf-8")), " ".join(text.split())


def random_operands() -> tuple[np.ndarray, np.ndarray]:
    """Return what data = "random" means for s8: the full range, the second input's seed plus 1."""
    shapes = ((12, 20), (20, 9))
    return tuple(
        np.random.default_rng(seed).integers(-128, 127, shape, np.int64, endpoint=True)
        for seed, shape in enumerate(shapes)
    )  # type: ignore[return-value]


def test_wrapped_elements_are_counted_in_table_and_json() -> None:
    summary, text = product("s8", "s8")
    lhs, rhs = random_operands()
    exact = lhs @ rhs
    lost = int(((exact < -128) | (exact > 127)).sum())
    wrapped = (exact + 128) % 256 - 128
    error = int(np.abs(exact - wrapped).max())
    assert lost > 50
    assert summary["values"]["equal"] is True
    assert summary["values"]["max_abs_error"] == error
    assert summary["values"]["out_of_range"] == [
        {"tensor": "out", "type": "s8", "elements": lost, "of": 108, "how": "wrapped"}
    ]
    assert (
        f"result equals numpy: yes, but {lost} of 108 elements of out left the range of s8 and "
        f"wrapped (largest absolute error {float(error)})" in text
    )


def test_a_type_that_holds_all_says_nothing() -> None:
    summary, text = product("s8", "s32")
    assert summary["values"]["out_of_range"] == []
    assert "result equals numpy: yes" in text
    assert "left the range" not in text


GRAPH = """\
chip = "ideal_4x4"
[workload]
home = "dram"
[workload.tensors.x]
shape = "{source}[3,4]"
data = "x.npy"
[[workload.ops]]
op = "cast"
name = "c"
inputs = ["x"]
out = "{middle}[3,4]"
[[workload.ops]]
op = "cast"
name = "y"
inputs = ["c"]
out = "{target}[3,4]"
"""


@pytest.mark.parametrize(
    ("source", "middle", "target", "values", "lost"),
    [
        # 300, -129 and 1e9 are beyond s8; -128.5 is truncated to -128.
        ("f32", "s8", "f32", [300, -128.5, -129, 1e9], ("c", "s8", 3, "saturated")),
        # The largest finite float16 is 65504; 65519 rounds to it, 65520 to infinity.
        ("f32", "f16", "f32", [65504, 65519, 65520, np.inf], ("c", "f16", 1, "became infinite")),
        ("s32", "f32", "f16", [65504, 65520, -70000, 1], ("y", "f16", 2, "became infinite")),
        ("f32", "f32", "f16", [1, 2, 3, np.nan], None),
    ],
)
def test_what_left_its_range_on_the_way(
    source: str, middle: str, target: str, values: list[float], lost: tuple[Any, ...] | None
) -> None:
    """The loss counts for the operation in which it happened, also if no output shows it."""
    data = np.zeros((3, 4), np.int32 if source == "s32" else np.float32)
    data[1] = values
    np.save("x.npy", data)
    text = GRAPH.format(source=source, middle=middle, target=target)
    Path("g.toml").write_text(text, encoding="utf-8")
    status, out, err = run_command("run", "g.toml", *QUIET, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)["values"]["out_of_range"]
    if lost is None:
        assert found == []
        return
    tensor, dtype, count, how = lost
    (record,) = found
    assert (record["tensor"], record["type"], record["elements"]) == (tensor, dtype, count)
    assert record["how"].startswith(how)


# -- programs that were not checked ---------------------------------------------------------------


def test_a_program_that_was_not_checked_bears_a_mark() -> None:
    Path("race.txt").write_text(RACE, encoding="utf-8")
    np.save("w.npy", np.eye(4, dtype=np.float32))
    given = ("run", "race.txt", "--input", "w=w.npy", *QUIET, "--out", "o")
    assert run_command(*given)[0] == 2
    status, out, _ = run_command(*given, "--no-check")
    assert status == 0
    assert "checker skipped: a race may end otherwise" in " ".join(out.split())
    summary = json.loads(Path("o/summary.json").read_text(encoding="utf-8"))
    assert summary["checker"] == "skipped"
    assert summary["options"] == {"values": "exact", "check": False}


def test_a_program_that_was_checked_bears_none() -> None:
    layer = ROOT / "configs" / "programs" / "layer.txt"
    status, out, _ = run_command("run", layer, "--values", "none", "--out", "o")
    assert status == 0
    assert "checker" not in out
    assert json.loads(Path("o/summary.json").read_text(encoding="utf-8"))["checker"] == "clean"
