"""Is there one way to run anything, and is all that a Python caller gives checked?"""

from __future__ import annotations

import json
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.command_line import run_command
from systolic.compiler import Options
from systolic.config import load_run
from systolic.errors import SystolicError
from systolic.isa import load_module
from systolic.run.result import Result
from systolic.workload import Graph, GraphBuilder

ROOT = Path(__file__).resolve().parents[2]
FIG3 = ROOT / "configs" / "runs" / "transpose_fig3.toml"
LAYER = ROOT / "configs" / "programs" / "layer.txt"
DATA = np.arange(100, 116, dtype=np.float32).reshape(4, 4)


def turned() -> Graph:
    builder = GraphBuilder()
    builder.transpose(builder.tensor("x", "f32[4,4]"), "f32[4,4]", (1, 0), name="y")
    return builder.graph()


def layer_inputs() -> dict[str, np.ndarray]:
    return {b.name: np.ones(b.shape, np.float32) for b in load_module(LAYER).inputs}


# -- what can be run ------------------------------------------------------------------------------


def test_a_run_file_by_its_path_and_as_loaded() -> None:
    for work in (FIG3, str(FIG3), load_run(FIG3)):
        result = systolic.run(work)
        assert isinstance(result, Result)
        assert (result.cycles, result.summary["cycles"]) == (19, 19)
        assert result.result is result.outputs["result"]
        assert result.compiled is not None


def test_a_program_by_its_path_and_as_loaded() -> None:
    module = load_module(LAYER)
    for work in (LAYER, module, replace(module, chip="")):
        result = systolic.run(work, "ideal_4x4", layer_inputs())
        assert result.cycles == 22
        assert result.outputs["y"].tolist() == [[5] * 3] * 6
        assert result.compiled is None
    assert systolic.run(module).outputs == {}  # on the chip that it names, times only
    bare = systolic.run(module.program, "ideal_4x4", check=False)
    assert (bare.cycles, bare.summary["checker"]) == (22, "skipped")


def test_a_program_in_its_binary_form(tmp_path: Path) -> None:
    assert run_command("assemble", LAYER, tmp_path / "layer.bin")[0] == 0
    result = systolic.run(tmp_path / "layer.bin", "ideal_4x4", layer_inputs())
    assert result.cycles == 22
    assert result.summary["files"]["program"] == str(tmp_path / "layer.bin")


def test_a_graph() -> None:
    result = systolic.run(turned(), "ideal_4x4", {"x": DATA}, name="mine")
    assert np.array_equal(result.outputs["y"], DATA.T)
    assert result.summary["run"] == "mine"
    assert result.summary["values"]["equal"] is True
    assert result.summary["operations"][0]["op"] == "transpose"
    assert result.cycles >= result.summary["bound"]["cycles"]
    times = systolic.run(turned(), "ideal_4x4")
    assert (times.cycles, times.outputs, times.result) == (result.cycles, {}, None)
    assert times.summary["values"]["checked"] is False


def test_what_takes_the_place_of_a_run_files_own() -> None:
    inputs = {"source": DATA}
    result = systolic.run(
        FIG3, ideal_chip(8, 8), inputs, options=Options(drain="row"), engine="register", name="n"
    )
    assert np.array_equal(result.outputs["result"], DATA.T)
    assert result.chip == ideal_chip(8, 8)
    found = result.summary
    assert (found["run"], found["engine"], found["config"]["engine"]) == ("n", *["register"] * 2)
    assert found["config"]["compile"]["drain"] == "row"
    assert found["config"]["chip"]["pe_array"]["rows"] == 8
    assert found["files"] == {"run": str(FIG3)}  # the chip is of no file
    assert found["inputs"]["source"]["data"] is None
    assert systolic.run(FIG3, "ideal_128x128").chip.pe_array.rows == 128


