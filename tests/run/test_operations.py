"""Do the records of a graph's operations sum to the run, and say what their shapes say?

Oracles: two cases by hand, the shapes' own count of multiply-adds, and what the machine counted
(transfers, refused ports, labels). The records themselves come from the program.
"""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.command_line import run_command
from support.graphs import TWO_OUTPUTS
from support.lane_graphs import grow, product, start
from support.random_works import random_clocked_chip, random_options, random_work
from support.refusals import is_for_room
from systolic.errors import SystolicError
from systolic.isa import Access, Buffer, DmaCopy, LoadWeights, MatMul
from systolic.report.summary.table import any_numbers_text
from systolic.run.operations import stalls_by_layer
from systolic.run.result import Result
from systolic.trace.passes import GridShape
from systolic.trace.recorder import Recorder
from systolic.trace.records import InstructionTimes, Stall
from systolic.workload import Graph, GraphBuilder
from systolic.workload.operations.causal_mask import CausalMaskAttributes

GRID = GridShape(1, 1, 0, (1, 1), (1, 1), 1, "left", "double")


def chain(home: str) -> Graph:
    """Return y = (x w) v with x [2, 4], w [4, 4], v [4, 3], laid out so that nothing is turned."""
    builder = GraphBuilder(home)
    x = builder.tensor("x", "f32[2,4]{0,1}")
    w, v = builder.tensor("w", "f32[4,4]"), builder.tensor("v", "f32[4,3]")
    h = builder.matmul(x, w, "f32[2,4]", name="h")
    builder.matmul(h, v, "f32[2,3]{0,1}", name="y")
    return builder.graph()


def records(result: Result) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in result.summary["operations"]}


# -- by hand --------------------------------------------------------------------------------------


def test_bytes_and_multiply_adds_by_hand() -> None:
    """x (32 bytes), w (64) and v (48) come, y (24) goes; h stays on the chip."""
    result = systolic.run(chain("dram"), ideal_chip(4, 4))
    h, y = records(result)["h"], records(result)["y"]
    assert (h["dram_bytes"], y["dram_bytes"]) == (32 + 64, 48 + 24)
    assert result.summary["dram_bytes"] == result.summary["transfers"]["bytes"] == 168
    assert (h["multiply_adds"], y["multiply_adds"]) == (2 * 4 * 4, 2 * 4 * 3)
    for each in (h, y):
        assert each["utilisation"] == each["multiply_adds"] / (16 * each["cycles"])


def test_bytes_on_the_chip_by_hand() -> None:
    """A tile of 4 x 4 weights is loaded (64 bytes), two vectors of four move (32), and their
    2 x 4 sums are written (32), read again (32) and copied to the state buffer (32). Then 4 x 3
    weights, two vectors, and 2 x 3 sums, three times."""
    result = systolic.run(chain("state_buffer"), ideal_chip(4, 4))
    h, y = records(result)["h"], records(result)["y"]
    assert (h["on_chip_bytes"], y["on_chip_bytes"]) == (64 + 32 + 3 * 32, 48 + 32 + 3 * 24)
    assert result.summary["on_chip_bytes"] == 192 + 152
    assert result.summary["dram_bytes"] == h["dram_bytes"] == y["dram_bytes"] == 0


def test_a_sum_that_is_added_to_is_read_and_written() -> None:
    """K = 8 on an array of 4 rows: of two multiplies into one bank the second adds."""
    builder = GraphBuilder("state_buffer")
    x, w = builder.tensor("x", "f32[2,8]{0,1}"), builder.tensor("w", "f32[8,4]")
    builder.matmul(x, w, "f32[2,4]{0,1}", name="y")
    result = systolic.run(builder.graph(), ideal_chip(4, 4))
    sums = 32
    assert records(result)["y"]["on_chip_bytes"] == 2 * (64 + 32) + (1 + 2) * sums + 2 * sums


def test_a_copy_in_dram_counts_at_both_ends() -> None:
    builder = GraphBuilder("dram")
    builder.add("reshape", [builder.tensor("x", "f32[4,4]")], "f32[16]", name="y")
    result = systolic.run(builder.graph(), ideal_chip(4, 4))
    assert result.summary["transfers"]["bytes"] == 64
    assert result.summary["dram_bytes"] == records(result)["y"]["dram_bytes"] == 128


def test_a_wait_is_that_of_the_next_start() -> None:
    """Of a unit of 2 ticks a cycle: cycles 0 to 3 wait for the first instruction, 6 and 7 for the
    second; one refused cycle is the second's."""
    seen = Recorder(("pe_array",))
    seen.times += [InstructionTimes(0, "pe_array", 8, 8, 10, 10)]
    seen.times += [InstructionTimes(1, "pe_array", 16, 16, 20, 20)]
    for first, stop in ((0, 4), (5, 8)):
        seen.claim("pe_array", "waiting for dma0", first, stop)
    for first, stop in ((4, 6), (8, 11)):
        seen.claim("pe_array", "streaming", first, stop)
    seen.stalls.append(Stall(18, "pe_array", 1, 1, "state_buffer", 0, "read", "dma"))
    trace = seen.finish(22, {"pe_array": 2}, GRID)
    assert stalls_by_layer(trace, ["a", "b"]) == {
        "a": {"waiting for dma0": 4},
        "b": {"waiting for dma0": 2, "stalled by dma": 1},
    }


