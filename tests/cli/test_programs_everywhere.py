"""Does every command that takes a run take a program too, as text and binary, with its chip?

The program is that of Fig. 3's run without the name of its chip. Each command says of it what it
says of the run file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from support.command_line import refused, run_command
from systolic.shipped import CONFIGS

FIG_3 = CONFIGS / "runs" / "transpose_fig3.toml"
CHIP = ("--chip", "ideal_4x4")


@pytest.fixture(params=["txt", "bin"])
def program(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    assert run_command("compile", FIG_3, "--program", "fig3.txt", "--inputs", "given")[0] == 0
    text = Path("fig3.txt").read_text(encoding="utf-8")
    Path("fig3.txt").write_text(re.sub(r"(?m)^chip .*\n", "", text), encoding="utf-8")
    assert run_command("assemble", "fig3.txt", "fig3.bin")[0] == 0
    return f"fig3.{request.param}"


def told(*arguments: object, status: int = 0) -> str:
    found, out, err = run_command(*arguments)
    assert (found, err) == (status, ""), (arguments, err)
    return out


def test_run(program: str) -> None:
    found = json.loads(told("run", program, *CHIP, "--input", "given", "--json", "--no-plots"))
    assert found["cycles"] == 19
    assert len(list(Path("out").rglob("*.npy"))) == 1


def test_trace(program: str) -> None:
    expected = told("trace", FIG_3, "--kind", "psum_write")
    assert told("trace", program, *CHIP, "--input", "given", "--kind", "psum_write") == expected


def explained(*arguments: object) -> Any:
    found = json.loads(told("explain", *arguments, "--json"))
    for row in (*found["path"], *found["links"]):
        row["operation"] = None  # a program has none
    changes = {each["change"]: each["cycles"] for each in found["what_if"]}
    changes.pop("twice the PSUM banks", None)  # recompiled, which a program cannot be
    return {**found, "what_if": changes}


def test_explain(program: str) -> None:
    assert explained(program, *CHIP) == explained(FIG_3)


def test_diff(program: str) -> None:
    assert told("diff", program, FIG_3, *CHIP) == "equal: 19 cycles\n"
    assert told("diff", program, program, *CHIP) == "equal: 19 cycles\n"
    assert told("diff", FIG_3, program, *CHIP) == "equal: 19 cycles\n"
    slower = ("--set", "chip.pe_array.entry_cycles=3")
    found = json.loads(told("diff", program, program, *CHIP, *slower, "--json", status=1))
    assert found["cycles"] == [19, 22]
    assert "names no chip; needed one (--chip CHIP)" in refused("diff", program, FIG_3)
    told("run", FIG_3, "--no-plots", "--out", "o")
    assert told("diff", "o", program, *CHIP) == "equal: 19 cycles\n"
    line = refused("diff", program, "o/summary.json", *CHIP)
    assert line == "--chip: is for run files and programs, and o/summary.json is a summary"


def test_diff_of_one_program_on_two_chips(program: str) -> None:
    text = (CONFIGS / "chips" / "ideal_4x4.toml").read_text(encoding="utf-8")
    Path("slow.toml").write_text(text.replace("entry_cycles = 0", "entry_cycles = 3"), "utf-8")
    found = json.loads(told("diff", FIG_3, program, "--chip", "slow.toml", "--json", status=1))
    assert found["cycles"] == [19, 22]


def slices(path: str) -> Any:
    events = json.loads(Path(path).read_text("utf-8"))["traceEvents"]
    return sorted((e["ts"], e["name"]) for e in events if "#" in e.get("name", ""))


def times(path: str) -> Any:
    return [line for line in Path(path).read_text("utf-8").splitlines() if line.startswith("#")]


def rows(path: str) -> Any:
    table = parquet.read_table(path).to_pylist()
    return [row["instruction"] for row in table if row["record"] == "instruction"]


@pytest.mark.parametrize(
    ("form", "read"), [("perfetto", slices), ("vcd", times), ("parquet", rows)]
)
def test_export(program: str, form: str, read: Callable[[str], Any]) -> None:
    """The run file's export has operations besides, which a program has not."""
    told("export", form, program, *CHIP, "--out", "p")
    told("export", form, FIG_3, "--out", "r")
    assert read("p") == read("r")
    assert len(read("p")) >= 3  # as many as there are instructions


def test_check(program: str) -> None:
    command = ("check", program, *CHIP, "--pins", "pins.toml")
    told(*command, "--update")
    assert told(*command) == f"{program}: 19 cycles, as pinned\n"


@pytest.mark.parametrize("command", ["explain", "at", "watch", "check", "export", "trace", "run"])
def test_a_program_that_names_no_chip_says_how_to_name_one(program: str, command: str) -> None:
    more: dict[str, tuple[object, ...]] = {
        "at": ("--cycle", 1),
        "watch": ("--word", "dram:0:0"),
        "check": ("--pins", "pins.toml", "--update"),
        "export": ("--out", "x.vcd"),
    }
    form = ("vcd",) if command == "export" else ()
    line = refused(command, *form, program, *more.get(command, ()))
    assert line == f"{program}: names no chip; needed one (--chip CHIP)"
