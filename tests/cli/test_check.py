"""`systolic check` for a repository of runs: a folder, programs, reasons, reports, bad input."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.command_line import refused, run_command
from systolic.run.pins.file import read_pins
from systolic.shipped import CONFIGS

CHIP = (CONFIGS / "chips" / "ideal_4x4.toml").read_text(encoding="utf-8")
RUN = 'chip = "{chip}"\n[workload]\nop = "transpose"\nshape = "f32[{rows},4]{{1,0}}"\n'
ALL = ("check", "--runs", "runs", "--pins", "pins.toml")


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository: two runs, one of them deeper, a program, a chip beside them, and their pins."""
    monkeypatch.chdir(tmp_path)
    Path("runs/deep").mkdir(parents=True)
    Path("runs/own.toml").write_text(CHIP.replace("ideal-4x4", "own"), encoding="utf-8")
    Path("runs/a.toml").write_text(RUN.format(chip="own.toml", rows=4), encoding="utf-8")
    Path("runs/deep/b.toml").write_text(RUN.format(chip="../own.toml", rows=3), encoding="utf-8")
    shutil.copy(CONFIGS / "programs" / "layer.txt", "runs/layer.txt")
    Path("runs/notes.txt").write_text("not a program\n", encoding="utf-8")
    assert run_command(*ALL, "--update")[:2] == (0, "3 counts written to pins.toml\n")
    return tmp_path


def change(path: str, old: str, new: str) -> None:
    text = Path(path).read_text(encoding="utf-8")
    assert text.count(old) == 1, (path, old)
    Path(path).write_text(text.replace(old, new), encoding="utf-8")


# -- a folder of runs -----------------------------------------------------------------------------


def test_all_runs_and_programs_of_a_folder() -> None:
    """The chip and the notes are neither; 19 cycles are those of docs/timing_model.md."""
    status, out, err = run_command(*ALL)
    assert (status, err) == (0, "")
    names = [line.split(":")[0] for line in out.splitlines()]
    assert names == ["a", "deep/b", "layer.txt"]
    assert out.startswith("a: 19 cycles, as pinned\n")


def test_the_counts_do_not_depend_on_the_folder_one_works_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = run_command(*ALL)
    monkeypatch.chdir("runs/deep")
    assert run_command("check", "--runs", "..", "--pins", "../../pins.toml") == expected


def test_jobs_change_nothing_but_the_time() -> None:
    change("runs/own.toml", "entry_cycles = 0", "entry_cycles = 3")
    assert run_command(*ALL, "--jobs", 2) == run_command(*ALL)


def test_a_pin_without_a_run_and_a_run_without_a_pin() -> None:
    Path("runs/a.toml").rename("runs/c.toml")
    status, out, _ = run_command(*ALL)
    assert status == 1
    assert "c: 19 cycles, not pinned (--update --pins FILE pins them)\n" in out
    assert out.endswith("a: is pinned, but no run in runs has that name\n")


def test_the_file_of_counts_may_lie_among_the_runs() -> None:
    Path("pins.toml").rename("runs/pins.toml")
    assert run_command("check", "--runs", "runs", "--pins", "runs/pins.toml")[0] == 0


def test_a_program_alone_on_a_chip_of_ones_own() -> None:
    alone = ("check", "runs/layer.txt", "--pins", "p.toml", "--chip", "runs/own.toml")
    assert run_command(*alone, "--update")[0] == 0
    assert read_pins(Path("p.toml"))["runs/layer.txt"].chip["name"] == "own"
    assert run_command(*alone)[0] == 0
    line = refused(*alone[:-2])
    assert line == (
        'runs/layer.txt: runs on chip "ideal-4x4", and its counts are of chip "own": needs counts '
        "of its own chip, which an update writes"
    )


def test_a_binary_program() -> None:
    assert run_command("assemble", "runs/layer.txt", "runs/layer.bin")[0] == 0
    text, binary = (
        run_command("check", f"runs/layer.{form}", "--pins", f"{form}.toml", "--update")
        for form in ("txt", "bin")
    )
    assert text[0] == binary[0] == 0
    cycles = [read_pins(Path(f"{f}.toml"))[f"runs/layer.{f}"].cycles for f in ("txt", "bin")]
    assert cycles[0] == cycles[1] > 0