def test_a_wait_that_runs_over_a_start_is_cut_there() -> None:
    """The first instruction left no label of its own between two waits."""
    seen = Recorder(("dma0",))
    seen.times += [InstructionTimes(n, "dma0", start, start, start, start)
                   for n, start in ((0, 3), (1, 9))]  # fmt: skip
    seen.claim("dma0", "waiting for pe_array", 1, 9)
    trace = seen.finish(10, {"dma0": 1}, GRID)
    assert stalls_by_layer(trace, ["a", "b"]) == {
        "a": {"waiting for pe_array": 2},
        "b": {"waiting for pe_array": 6},
    }


# -- conservation ---------------------------------------------------------------------------------


def multiplied(result: Result) -> Counter[str]:
    """Return, by operation, the multiply-adds of all multiplies but those that turn a matrix."""
    compiled = result.compiled
    assert compiled is not None
    ones = compiled.scheduled.identities
    found: Counter[str] = Counter()
    loaded: Access | None = None
    works = zip(compiled.synchronised.layers, result.program.instructions, strict=True)
    for number, (name, each) in enumerate(works):
        if isinstance(each, LoadWeights):
            loaded = each.weights
        if isinstance(each, MatMul) and number not in compiled.turns:
            assert loaded is not None
            if not any(_within(part, one) for part in (loaded, each.moving) for one in ones):
                moving = each.moving
                found[name] += moving.partitions * moving.elements * each.result.partitions
    return found


def _within(part: Access, whole: Access) -> bool:
    return (
        part.buffer is whole.buffer
        and whole.lanes.first <= part.lanes.first < whole.lanes.stop
        and whole.span.first <= part.span.first < whole.span.stop
    )


def by_shapes(graph: Graph) -> dict[str, int]:
    """Return, by product, elements of the result x K, less those that a causal mask throws away."""
    return {
        op.name: _wanted(graph, op.output) * graph.shape(op.inputs[0]).dims[-1]
        for op in graph.operations
        if op.kind == "matmul"
    }


def _wanted(graph: Graph, name: str) -> int:
    dims, offset = graph.shape(name).dims, masked(graph).get(name)
    if offset is None:
        return math.prod(dims)
    return math.prod(dims[:-2]) * int(np.tri(*dims[-2:], offset).sum())


def masked(graph: Graph) -> dict[str, int]:
    """Return the offset of the causal mask of each tensor that nothing else takes."""
    takers = {n: [op for op in graph.operations if n in op.inputs] for n, _ in graph.tensors}
    return {
        name: each[0].attributes_as(CausalMaskAttributes).offset
        for name, each in takers.items()
        if [op.kind for op in each] == ["causal_mask"]
    }


def masked_behind_a_cast(graph: Graph) -> set[str]:
    """Return the tensors of which a mask takes nothing but a cast."""
    casts = {op.output: op.inputs[0] for op in graph.operations if op.kind == "cast"}
    return {casts[name] for name in masked(graph) if name in casts}


def require_conservation(result: Result) -> None:
    summary, operations = result.summary, result.summary["operations"]
    for key in ("dram_bytes", "on_chip_bytes"):
        assert sum(each[key] for each in operations) == summary[key]
    ends: Counter[int] = Counter()
    for each in result.program.instructions:
        if isinstance(each, DmaCopy):
            at_dram = [e.buffer is Buffer.DRAM for e in (each.source, each.target)]
            ends[sum(at_dram)] += each.source.size_bytes
    assert summary["transfers"]["bytes"] == ends.total()
    assert summary["dram_bytes"] == summary["transfers"]["bytes"] - ends[0] + ends[2]
    _require_stalls(result)
    _require_multiply_adds(result)


def _require_stalls(result: Result) -> None:
    """Refused and waiting cycles are those of the machine's own tables, by reason."""
    found: Counter[str] = Counter()
    for each in result.summary["operations"]:
        found.update(each["stalls"])
    counted: Counter[str] = Counter()
    for stall in result.summary["stalls"]:
        counted[f"stalled by {stall['winner']}"] += stall["cycles"]
    for unit in result.summary["units"].values():
        waits = {label: n for label, n in unit["labels"].items() if label.startswith("waiting")}
        counted.update(waits)
    assert found == counted


