"""Do the sweeps that come with systolic run? In small: a few operations, and a few points."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import run_command
from systolic.shipped import CONFIGS
from systolic.sweep.space import load_sweep
from systolic.sweep.store import RESULTS, rows_of

SWEEPS = CONFIGS / "sweeps"
SMALL = {
    "resnet50_arrays": ["--set", "workload.layers=[60, 62]"],
    "gpt2_memory": ["--set", "workload.layers=[0, 3]"],
    "neuroncore_search": [],
}


def test_each_has_a_row_here() -> None:
    assert {path.stem for path in SWEEPS.glob("*.toml")} == set(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_a_shipped_sweep_in_small(name: str, tmp_path: Path) -> None:
    path = SWEEPS / f"{name}.toml"
    file = load_sweep(path, [], values=False)
    assert file.name == name
    assert 10 < file.points <= 60
    status, out, err = run_command(
        "sweep", path, *SMALL[name], "--out", tmp_path, "--values", "none", "--json", "--no-plots",
        "--points", 3,
    )  # fmt: skip
    assert status == 0, err
    assert json.loads(out)["computed"] == 3
    rows = list(rows_of(tmp_path / RESULTS))
    assert len(rows) == 3
    assert all(row["cycles"] >= row["bound_cycles"] > 0 for row in rows)
