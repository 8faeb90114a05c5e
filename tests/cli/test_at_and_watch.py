"""`systolic at` and `systolic watch`: run files and programs, as text and binary."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from support.command_line import refused, run_command
from systolic.shipped import CONFIGS

FIG_3 = CONFIGS / "runs" / "transpose_fig3.toml"
LAYER = CONFIGS / "programs" / "layer.txt"


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def printed(*arguments: object) -> str:
    status, out, err = run_command(*arguments)
    assert (status, err) == (0, ""), (arguments, err)
    return out


@pytest.fixture(params=["txt", "bin"])
def program(request: pytest.FixtureRequest) -> tuple[object, ...]:
    """The program of Fig. 3's run without the name of its chip, and what it is given."""
    printed("compile", FIG_3, "--program", "fig3.txt", "--inputs", "given")
    text = Path("fig3.txt").read_text(encoding="utf-8")
    Path("fig3.txt").write_text(re.sub(r"(?m)^chip .*\n", "", text), encoding="utf-8")
    printed("assemble", "fig3.txt", "fig3.bin")
    return (f"fig3.{request.param}", "--chip", "ideal_4x4", "--input", "given")


def test_a_program_stands_in_every_cycle_as_its_run_file(program: tuple[object, ...]) -> None:
    for cycle in range(19):
        found = printed("at", *program, "--cycle", cycle, "--json")
        assert json.loads(found) == json.loads(printed("at", FIG_3, "--cycle", cycle, "--json"))
    assert printed("at", *program, "--cycle", 9) == printed("at", FIG_3, "--cycle", 9)
    one = ("--cycle", 9, "--pe", "1,2")
    assert printed("at", *program, *one) == printed("at", FIG_3, *one)


def test_a_word_of_a_program_changes_as_that_of_its_run_file(program: tuple[object, ...]) -> None:
    for word in ("result_buffer:1:2", "state_buffer:3:2049", "state_buffer:0:0"):
        expected = printed("watch", FIG_3, "--word", word)
        assert printed("watch", *program, "--word", word) == expected
    # Row 2 of the 4 x 4 matrix 1, 2, 3, ... is column 2 of the transpose.
    assert "10 (pe_array)" in printed("watch", *program, "--word", "result_buffer:1:2")
    differs = ("--word", "result_buffer:1:2", "--differs-from", "0")
    assert printed("watch", *program, *differs) == printed("watch", FIG_3, *differs)


def test_both_engines_stand_alike() -> None:
    for arguments in (("at", "--cycle", 11), ("watch", "--word", "result_buffer:1:2")):
        one = printed(arguments[0], FIG_3, *arguments[1:], "--engine", "register")
        assert one == printed(arguments[0], FIG_3, *arguments[1:])


def test_the_result_of_a_program_by_numpy() -> None:
    rng = np.random.default_rng(3)
    x, w, b = (rng.integers(-8, 8, shape).astype(np.float32) for shape in ((6, 4), (4, 3), (3,)))
    for name, array in {"x": x, "w": w, "b": b}.items():
        np.save(f"{name}.npy", array)
    y = np.maximum(x @ w + b, 0)
    for column in range(3):
        for row in (0, 5):
            word = f"state_buffer:{column}:{6144 // 4 + row}"
            lines = printed("watch", LAYER, "--input", ".", "--word", word).splitlines()
            assert lines[0] == "initially 0"
            assert re.fullmatch(rf"cycle \d+: {y[row, column]:.0f} \(activation\)", lines[1])


MIXED = """\
systolic program 1
program "mixed"
chip "ideal_4x4"
memset activation value=1.5 target=state_buffer[0:4]+0 f32 (1x4)
memset pooling value=2.5 target=state_buffer[0:4]+64 bf16 (1x4)
"""


def test_elements_of_two_types_are_not_taken_for_one_another() -> None:
    """Element 33 of bf16 is bytes 66 and 67; element 3 of f32 is bytes 12 to 15."""
    Path("mixed.txt").write_text(MIXED, encoding="utf-8")
    watch = ("watch", "mixed.txt", "--word")
    assert "cycle 4: 1.5 (activation)" in printed(*watch, "state_buffer:0:3")
    assert ": 2.5 (pooling)" in printed(*watch, "state_buffer:0:33")
    assert printed(*watch, "state_buffer:0:20") == "initially 0\nnever changes\n"
    later = "memset pooling value=2.5 target=state_buffer[0:4]+6 bf16 (1x1)  wait s0>=1\n"
    text = MIXED.replace("(1x4)\nmemset p", "(1x4)  post s0\nmemset p")
    text = text.replace('4x4"\n', '4x4"\nsemaphore s0 "first"\n') + later
    Path("mixed.txt").write_text(text, encoding="utf-8")
    assert "2.5" not in printed(*watch, "state_buffer:0:3")  # bf16 element 3 is bytes 6 and 7


def test_bad_input() -> None:
    at, watch = ("at", LAYER, "--cycle", 3), ("watch", LAYER, "--word", "state_buffer:0:0")
    for command in (at, watch):
        assert 'input "x" (f32 [6, 4]) is missing; needed --input x=FILE.npy' in refused(*command)
        assert refused(*command, "--set", "compile.drain=row").endswith(
            'of a program only "chip." can be set, not "compile.drain"'
        )
    assert refused("at", FIG_3, "--cycle", 3, "--input", ".").endswith(
        "holds none of the inputs (source.npy)"
    )
    assert refused("at", FIG_3, "--cycle", 19) == ("--cycle: the run has cycles 0 to 18, found 19")
    assert "partition 4" in refused("watch", FIG_3, "--word", "state_buffer:4:0")


def test_passes_before_the_last_leave_the_grid_empty_in_pictures_too(tmp_path):
    """Figure 3 in two passes: loads in 0 to 3, the first pass in 4 to 7, the second in 8 to 11."""
    twice = (FIG_3, "--set", "chip.pe_array.passes={f32=2}")
    status, out, _ = run_command("at", *twice, "--cycle", 7)
    valid = out.partition("valid\n")[2].splitlines()[:4]
    assert (status, [line.split() for line in valid]) == (0, [["0"] * 4] * 4)
    _, out, _ = run_command("at", *twice, "--cycle", 8)
    assert out.partition("valid\n")[2].splitlines()[0].split() == ["1", "0", "0", "0"]
    status, _, err = run_command("plot", "wavefront", *twice, "--out", tmp_path / "w.svg")
    assert status == 0, err
