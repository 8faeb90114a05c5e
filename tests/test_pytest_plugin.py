"""The pytest plugin, in the example repository of docs/regression_testing.md and as an outsider.

pytest runs as a process of its own here, with no other plugin than the one under test.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from systolic.run.pins.file import read_pins

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "tests" / "regression_example"
LATENCY = ("latency_cycles = 100", "latency_cycles = 164")
# Nine copies of queue dma0 follow one another, and each waits 64 cycles longer.
REASON = [
    "runs/layer: 1500 -> 1884 (+384) cycles",
    "  changed in the chip: dma.latency_cycles 100 -> 164",
    "  +384 cycles, all in dma0 latency, from DmaCopy #0 on: +64 latency",
]
PLUGIN = ("-p", "systolic.pytest_plugin", "-p", "no:cacheprovider")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The example as someone has it who has just fetched it."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "example"))


def run_pytest(repository: Path, *arguments: str) -> tuple[int, str]:
    """Run pytest in a repository; return its exit status and all that it prints."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", *PLUGIN, *arguments]
    return _run(command, repository, environment)


def _run(
    command: Sequence[str | Path], folder: Path, environment: dict[str, str]
) -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, (file, old)
    file.write_text(text.replace(old, new), encoding="utf-8")


def in_order(lines: Sequence[str], text: str) -> bool:
    found = iter(text.splitlines())
    return all(any(line == each for each in found) for line in lines)


def test_green_and_then_red_with_the_reason(repository: Path) -> None:
    status, out = run_pytest(repository)
    assert (status, "6 passed" in out) == (0, True), out
    change(repository / "chips" / "small.toml", *LATENCY)
    status, out = run_pytest(repository)
    assert (status, "2 failed, 4 passed" in out) == (1, True), out
    assert in_order(REASON, out), out
    assert "Traceback" not in out


@pytest.mark.slow
def test_an_update_writes_what_moved_and_keeps_what_was_said(repository: Path) -> None:
    pins = repository / "test_cycles.pins.toml"
    change(repository / "chips" / "small.toml", *LATENCY)
    reason = 'reason = "operands come from DRAM, the result goes back to it"'
    text = pins.read_text(encoding="utf-8")
    said = 'reason = "all of it waits"\ntolerance = { cycles = 3 }'
    pins.write_text(text.replace(reason, said, 1), encoding="utf-8")
    status, out = run_pytest(repository, "--systolic-update", "-k", "not one_queue")
    assert status == 0, out
    found = read_pins(pins)
    layer, other = found["runs/layer"], found["runs/layer, chip.dma.queues=1"]
    assert (layer.cycles, layer.reason, layer.tolerance) == (1884, "all of it waits", {"cycles": 3})
    assert other.cycles == 2475  # its test was not selected
    assert run_pytest(repository, "-k", "not one_queue")[0] == 0


