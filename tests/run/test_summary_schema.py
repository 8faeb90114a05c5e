"""Does summary.json keep what its schema promises (docs/run_files.md, "Reading summaries")?

The tables below are schema 1. A line may be added; one that must change is schema 2.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.command_line import refused, run_command
from support.graphs import TWO_OUTPUTS
from support.layer import saved_layer
from systolic.run.provenance import SCHEMA

ROOT = Path(__file__).resolve().parents[2]
FIG3 = ROOT / "configs" / "runs" / "transpose_fig3.toml"
LAYER = ROOT / "configs" / "programs" / "layer.txt"
RUN = {
    "run": str, "chip": str, "engine": str, "cycles": int, "time_ns": float, "instructions": dict,
    "units": dict, "ports": dict, "stalls": list, "transfers": dict, "schema": int, "version": str,
    "config": dict, "overrides": list, "files": dict, "options": dict, "inputs": dict,
    "outputs": dict,
}  # fmt: skip
COMPILED = {
    **RUN,
    "dram_bytes": int,
    "on_chip_bytes": int,
    "on_chip": dict,
    "utilisation": float,
    "multiplying": float,
    "blocks": int,
    "sub_blocks": int,
    "values": dict,
    "bound": dict,
}
OPERATION = {
    "name": str, "op": str, "cycles": int, "multiply_adds": int, "utilisation": float,
    "bound": dict, "dram_bytes": int, "on_chip_bytes": int, "stalls": dict,
    "streamed_cycles": int, "turned_cycles": int, "lost": dict, "array": dict,
    "streamed_vectors": int, "transposed": list,
}  # fmt: skip
POINT = {
    "sweep": str,
    "vary": dict,
    "utilisation": float,
    "multiplying": float,
    "cycles": int,
    "units": dict,
    "values": dict,
    "bound": dict,
}
KEYS: dict[str, dict[str, type]] = {
    "transpose": {**COMPILED, "layouts": dict},
    "graph": {**COMPILED, "operations": list, "streamed_cycles": int, "turned_cycles": int,
              "lost": dict},
    "program": {**RUN, "checker": str},
    "sweep": {"run": str, "complete": bool, "schema": int, "version": str, "config": dict,
              "overrides": list, "files": dict, "options": dict, "points": list},
}  # fmt: skip
VALUES = {"checked", "equal", "max_abs_error", "differs_from_numpy", "wrong", "out_of_range"}
OUTPUT = {"type", "shape", "sha256", "file"}
SWEEP = """\
chip = "ideal_4x4"
[workload]
op = "transpose"
shape = "f32[4,4]"
[[sweep]]
name = "drains"
vary = { "compile.drain" = ["row", "block"] }
"""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def summary(kind: str) -> dict[str, Any]:
    Path("graph.toml").write_text(TWO_OUTPUTS, encoding="utf-8")
    Path("sweep.toml").write_text(SWEEP, encoding="utf-8")
    commands: dict[str, list[Any]] = {
        "transpose": [FIG3],
        "graph": ["graph.toml"],
        "sweep": ["sweep.toml"],
        "program": [LAYER, *(saved_layer() if kind == "program" else [])],
    }
    status, out, err = run_command("run", *commands[kind], "--json", "--no-plots")
    assert (status, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize("kind", KEYS)
def test_what_schema_1_promises(kind: str) -> None:
    found = summary(kind)
    assert found["schema"] == SCHEMA == 1
    require(found, KEYS[kind])
    for point in found.get("points", ()):
        require(point, POINT)
        assert "schema" not in point
    for unit in found.get("units", {}).values():
        require(unit, {"total": int, "labels": dict})
    for operation in found.get("operations", ()):
        require(operation, OPERATION)
        require(operation["bound"], {"cycles": int, "why": str})
    for output in found.get("outputs", {}).values():
        assert output.keys() >= OUTPUT
    if "values" in found:
        assert found["values"].keys() >= VALUES
        require(found["bound"], {"cycles": int, "why": str})


def require(found: dict[str, Any], keys: dict[str, type]) -> None:
    assert {key: type(found.get(key)) for key in keys} == keys


def test_a_key_that_is_not_known_does_no_harm() -> None:
    Path("s.json").write_text(json.dumps(summary("transpose") | {"new": {"a": 1}}), "utf-8")
    assert run_command("run", "--again", "s.json", "--no-plots")[0] == 0


def test_another_schema_is_refused() -> None:
    Path("s.json").write_text(json.dumps(summary("transpose") | {"schema": 2}), "utf-8")
    line = refused("run", "--again", "s.json")
    assert line.startswith("s.json: cannot be run again: is of summary schema 2, and systolic ")
    assert line.endswith("reads schema 1")