# -- reasons --------------------------------------------------------------------------------------


def test_a_change_of_one_latency_says_which_and_where() -> None:
    """Three more registers before the first PE: each result is 3 cycles later on its way."""
    change("runs/own.toml", "entry_cycles = 0", "entry_cycles = 3")
    status, out, _ = run_command(*ALL)
    assert status == 1
    lines = out.splitlines()
    assert lines[0] == "a: 19 -> 22 (+3) cycles"
    at = lines.index("  changed in the chip: pe_array.entry_cycles 0 -> 3")
    assert lines[at + 1] == (
        "  +3 cycles, all in pe_array draining, from MatMul #1 on: +3 draining"
    )


def test_a_change_of_the_run_is_not_blamed_on_the_chip() -> None:
    change("runs/a.toml", "f32[4,4]", "f32[3,4]")
    out = run_command(*ALL)[1]
    assert "  the chip is as it was pinned: the run has changed, or systolic\n" in out
    change("runs/own.toml", "entry_cycles = 0", "entry_cycles = 3")
    out = run_command("check", "runs/a.toml", "--pins", "pins.toml", "--runs", "runs")[1]
    assert out.splitlines()[-1] == (
        "  more than the chip has changed: on the pinned chip too the counts are others"
    )


def test_an_update_keeps_reasons_and_tolerances_but_not_of_counts_that_are_gone() -> None:
    change("pins.toml", '[a]\ntier = "operation"\nreason = "first pinned"', (
        '[a]\ntier = "operation"\nreason = "hand-made"\n'
        'tolerance = { cycles = 2, "units.pe_array.loading" = 3, "units.dma1" = 4 }'
    ))  # fmt: skip
    change("runs/own.toml", "queues = 2", "queues = 1")  # dma1 is gone
    assert run_command(*ALL, "--update")[0] == 0
    pin = read_pins(Path("pins.toml"))["a"]
    assert pin.reason == "hand-made"
    assert pin.tolerance == {"cycles": 2, "units.pe_array.loading": 3}


# -- reports --------------------------------------------------------------------------------------


def test_reports() -> None:
    change("runs/own.toml", "entry_cycles = 0", "entry_cycles = 3")
    status, out, _ = run_command(*ALL, "--junit", "r/out.xml", "--markdown", "out.md")
    assert status == 1
    suite = ElementTree.parse("r/out.xml").getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")
    failures = {case.get("name"): case.findtext("failure") for case in suite.iter("testcase")}
    assert failures["layer.txt"] is None
    assert f"{failures['a']}\n{failures['deep/b']}\n" == out.replace(
        out.splitlines()[-1] + "\n", ""
    )
    text = Path("out.md").read_text(encoding="utf-8")
    assert "3 runs: 1 as pinned, 2 not.\n" in text
    assert "\n| a **not as pinned** | 19 | 22 | +3 |\n" in text
    assert "all in pe_array draining" in text


def test_a_report_is_xml_whatever_a_run_is_called() -> None:
    name = 'runs/<&"\x07|>.toml'
    Path(name).write_text(f'name = "x"\n{RUN.format(chip="own.toml", rows=4)}', encoding="utf-8")
    assert run_command(*ALL, "--junit", "out.xml", "--markdown", "out.md")[0] == 1
    cases = ElementTree.parse("out.xml").getroot().iter("testcase")
    assert '<&"\\x07|>' in [case.get("name") for case in cases]
    assert '| <&"\\x07\\|> **not as pinned** | - | 19 |  |' in Path("out.md").read_text("utf-8")


# -- bad input ------------------------------------------------------------------------------------