TESTS = """
from pathlib import Path

import pytest

FASTER = "chip.pe_array.fast_load=2"
FAILING = {
    "cycles": lambda run: run("runs/transpose.toml").assert_cycles(41),
    "too_far": lambda run: run("runs/transpose.toml").assert_cycles(41, tolerance=1),
    "new": lambda run: run("runs/transpose.toml", set=[FASTER]).assert_unchanged(),
    "no_file": lambda run: run("runs/gone.toml"),
    "no_engine": lambda run: run("runs/transpose.toml", engine="evnt"),
    "no_key": lambda run: run("runs/transpose.toml", set={"chip.dma.queus": 1}),
    "no_chip": lambda run: run("runs/transpose.toml", chip="smal"),
    "other_chip": lambda run: run("runs/layer.toml", chip="ideal_4x4").assert_unchanged(),
    "program_key": lambda run: run("programs/fill.txt", set={"workload.home": "dram"}),
    "a_sweep": lambda run: run("runs/sweep.toml"),
}


@pytest.mark.parametrize("name", FAILING)
def test_failing(systolic_run, name):
    FAILING[name](systolic_run)


def test_good(systolic_run):
    run = systolic_run("runs/transpose.toml")
    run.assert_cycles(40, tolerance=1)
    assert (run.cycles, run.summary["cycles"]) == (39, 39)
    assert run.units["activation"] == {"streaming": 8, "draining": 1, "waiting for pe_array": 30}
    assert systolic_run("runs/layer.toml").operations == {"matmul": 1500}
    assert systolic_run(Path("programs/fill.txt"), engine="register").cycles == 13
    text, table = ["chip.dma.queues=1"], {"chip.dma.queues": 1}
    one, other = (systolic_run("runs/layer.toml", set=each) for each in (text, table))
    assert one.cycles == other.cycles == 2475
    assert systolic_run("runs/sweep.toml", set={"sweep": []}).cycles == 39
    assert systolic_run("runs/transpose.toml", chip="chips/small.toml").cycles == 39


def test_the_tests_folder_is_where_files_are_looked_for(systolic_run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    systolic_run("runs/transpose.toml", chip="chips/small.toml").assert_cycles(39)
"""
LINES = {
    "cycles": "runs/transpose: 39 cycles, expected 41 (-2)",
    "too_far": "runs/transpose: 39 cycles, expected 41 (-2)",
    "new": "runs/transpose, chip.pe_array.fast_load=2: 35 cycles, not pinned "
    "(--systolic-update pins them)",
    "no_file": "{0}/runs/gone.toml: no such file",
    "no_engine": 'engine: needs "event" or "register", found \'evnt\'',
    "no_key": "chip.dma.queus=1",
    "no_chip": 'chip: chip: no chip "smal"',
    "other_chip": 'runs on chip "ideal-4x4", and its counts are of chip "small"',
    "program_key": 'of a program only "chip." can be set, not "workload.home"',
    "a_sweep": "runs/sweep.toml: is a sweep; set sweep to [] to take the run it varies",
}


def pins_of_no_test(out: str) -> list[str]:
    return [line for line in out.splitlines() if "pins of no test" in line]


@pytest.mark.slow
def test_pins_of_tests_that_are_gone_are_told(repository: Path) -> None:
    """A test takes one path less; later a file of counts has no test file at all."""
    (pins,) = repository.rglob("*.pins.toml")
    tests = pins.with_name("test_cycles.py")
    assert pins_of_no_test(run_pytest(repository)[1]) == []
    change(tests, ', "programs/fill.txt"]', "]")
    status, out = run_pytest(repository)
    assert status == 0, out
    assert pins_of_no_test(out) == [f"systolic: {pins}: pins of no test: programs/fill.txt"]
    for some in (["test_cycles.py::test_one_queue_of_dma"], ["-k", "nothing"]):
        assert pins_of_no_test(run_pytest(repository, *some)[1]) == [], "only some tests ran"
    lost = pins.with_name("test_old.pins.toml")
    shutil.copy(pins, lost)
    line = f"systolic: {lost}: pins of no test: there is no test_old.py"
    assert line in pins_of_no_test(run_pytest(repository)[1])


@pytest.mark.slow
def test_every_way_to_fail_is_one_line(repository: Path) -> None:
    shutil.copy(repository / "test_cycles.pins.toml", repository / "test_more.pins.toml")
    (repository / "test_more.py").write_text(TESTS, encoding="utf-8")
    sweep = '[[sweep]]\nname = "s"\n[sweep.vary]\n"chip.dma.queues" = [1, 2]\n'
    text = (repository / "runs" / "transpose.toml").read_text(encoding="utf-8")
    (repository / "runs" / "sweep.toml").write_text(text + sweep, encoding="utf-8")
    status, out = run_pytest(repository, "test_more.py")
    assert (status, f"{len(LINES)} failed, 2 passed" in out) == (1, True), out
    parts = dict(_failures(out))
    assert set(parts) == set(LINES)
    for name, line in LINES.items():
        assert len(parts[name]) == 1, parts[name]
        assert line.format(repository) in parts[name][0], parts[name]