def test_the_summary_is_the_files(tmp_path: Path) -> None:
    assert run_command("run", FIG3, "--no-plots", "--out", tmp_path)[0] == 0
    written = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    del written["outputs"]["result"]["file"]
    assert systolic.run(FIG3).to_dict() == written
    given = [f"--input={name}={tmp_path / name}.npy" for name in "xwb"]
    for name, array in layer_inputs().items():
        np.save(tmp_path / f"{name}.npy", array)
    assert run_command("run", LAYER, *given, "--no-plots", "--out", tmp_path)[0] == 0
    written = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    found = systolic.run(LAYER, inputs=layer_inputs()).to_dict()
    for record in written["inputs"].values():
        record["data"] = None  # here from arrays, there from files
    del written["outputs"]["y"]["file"]
    assert found == written


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, 'input "x" (f32 [4, 4]) is missing'),
        ({"x": DATA.astype("f8")}, 'input "x" (f32 [4, 4]): found float64 [4, 4]'),
        ({"x": DATA[:3]}, 'input "x" (f32 [4, 4]): found float32 [3, 4]'),
        ({"x": DATA, "X": DATA}, 'the graph has no input "X" (it has: "x"); perhaps "x" was meant'),
    ],
)
def test_inputs_of_a_graph(inputs: Any, message: str) -> None:
    with pytest.raises(SystolicError) as error:
        systolic.run(turned(), "ideal_4x4", inputs)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: systolic.run(turned()), "run: a graph names no chip; needed one"),
        (lambda: systolic.run(3), "run: needs a graph, a run file or a program, found int"),
        (lambda: systolic.run(turned(), "ideal_4x5"),
         'run: chip: no chip "ideal_4x5" (known: '),
        (lambda: systolic.run(FIG3, engine="evnt"),
         'engine: needs one of "event", "register", found "evnt"; perhaps "event" was meant'),
        (lambda: systolic.run(FIG3, kinds=["psum"]),
         'kinds: needs one of "load", "inject", "read", "write", "psum_write", found "psum"; '
         'perhaps "psum_write" was meant'),
        (lambda: systolic.run("none.toml"), "none.toml: no such file"),
        (lambda: systolic.run(load_module(LAYER).program), "run: the program names no chip"),
    ],
)  # fmt: skip
def test_what_else_is_refused(call: Any, message: str) -> None:
    with pytest.raises(SystolicError) as error:
        call()
    assert str(error.value).startswith(message)
    assert "--" not in str(error.value)


def test_unchecked_work_bears_a_mark() -> None:
    summary = systolic.run(FIG3, check=False).summary
    assert summary["checker"] == "skipped"
    assert summary["options"] == {"values": "exact", "check": False}
    assert "checker" not in systolic.run(FIG3).summary


# -- the result -----------------------------------------------------------------------------------


def test_a_copy_of_the_summary() -> None:
    result = systolic.run(FIG3)
    result.to_dict()["units"]["pe_array"]["total"] = 0
    assert result.summary["units"]["pe_array"]["total"] == 19
    json.dumps(result.to_dict(), allow_nan=False)


def test_a_data_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for pandas takes what the true one is given."""
    pandas: Any = types.ModuleType("pandas")
    pandas.DataFrame = lambda rows, columns: (rows, columns)
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    result = systolic.run(FIG3)
    rows, columns = result.to_dataframe()
    assert columns == ["unit", "label", "cycles"]
    for unit, spent in result.summary["units"].items():
        assert {label: n for u, label, n in rows if u == unit} == spent["labels"]
    assert sum(n for unit, _, n in rows if unit == "pe_array") == 19


def test_without_pandas_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SystolicError, match="to_dataframe: needs pandas, which is not installed"):
        systolic.run(FIG3).to_dataframe()


def test_in_a_notebook_it_is_the_table_of_the_command_line() -> None:
    result = systolic.run(FIG3)
    html = result._repr_html_()
    assert html.startswith("<pre>")
    assert "transpose_fig3" in html
    assert "19 cycles" in html
    assert repr(result) == "<Result of transpose_fig3 on ideal-4x4: 19 cycles, 1 output>"
    assert repr(systolic.run(FIG3, values=False)).endswith("19 cycles, times only>")


# -- the name -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "import systolic; systolic.run",
        "from systolic import run; run",
        "from systolic.run import run; run",
        "import systolic.run.pins; systolic.run",
    ],
)
def test_every_way_to_name_it(code: str) -> None:
    script = f"{code}({str(FIG3)!r}).cycles == 19 or 1 / 0"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_name_that_is_not_there() -> None:
    for module in (systolic, systolic.run):
        with pytest.raises(AttributeError, match="has no attribute 'runn'"):
            module.runn  # noqa: B018
