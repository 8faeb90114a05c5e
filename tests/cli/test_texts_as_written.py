"""Do texts of users stand in tables, files and pictures as they are written?

None is a formula of matplotlib or of a spreadsheet, markup of the screen, or a tag.
"""

from __future__ import annotations

import csv
import io
import json
import warnings
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from support.command_line import run_command
from systolic.report.plots.table import PLOTS
from systolic.run.folder import npy_name

HOSTILE = ("=1+1", "$x^{2$", "[/red]", "<script>", "层一", "a & b")
FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH = HOSTILE
GRAPH = f"""\
description = "costs $x^{{2$ [bold]"
chip = "ideal_4x4"
[workload]
home = "dram"
data = "random"
[workload.tensors."{FOURTH}"]
shape = "f32[4,4]"
[workload.tensors."{FIFTH}"]
shape = "f32[4,4]"
[[workload.ops]]
op = "matmul"
name = "{FIRST}"
inputs = ["{FOURTH}", "{FIFTH}"]
out = "f32[4,4]"
[[workload.ops]]
op = "relu"
name = "{SECOND}"
inputs = ["{FIRST}"]
out = "f32[4,4]"
[[workload.ops]]
op = "transpose"
name = "{THIRD}"
inputs = ["{SECOND}"]
out = "f32[4,4]"
[[workload.ops]]
op = "matmul"
name = "{SIXTH}"
inputs = ["{THIRD}", "{FIFTH}"]
out = "f32[4,4]"
"""
SWEPT = """\
description = "costs $x^{2$ and [red] more"
chip = "ideal_4x4"
[workload]
op = "transpose"
shape = "f32[4,4]"
[[sweep]]
name = "=1+1 $x_{$ [/b] 层"
description = "$\\\\frac{1$"
vary = { "compile.drain" = ["row", "block"] }
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("g.toml").write_text(GRAPH, encoding="utf-8")
    Path("s.toml").write_text(SWEPT, encoding="utf-8")


def test_a_graph_in_tables_and_files() -> None:
    status, out, err = run_command("run", "g.toml", "--out", "o", "--no-plots")
    assert status == 0, err
    for name in (FIRST, SECOND, THIRD, SIXTH):
        assert f"  {name} " in out
    summary = json.loads(Path("o/summary.json").read_text(encoding="utf-8"))
    assert [each["name"] for each in summary["operations"]] == [FIRST, SECOND, THIRD, SIXTH]
    text = Path("o/layers.csv").read_text(encoding="utf-8")
    names = [row["name"] for row in csv.DictReader(io.StringIO(text, newline=""))]
    assert names == [f"'{FIRST}", SECOND, THIRD, SIXTH]
    status, out, _ = run_command("explain", "g.toml")
    assert status == 0
    assert FIRST in out


@pytest.mark.parametrize(
    "view", [n for n, plot in PLOTS.items() if plot.given in ("run", "summary")]
)
@pytest.mark.parametrize("form", ["png", "svg"])
def test_a_graph_in_every_picture(view: str, form: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        status, _, err = run_command("plot", view, "g.toml", "--out", f"p.{form}")
    assert status == 0, (view, err)
    if form == "svg":
        assert "<script>" not in Path("p.svg").read_text(encoding="utf-8")
    assert matplotlib.rcParams["text.parse_math"] is True  # what others draw is as it was


def test_the_pictures_beside_results_and_a_sweep() -> None:
    for name in ("g.toml", "s.toml"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            status, _, err = run_command("run", name, "--out", "o")
        assert status == 0, err
    text = Path("o/sweep.csv").read_text(encoding="utf-8")
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert {row[0] for row in rows[1:]} == {"'=1+1 $x_{$ [/b] 层"}
    assert Path("o/sweep.png").exists()


def test_a_layout_and_a_program() -> None:
    Path("p.txt").write_text(
        'systolic program 1\nprogram "$x^{2$ [red]"\nchip "ideal_4x4"\n'
        'input "=a" (4, 4) = state_buffer[0:4]+0 f32 (1x4)\n'
        'output "[/b]" (4, 4) = state_buffer[0:4]+128 f32 (1x4)\n\n'
        "copy activation source=state_buffer[0:4]+0 f32 (1x4) "
        "target=state_buffer[0:4]+128 f32 (1x4)\n",
        encoding="utf-8",
    )
    status, out, err = run_command("run", "p.txt", "--values", "none", "--out", "o")
    assert status == 0, err
    assert "$x^{2$ [red]" in out or "p.txt" in out
    np.save(npy_name("=a"), np.ones((4, 4), np.float32))
    for view, inputs in (("timeline", ()), ("wavefront", ("--input", "."))):
        told = run_command("plot", view, "p.txt", *inputs, "--out", "p.png")
        assert told[0] == 0, told
