"""`systolic diff`: what differs, from which instruction on, exit status, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.command_line import refused, run_command
from systolic.shipped import CONFIGS

RUNS = CONFIGS / "runs"
FIG_3 = RUNS / "transpose_fig3.toml"
LAYER = CONFIGS / "programs" / "layer.txt"


def differing(*arguments: object, status: int = 1) -> dict[str, Any]:
    found, out, err = run_command("diff", *arguments, "--json")
    assert (found, err) == (status, "")
    return json.loads(out)


def summary(folder: Path, *arguments: object) -> Path:
    status, _, err = run_command(
        "run", *arguments, "--values", "none", "--no-plots", "--out", folder
    )
    assert (status, err) == (0, "")
    return folder / "summary.json"


@pytest.mark.parametrize("work", [FIG_3, LAYER, RUNS / "matmul_chain.toml"])
def test_a_run_equals_itself(work):
    assert differing(work, work, status=0) == {
        "equal": True, "cycles": [found := differing(work, work, status=0)["cycles"][0], found],
        "units": {}, "instructions": {}, "operations": {}, "path": [], "first": None,
    }  # fmt: skip
    assert run_command("diff", work, work) == (0, f"equal: {found:,} cycles\n", "")


def test_results_that_come_later():
    """Three more registers before the first PE: each result is 3 cycles later on its way."""
    found = differing(FIG_3, FIG_3, "--set", "chip.pe_array.entry_cycles=3")
    assert (found["equal"], found["cycles"]) == (False, [19, 22])
    # Filling: e[0] to the first result, 3 cycles, of which streaming covers 4; draining: the rest.
    assert found["units"]["pe_array"] == {"draining": [6, 7], "filling": [0, 2]}
    assert found["units"]["activation"] == {"waiting for pe_array": [14, 17]}
    assert found["path"] == [{"unit": "pe_array", "reason": "draining", "cycles": [6, 9]}]
    assert found["first"] == {
        "instruction": 1, "name": "MatMul",
        "why": "+3 cycles, all in pe_array draining, from MatMul #1 on: +3 draining",
    }  # fmt: skip


def test_a_start_that_comes_later():
    found = differing(FIG_3, FIG_3, "--set", "chip.semaphore_cycles=5")
    assert found["first"]["why"] == (
        "+4 cycles, all in activation semaphore, from Copy #2 on: it starts 4 cycles later; "
        "it waits for MatMul #1, as in A"
    )


def test_a_start_that_waits_for_something_else():
    """Weights without a shadow register: the second load waits for the last vector."""
    run, key = RUNS / "transpose_300x1000.toml", "chip.pe_array.weight_buffer=single"
    why = differing(run, run, "--set", key)["first"]["why"]
    assert "LoadWeights #" in why
    assert "later; it waits for MatMul #" in why


PROGRAM = """systolic program 1
program "two"
chip "ideal_128x128"
memset activation value=0.0 target=state_buffer[0:4]+0 f32 (1x3)
memset pooling value=0.0 target=state_buffer[{partitions}]+64 f32 (1x3)
"""


def test_a_port_that_is_refused(tmp_path):
    """Both fill bank 0 for 3 cycles. Partition 3 has one port, so pooling stands back for 3."""
    a, b = tmp_path / "a.txt", tmp_path / "b.txt"
    a.write_text(PROGRAM.format(partitions="4:8"))
    b.write_text(PROGRAM.format(partitions="3:7"))
    found = differing(a, b)
    assert found["cycles"] == [4, 7]
    assert found["units"]["pooling"]["stalled by activation"] == [0, 3]
    assert found["first"]["why"].endswith("another instruction stands there, Memset #1")
    wide = "chip.state_buffer.port_scope=bank"
    first = differing(a, a, "--set", wide)["first"]
    assert (first["instruction"], first["name"]) == (1, "Memset")
    assert first["why"].startswith("+3 cycles (critical path: ")
    assert first["why"].endswith("#1 on: +3 stalled by activation at state_buffer bank 0 (write)")


def test_another_program_by_kind_and_operation():
    found = differing(FIG_3, FIG_3, "--set", "compile.drain=row")
    assert found["cycles"] == [19, 16]
    assert found["instructions"] == {"Copy": [1, 4]}
    assert found["first"]["why"].endswith("another instruction stands there, Copy #2")
    chain = RUNS / "matmul_chain.toml"
    found = differing(chain, chain, "--set", "chip.dma.latency_cycles=0")
    assert set(found["operations"]) == {"hidden", "y"}


def test_summaries_of_two_runs(tmp_path):
    a = summary(tmp_path / "a", FIG_3)
    b = summary(tmp_path / "b", FIG_3, "--set", "chip.pe_array.entry_cycles=3")
    found = differing(a, tmp_path / "b")
    assert found["cycles"] == [19, 22]
    assert found["units"]["pe_array"] == {"draining": [6, 7], "filling": [0, 2]}
    assert (found["path"], found["first"]) == ([], None)
    assert differing(a, FIG_3, status=0)["equal"]
    assert differing(FIG_3, b)["cycles"] == [19, 22]


def test_the_text_has_a_row_for_each_label_that_differs():
    status, out, err = run_command("diff", FIG_3, FIG_3, "--set", "chip.pe_array.fast_load=2")
    assert (status, err) == (1, "")
    lines = out.splitlines()
    assert lines[:2] == [
        "cycles: 19 -> 17 (-2)",
        "-2 cycles, all in pe_array loading, from LoadWeights #0 on: -2 loading",
    ]
    assert "  pe_array    loading                4   2      -2" in lines


def test_bad_input(tmp_path):
    good = summary(tmp_path / "good", FIG_3)
    found = json.loads(good.read_text())
    old, sweep, other = (tmp_path / name for name in ("old.json", "sweep.json", "other.json"))
    old.write_text(json.dumps({**found, "schema": 7}))
    sweep.write_text(json.dumps({"schema": 1, "points": []}))
    other.write_text("{}")
    assert refused("diff", old, good) == (
        f"{old}: is of summary schema 7; needed schema 1, which this systolic reads"
    )
    assert refused("diff", good, sweep) == (
        f"{sweep}: is the summary of a sweep; needed that of one run"
    )
    assert refused("diff", other, good) == f"{other}: is no summary.json: needed a key schema"
    other.write_text(json.dumps({"schema": 1}))
    assert refused("diff", other, good) == (
        f"{other}: is no summary of a run: needed cycles, units, instructions"
    )
    assert refused("diff", FIG_3, good, "--set", "a=1") == (
        f"--set: is for run files and programs, and {good} is a summary"
    )
    assert refused("diff", FIG_3, tmp_path / "no.json") == f"{tmp_path / 'no.json'}: no such file"
