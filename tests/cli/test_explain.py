"""`systolic explain`: tables, JSON, and what it refuses."""

from __future__ import annotations

import json

import pytest

from support.command_line import refused, run_command
from systolic.shipped import CONFIGS

RUNS = CONFIGS / "runs"
FIG_3 = RUNS / "transpose_fig3.toml"
LAYER = CONFIGS / "programs" / "layer.txt"


def explained(*arguments: object) -> dict[str, object]:
    status, out, err = run_command("explain", *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize(
    "name",
    ["transpose_fig3", "transpose_fig4_partitions", "matmul_chain", "neuroncore_v2_chain",
     "transpose_multi_clock", "transpose_dram"],
)  # fmt: skip
def test_the_path_of_a_shipped_run_sums_to_its_cycles(name):
    found = explained(RUNS / f"{name}.toml", "--no-what-if")
    assert sum(row["cycles"] for row in found["path"]) == found["cycles"]
    assert all(link["end"] > link["start"] for link in found["links"])
    for link in found["links"]:
        assert sum(link["reasons"].values()) == link["end"] - link["start"]
    assert found["what_if"] == []


def test_json_has_the_keys_that_the_page_names():
    found = explained(FIG_3)
    assert found["cycles"] == 19
    assert found["path"][0] == {
        "unit": "pe_array", "reason": "draining", "operation": "transpose", "cycles": 6,
    }  # fmt: skip
    assert found["links"][0] == {
        "instruction": 1, "name": "MatMul", "unit": "pe_array", "start": 4, "end": 14,
        "reason": "draining", "reasons": {"streaming": 4, "draining": 6}, "operation": "transpose",
        "shared_with": [],
    }  # fmt: skip
    free = next(row for row in found["what_if"] if row["change"] == "weights loaded for free")
    assert free == {
        "change": "weights loaded for free", "cycles": 15, "percent": -21.1, "keys": "",
        "program": "same program", "already": False,
    }  # fmt: skip


def test_overrides_and_chips():
    assert explained(FIG_3, "--set", "chip.semaphore_cycles=3", "--no-what-if")["cycles"] == 21
    found = explained(LAYER, "--chip", "ideal_4x4", "--no-what-if")
    assert {row["operation"] for row in found["path"]} == {None}


def test_bad_input():
    sweep = RUNS / "transpose_fetch.toml"
    assert refused("explain", sweep) == (
        f"{sweep}: is a sweep; --set sweep=[] takes the run that its points vary"
    )
    assert refused("explain", FIG_3, "--no-check") == (
        f"--no-check: is for programs, and {FIG_3} is a run file"
    )
    assert refused("explain", "nowhere.toml").startswith("nowhere.toml")


def test_ties_are_said():
    """Of 32 loads and 32 multiplies in a row each product waits for its load and the one before."""
    deep = RUNS / "matmul_deep.toml"
    found = explained(deep, "--no-what-if")
    beside = {row["unit"]: row["critical"] - row["on_path"] for row in found["slack"]}
    assert {row["unit"]: row["ties"] for row in found["slack"]} == beside
    assert beside["pe_array"] == 31
    _, out, _ = run_command("explain", deep, "--no-what-if")
    assert "  ties: 31 instructions beside this path have no slack (pe_array 31).\n" in out
    _, out, _ = run_command("explain", FIG_3, "--no-what-if")
    assert "ties" not in out