def _require_multiply_adds(result: Result) -> None:
    assert result.compiled is not None
    shapes, chip = by_shapes(result.compiled.graph), result.chip
    found = {each["name"]: each["multiply_adds"] for each in result.summary["operations"]}
    done, parts = multiplied(result), masked(result.compiled.graph)
    for name in found.keys() - shapes.keys():  # a composite of products may multiply by zeros too
        assert 0 <= found[name] <= done[name]
    assert {name: found[name] for name in shapes} == shapes
    behind = masked_behind_a_cast(result.compiled.graph)
    for name, count in shapes.items():  # of tiles at a diagonal all is multiplied
        if name in behind:
            assert 0 < done[name] <= count
        else:
            assert done[name] >= count if name in parts else done[name] == count
    for each in result.summary["operations"]:
        pes = chip.pe_array.rows * chip.pe_array.cols
        assert each["utilisation"] * pes * each["cycles"] == pytest.approx(each["multiply_adds"])
        assert 0 <= each["utilisation"] <= 1


def lane_graph(rng: Random) -> Graph:
    builder = GraphBuilder(rng.choice(["dram", "state_buffer"]))
    now = product(rng, builder, "bf16") if rng.random() < 0.6 else start(rng, builder)
    for number in range(rng.randint(1, 3)):
        now = grow(rng, builder, now, number)
    return builder.graph()


@pytest.mark.parametrize("block", range(4))
def test_operations_sum_to_the_run(block: int) -> None:
    done = products = 0
    for seed in range(20 * block, 20 * block + 20):
        rng = Random(f"operations {seed}")
        graph = lane_graph(rng) if seed % 2 else random_work(rng)
        chip = ideal_chip(6, 5) if seed % 2 else random_clocked_chip(rng)
        options = None if seed % 2 else random_options(rng, chip)
        try:
            result = systolic.run(graph, chip, options=options)
        except SystolicError as error:
            assert is_for_room(error)  # noqa: PT017
            continue
        require_conservation(result)
        done += 1
        products += bool(by_shapes(graph))
    assert done > 8
    assert products > 3


@pytest.mark.parametrize("seed", range(4))
def test_both_engines_say_the_same(seed: int) -> None:
    graph = lane_graph(Random(f"engines {seed}"))
    found = [
        systolic.run(graph, ideal_chip(6, 5), engine=engine, values=False).summary["operations"]
        for engine in ("event", "register")
    ]
    assert found[0] == found[1]


# -- files ----------------------------------------------------------------------------------------


def test_layers_csv_has_the_numbers_of_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("g.toml").write_text(TWO_OUTPUTS, encoding="utf-8")
    assert run_command("run", "g.toml", "--no-plots", "--out", "o")[0] == 0
    operations = json.loads(Path("o/summary.json").read_bytes())["operations"]
    with Path("o/layers.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["a", "b"]
    for row, each in zip(rows, operations, strict=True):
        for key in ("cycles", "multiply_adds", "dram_bytes", "on_chip_bytes"):
            assert int(row[key]) == each[key]
        assert float(row["utilisation"]) == each["utilisation"]
        assert (int(row["bound_cycles"]), row["bound_why"]) == (*each["bound"].values(),)
        stalls = {key: int(n) for key, n in row.items() if key.startswith(("stall", "wait"))}
        assert {key: n for key, n in stalls.items() if n} == each["stalls"]


def test_a_lone_operation_has_no_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layers of an older run in the folder go."""
    monkeypatch.chdir(tmp_path)
    Path("g.toml").write_text(TWO_OUTPUTS, encoding="utf-8")
    lone = 'chip = "ideal_4x4"\n[workload]\nop = "transpose"\nshape = "f32[4,4]"\n'
    Path("t.toml").write_text(lone, encoding="utf-8")
    for name, there in (("g.toml", True), ("t.toml", False)):
        assert run_command("run", name, "--no-plots", "--out", "o")[0] == 0
        assert Path("o/layers.csv").exists() is there


def test_cycles_are_for_any_numbers_of_places() -> None:
    builder = GraphBuilder("dram")
    x, n, m = (builder.tensor(*each) for each in
               (("x", "f32[4,6]"), ("n", "s32[3]"), ("m", "s32[2]")))  # fmt: skip
    g = builder.add("gather", [x, n], "f32[3,6]", name="g", axis=0)
    builder.add("dynamic_slice", [g, m], "f32[2,2]", name="s", sizes=[2, 2])
    inputs = [
        {"x": np.ones((4, 6), np.float32), "n": np.full(3, each, np.int32),
         "m": np.full(2, each, np.int32)}
        for each in (-7, 0, 3)
    ]  # fmt: skip
    runs = [systolic.run(builder.graph(), ideal_chip(4, 4), each) for each in inputs]
    assert len({run.cycles for run in runs}) == 1
    found = [each.get("any_numbers_in") for each in runs[0].summary["operations"]]
    assert found == ["n", "m"]
    text = any_numbers_text(runs[0].summary)
    assert text == "are for any numbers of places (g by n, s by m): they never depend on values"
    assert not any_numbers_text({"operations": [{"name": "y"}]})
