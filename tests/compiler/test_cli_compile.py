"""`systolic compile` and `--values none`: what they print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim.cli import call

RUNS = Path(__file__).resolve().parents[2] / "configs" / "runs"


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ("graph", "node x.1 = turn(x.0)"),
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


def test_an_unknown_pass_is_one_line(capsys):
    assert call(["compile", str(RUNS / "matmul_chain.toml"), "--after", "tiles"]) == 2
    assert capsys.readouterr().err == (
        'systolic: error: --after: needs one of "graph", "tile", "place", "schedule", "sync", '
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