def test_bad_input() -> None:
    before = Path("pins.toml").read_bytes()
    Path("empty").mkdir()
    shutil.copy(CONFIGS / "chips" / "ideal_4x4.toml", "empty/chip.toml")
    lines = {
        "gone.toml: no such file of pinned counts; an update makes it": (
            "check", "--runs", "runs", "--pins", "gone.toml"),
        "runs: is a folder; needed the name of a file to write": (*ALL, "--junit", "runs"),
        "runs: is a folder; needed the name of a file": (
            "check", "--runs", "runs", "--pins", "runs", "--update"),
        "--markdown: pins.toml is read or written by this check already": (
            *ALL, "--markdown", "pins.toml"),
        "--markdown: x is read or written by this check already": (
            *ALL, "--markdown", "x", "--junit", "x"),
        "--junit: reports what was compared, and --update compares nothing": (
            *ALL, "--junit", "x", "--update"),
        "empty: has no run files and no programs": (
            "check", "--runs", "empty", "--pins", "pins.toml"),
        "nowhere: is no folder; needed one with run files or programs": (
            "check", "--runs", "nowhere", "--pins", "pins.toml"),
        "runs/a.toml: did not come with systolic": ("check", "--runs", "runs"),
    }  # fmt: skip
    for start, command in lines.items():
        assert refused(*command).startswith(start), command
    assert Path("pins.toml").read_bytes() == before
    assert not Path("x").exists()


def test_a_run_file_with_a_mistake_is_not_passed_over() -> None:
    change("runs/a.toml", "op =", "opp =")
    assert refused(*ALL, "--junit", "out.xml").startswith("runs/a.toml: [workload]")
    assert not Path("out.xml").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk() -> None:
    line = refused("check", "--runs", "runs", "--pins", "/dev/full", "--update")
    assert line.startswith("/dev/full: ")
    assert not list(Path().rglob(".systolic-*"))


def test_counts_on_a_chip_that_this_version_does_not_know() -> None:
    own = '[chips.own]\nname = "own"\n'
    change("pins.toml", own, f"{own}pe_array.rowz = 4\n")
    change("runs/own.toml", "entry_cycles = 0", "entry_cycles = 3")
    out = run_command(*ALL)[1]
    assert "  the pinned chip cannot be read by this version: a: [pe_array] " in out


def test_another_chip_of_the_same_place() -> None:
    change("runs/own.toml", '"own"', '"other"')
    status, out, err = run_command("check", "runs/a.toml", "--pins", "pins.toml", "--runs", "runs")
    assert (status, out) == (2, "")
    assert 'a: runs on chip "other", and its counts are of chip "own"' in err


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('tier = "operation"', 'teir = "x"\ntier = "operation"',
         'has no key "teir" (known: tier, reason, cycles, units, operations, tolerance, chip); '
         'perhaps "tier" was meant'),
        ("cycles = 19", "cycles = true", "cycles: needs a whole number, found True"),
        ("cycles = 19", 'cycles = 19\ntolerance = { cycels = 3 }',
         'tolerance: there is no count "cycels"'),
        ("cycles = 19", 'cycles = 19\ntolerance = { cycles = -3 }',
         'tolerance "cycles": needs a number of cycles, found -3'),
        ('chip = "own"\ncycles = 19', 'chip = "onw"\ncycles = 19',
         'chip: there is no [chips."onw"]; perhaps "own" was meant'),
    ],
)  # fmt: skip
def test_a_damaged_file_of_counts(old: str, new: str, line: str) -> None:
    change("pins.toml", f"[a]\n{before_of(old)}", f"[a]\n{before_of(old, new)}")
    assert refused(*ALL).startswith(f"pins.toml: [a] {line}")


def before_of(old: str, new: str | None = None) -> str:
    """Return the beginning of the pin of `a` up to a line of it, or with that line replaced."""
    text = Path("pins.toml").read_text(encoding="utf-8")
    part = text[text.index("[a]\n") + 4 :]
    end = part.index(old) + len(old)
    return part[:end] if new is None else part[:end].replace(old, new)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_does_not_fit_its_chip_ends_the_check(jobs: int) -> None:
    change("runs/own.toml", "bank_bytes = 2048", "bank_bytes = 8")
    status, _, err = run_command(*ALL, "--jobs", jobs, "--markdown", "out.md")
    assert status == 2
    assert err.startswith("systolic: error: result_buffer of own is too small for one block")
    assert err.count("\n") == 1
    assert not Path("out.md").exists()