def _failures(out: str) -> list[tuple[str, list[str]]]:
    """Return the name of each failed test and the lines below its heading."""
    body = out.split("= FAILURES =")[1].split("= short test summary info =")[0]
    found: list[tuple[str, list[str]]] = []
    for line in body.splitlines()[1:]:
        if line.startswith("___") and "[" in line:
            found.append((line.split("[")[1].split("]")[0], []))
        elif found and line and not line.startswith("==="):
            found[-1][1].append(line)
    return found


@pytest.mark.slow
def test_damaged_counts_and_an_update_of_many_processes(repository: Path) -> None:
    change(repository / "pyproject.toml", 'addopts = "-q"', 'addopts = "-q -p xdist"')
    status, out = run_pytest(repository, "--systolic-update", "-n", "2")
    assert (status, "--systolic-update needs one process: add -n 0" in out) == (4, True), out
    pins = repository / "test_cycles.pins.toml"
    before = pins.read_text(encoding="utf-8").replace("cycles = 39", "cylces = 39")
    pins.write_text(before, encoding="utf-8")
    status, out = run_pytest(repository, "--systolic-update", "-n", "0", "-k", "fill")
    assert (status, "needs tier, reason, cycles and units" in out) == (1, True), out
    assert pins.read_text(encoding="utf-8") == before


def test_pytest_loads_nothing_of_the_package_but_the_plugin() -> None:
    script = (
        "import sys, pytest; before = set(sys.modules); import systolic.pytest_plugin; "
        "print(sorted(set(sys.modules) - before))"
    )
    status, out = _run([sys.executable, "-c", script], ROOT, dict(os.environ))
    assert (status, out) == (0, "['systolic', 'systolic.pytest_plugin']\n")


def test_what_the_page_shows_is_the_example() -> None:
    page = (ROOT / "docs" / "regression_testing.md").read_text(encoding="utf-8")
    for name in ("test_cycles.py",):
        assert (EXAMPLE / name).read_text(encoding="utf-8") in page
    for line in REASON:
        assert f"\n{line}\n" in page


# -- as an outsider -------------------------------------------------------------------------------

LIBRARIES = ("numpy", "pytest", "simpy", "pydantic", "typer", "rich", "numba", "matplotlib")


@pytest.mark.slow  # builds a wheel
def test_an_outsider_installs_the_wheel_and_pins_a_chip_of_ones_own(
    repository: Path, tmp_path: Path
) -> None:
    """An empty environment with the wheel; the libraries are those of the running environment."""
    python = _environment(tmp_path)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SYSTOLIC"))}
    where = [python, "-c", "import systolic; print(systolic.__file__)"]
    assert str(tmp_path) in _run(where, repository, environment)[1]
    check = [python, "-m", "systolic", "check", "--runs", ".", "--pins", "cycles.toml"]
    tests = [python, "-m", "pytest"]  # the plugin comes by its entry point
    status, out = _run(tests, repository, environment)
    assert (status, "6 passed" in out) == (0, True), out
    assert _run(check, repository, environment)[0] == 0
    change(repository / "chips" / "small.toml", *LATENCY)
    for command in (tests, [*check, "--jobs", "2", "--junit", "out.xml", "--markdown", "out.md"]):
        status, out = _run(command, repository, environment)
        assert status == 1, out
        assert in_order(REASON, out), out
    assert (repository / "out.xml").is_file()
    assert (repository / "out.md").is_file()


def _environment(folder: Path) -> Path:
    """Return the Python of a new environment that holds the wheel and nothing else of ours."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    built, python = folder / "wheel", folder / "environment" / "bin" / "python"
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", built, ROOT], check=True)
    (wheel,) = built.glob("*.whl")
    make = [sys.executable, "-m", "venv", "--without-pip", folder / "environment"]
    subprocess.run(make, check=True)
    (packages,) = (folder / "environment").glob("lib/python*/site-packages")
    install = ["install", "--no-deps", "--no-index", "--target", packages, wheel]
    subprocess.run([*pip, *install], check=True)
    (packages / "libraries.pth").write_text("\n".join(_library_folders()), encoding="utf-8")
    return python


def _library_folders() -> set[str]:
    found = (importlib.util.find_spec(name) for name in LIBRARIES)
    return {str(Path(spec.origin).parents[1]) for spec in found if spec and spec.origin}
