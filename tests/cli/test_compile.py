"""Do `systolic compile` and `--values none` print what they should, and refuse the rest?"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import systolic
from systolic.cli.main import call
from systolic.compiler.show import PASSES
from systolic.config import load_run

RUNS = Path(__file__).resolve().parents[2] / "configs" / "runs"


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ("lower", " = turn(x."),
        ("graph", " = turn(x."),  # its old name
        ("tile", "data and"),
        ("place", "bytes spilled to DRAM"),
        ("schedule", "pe_array: "),
        ("sync", "semaphores"),
    ],
)
def test_every_pass_can_be_printed(after, words, capsys):
    assert call(["compile", str(RUNS / "matmul_chain.toml"), "--after", after]) == 0
    assert words in capsys.readouterr().out
    assert call(["compile", str(RUNS / "transpose_fig3.toml"), "--after", after]) == 0
    assert capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    sorted(
        path
        for path in RUNS.glob("transpose_*.toml")
        if not path.stem.startswith(("transpose_ddr4_", "transpose_packed"))
    ),
    ids=lambda p: p.stem,
)
def test_every_transpose_is_compiled_as_a_graph(path, capsys):
    """Each pass prints its result, and the blocks are those of equation 1."""
    config = load_run(path)
    shown = {}
    for after in PASSES:
        assert call(["compile", str(path), "--after", after]) == 0
        shown[after] = capsys.readouterr().out
    shape = config.graph.shape("source")
    *batch, m, n = shape.dims if shape.rank == 2 else (2, 14 * 14, 32)  # NHWC to NCHW
    p, q = config.compile.block or (config.chip.state_buffer.partitions,) * 2
    k = math.prod(batch) * ((m - 1) // p + 1) * ((n - 1) // q + 1)
    assert f"equation 1: {k} blocks of {p} x {q}" in shown["tile"]
    assert "layer transpose: " in shown["lower"]
    assert "pe_array: " in shown["schedule"] or "dma" in shown["schedule"]


def test_an_unknown_pass_is_one_line(capsys):
    assert call(["compile", str(RUNS / "matmul_chain.toml"), "--after", "tiles"]) == 2
    assert capsys.readouterr().err == (
        'systolic: error: --after: needs one of "lower", "tile", "place", "schedule", "sync", '
        'found "tiles"; perhaps "tile" was meant\n'
    )


def test_values_none_gives_the_same_cycles(capsys, tmp_path):
    summaries = []
    for values in ("exact", "none"):
        arguments = ["run", str(RUNS / "matmul_deep.toml"), "--json", "--no-plots"]
        assert call([*arguments, "--out", str(tmp_path), "--values", values]) == 0
        summaries.append(json.loads(capsys.readouterr().out))
    exact, none = summaries
    assert exact["values"]["equal"] is True
    assert none["values"]["checked"] is False
    for key in ("cycles", "units", "ports", "operations"):
        assert exact[key] == none[key]


def test_a_choice_among_plans_is_told(capsys):
    """A lone product on the chip has one plan; several have an estimate near the run's cycles."""
    path, lone = (str(RUNS / f"{name}.toml") for name in ("matmul_chain", "matmul_1024_onchip"))
    assert call(["compile", lone, "--after", "tile"]) == 0
    assert "several plans" not in capsys.readouterr().out
    assert call(["compile", path, "--after", "tile"]) == 0
    (line,) = [x for x in capsys.readouterr().out.splitlines() if "several plans" in x]
    cycles = int(line.split()[-2])
    run = systolic.run(load_run(path), values=False)
    assert cycles == pytest.approx(run.cycles, rel=0.2)
