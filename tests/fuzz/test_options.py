"""Can any value of any option make a command fail with anything but one clear line?"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.command_line import run_command

FIG3 = Path(__file__).resolve().parents[2] / "configs" / "runs" / "transpose_fig3.toml"
PROGRAM = """\
systolic program 1
program "p"
chip "ideal_4x4"
input a (4, 4) = state_buffer[0:4]+0 f32 (1x4)
output y (4, 4) = state_buffer[0:4]+128 f32 (1x4)

copy activation source=state_buffer[0:4]+0 f32 (1x4) target=state_buffer[0:4]+128 f32 (1x4)
"""
# Commands that take a moment, with {} where an odd value goes.
COMMANDS = [
    ("run", FIG3, "--no-plots", "--set", "{}"),
    ("run", FIG3, "--no-plots", "--set", "workload.shape={}"),
    ("run", FIG3, "--no-plots", "--set", "workload.data={}"),
    ("run", FIG3, "--no-plots", "--set", "workload.permutation={}"),
    ("run", FIG3, "--no-plots", "--set", "compile.block={}"),
    ("run", FIG3, "--no-plots", "--set", "sweep={}"),
    ("run", FIG3, "--no-plots", "--set", 'sweep=[{{name="s", vary={{"compile.drain"=[{}]}}}}]'),
    ("run", FIG3, "--no-plots", "--set", 'sweep=[{{name="s", vary={{a=[1]}}, zip={}}}]'),
    ("run", FIG3, "--no-plots", "--chip", "{}"),
    ("run", FIG3, "--no-plots", "--engine", "{}"),
    ("run", FIG3, "--no-plots", "--jobs", "{}"),
    ("run", FIG3, "--no-plots", "--values", "{}"),
    ("run", "{}", "--no-plots"),
    ("run", "p.txt", "--no-plots", "--input", "{}"),
    ("run", "p.txt", "--no-plots", "--input", "a={}"),
    ("run", "p.txt", "--values", "none", "--set", "chip.{}"),
    ("trace", FIG3, "--kind", "{}"),
    ("check", "{}"),
    ("check", FIG3, "--pins", "{}"),
    ("check", FIG3, "--pins", "pins.toml", "--runs", "{}"),
    ("at", FIG3, "--cycle", "{}"),
    ("at", FIG3, "--cycle", "3", "--pe", "{}"),
    ("watch", FIG3, "--word", "{}"),
    ("watch", FIG3, "--word", "result_buffer:0:{}"),
    ("watch", FIG3, "--word", "{}:0:0"),
    ("watch", FIG3, "--word", "result_buffer:0:0", "--differs-from", "{}"),
    ("compile", FIG3, "--after", "{}"),
    ("compile", FIG3, "--limit", "{}"),
    ("compile", "{}"),
    ("lint", "{}"),
    ("lint", "p.txt", "--chip", "{}"),
    ("assemble", "{}", "out.bin"),
    ("disassemble", "{}"),
    ("schema", "{}"),
    ("layout", "{}"),
    ("layout", "f32[4,4]", "--index", "{}"),
    ("layout", "f32[4,4]", "--buffer", "{}"),
    ("layout", "f32[4,4]", "--buffer", "state_buffer", "--chip", "{}"),
    ("{}",),
]  # fmt: skip
ODD = [
    "", " ", ".", "..", "/", "~", "-", "--", "-1", "0", "1", "4,4", "0,0", "-1,-1", "9,9", "nan",
    "inf", "-inf", "1e999", "9" * 30, "9" * 5000, "true", "[]", "{}", "[[]]", "[1, 0]", "[4, 4]",
    '"', "'", "\\", "\n", "\x00", "\x1b[2J", "é", "\udc80", "\u2028", "%s", "{0}", "${x}", "*",
    "1979-05-27", "dram", "state_buffer", "f32[4,4]", "f32[]", "f32[0]", "s8[4,4]{1,0:T(2,2)}",
    "ideal_4x4", "a=1", "=", "a.b=1", "chip=1", "/dev/null", "/dev/zero", "/proc/self/mem",
    "p.txt", "p.toml", '["chip", "chip"]', '[["a", "b"]]', '[["a"]]', "[nan, inf]",
]  # fmt: skip


def one_line_or_fine(command: tuple[object, ...], value: str) -> None:
    """Run a command with an odd value, in a folder of its own."""
    words = [
        str(word).replace("{}", value).replace("{{", "{").replace("}}", "}") for word in command
    ]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("p.txt").write_text(PROGRAM, encoding="utf-8")
        Path("p.toml").write_text(PROGRAM, encoding="utf-8")
        status, _, err = run_command(*words)
    assert status in (0, 1, 2), (words, status, err)
    assert "a bug in systolic" not in err, (words, err)
    assert len(err) < 2100, (words, err)
    assert err.count("\n") == (status == 2), (words, err)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(COMMANDS), st.sampled_from(ODD))
def test_odd_values(command: tuple[object, ...], value: str) -> None:
    one_line_or_fine(command, value)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(str, command))[-40:])
def test_every_odd_value(command: tuple[object, ...]) -> None:
    for value in ODD:
        one_line_or_fine(command, value)
