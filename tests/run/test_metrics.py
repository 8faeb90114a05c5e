"""The figures of a NeuronCore's profiler, against cases worked by hand on the 4 x 4 chip."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from support.chips import ideal_chip
from support.validation_rows import LOAD, MULTIPLY
from systolic.config import load_chip
from systolic.isa import Buffer, DmaCopy, Module, parse_text
from systolic.report.summary.metrics import metric_lines
from systolic.run.execute import run
from systolic.run.metrics import covered
from systolic.run.observe import observed
from systolic.shipped import CHIPS, RUNS
from systolic.trace.exports.observed import Observed
from systolic.trace.exports.perfetto import perfetto
from systolic.workload import GraphBuilder

CHIP = load_chip(CHIPS / "ideal_4x4.toml").model_copy(update={"metrics": True})
COPY = (
    "copy activation source=result_buffer[0:4]+0 f32 (1x3) "
    "target=state_buffer[0:4]+4096 f32 (1x3) wait s0>=1"
)
DMA = "dma q0 source=dram[0:1]+0 f32 (1x256) target=state_buffer[0:1]+8192 f32 (1x256)"


def module(*lines: str) -> Module:
    return parse_text("\n".join(["systolic program 1", 'semaphore s0 "s"', *lines]))


def of_program(*lines: str) -> dict[str, float]:
    """Return the metrics of a program, run for its times."""
    return run(module(*lines), CHIP, values=False, check=False).summary["metrics"]


def product(home: str) -> dict[str, float]:
    """Return the metrics of a product of 4 x 4 matrices."""
    build = GraphBuilder(home)
    lhs, rhs = build.tensor("lhs", "f32[4,4]"), build.tensor("rhs", "f32[4,4]")
    build.matmul(lhs, rhs, "f32[4,4]", name="out")
    return run(build.graph(), CHIP, values=False).summary["metrics"]


def test_shares_of_the_time():
    """The sums are there after 13 cycles; then the engine reads in 13 to 15 and writes to 16."""
    found = of_program(LOAD, f"{MULTIPLY} post s0", COPY)
    assert found["tensor_engine_active_time_percent"] == pytest.approx(100 * 13 / 17)
    assert found["activation_engine_active_time_percent"] == pytest.approx(100 * 4 / 17)
    assert found["pooling_engine_active_time_percent"] == 0
    assert found["dma_active_time_percent"] == 0


def test_flops_of_a_program():
    """3 vectors by 4 x 4 weights are 96 operations; 16 PEs could make 32 in each of 17 cycles."""
    found = of_program(LOAD, f"{MULTIPLY} post s0", COPY)
    assert found["matmul_instruction_count"] == 1
    assert found["hardware_flops"] == 96
    assert found["hfu_estimated_percent"] == pytest.approx(100 * 96 / (32 * 17))
    assert "mfu_estimated_percent" not in found, "what a program is for is not known"
    assert "arithmetic_intensity" not in found, "nothing was moved"


def test_passes_of_a_multiply_are_counted_one_by_one():
    array = CHIP.pe_array.model_copy(update={"passes": {"f32": 2}})
    chip = CHIP.model_copy(update={"pe_array": array})
    summary = run(module(LOAD, MULTIPLY, MULTIPLY), chip, values=False, check=False).summary
    assert summary["instructions"]["MatMul"] == 2
    assert summary["metrics"]["matmul_instruction_count"] == 4


def test_memory_of_a_program():
    """600 + 42 cycles of latency, 7 for the descriptor, 1024 bytes at 53 a cycle: 20."""
    found = of_program(DMA, LOAD, MULTIPLY)
    assert found["dma_active_time_percent"] == 100
    assert found["dram_bytes"] == 1024
    assert found["mbu_estimated_percent"] == pytest.approx(100 * 1024 / (53 * 669))
    assert found["arithmetic_intensity"] == pytest.approx(96 / 1024)


def test_a_product_on_the_chip_turns_one_operand():
    """2 x 4 x 4 x 4 operations for the product, and as many for the identity's."""
    found = product("state_buffer")
    assert (found["model_flops"], found["transpose_flops"]) == (128, 128)
    assert found["hardware_flops"] == 256
    assert found["hfu_estimated_percent"] == 2 * found["mfu_estimated_percent"] > 0
    assert found["spill_bytes"] == 0


def test_a_product_in_dram_moves_three_matrices():
    found = product("dram")
    assert found["dram_bytes"] == 3 * 64
    assert found["arithmetic_intensity"] == pytest.approx(128 / 192)


def test_spilled_bytes_are_written_beside_the_result():
    """Three products of one tensor with little room: it leaves the state buffer and returns."""
    build = GraphBuilder("dram")
    x, w = build.tensor("x", "f32[8,8]{0,1}"), build.tensor("w", "f32[8,64]")
    y = build.matmul(x, w, "f32[8,64]", name="y")
    z = build.transpose(y, "f32[64,8]", (1, 0), name="z")
    build.matmul(z, y, "f32[64,64]", name="v")
    chip = ideal_chip(4, 4, state_buffer={"partitions": 4, "bytes_per_partition": 320, "banks": 1})
    result = run(build.graph(), chip.model_copy(update={"metrics": True}), values=False)
    copies = [each for each in result.program.instructions if isinstance(each, DmaCopy)]
    stored = sum(each.target.size_bytes for each in copies if each.target.buffer is Buffer.DRAM)
    assert result.summary["metrics"]["spill_bytes"] == stored - 64 * 64 * 4 > 0


def test_time_that_is_covered_twice_counts_once():
    assert covered([(5, 9), (0, 3), (2, 4), (6, 7)]) == 4 + 4
    assert covered([]) == 0


def test_a_chip_that_does_not_ask_has_none():
    chip = CHIP.model_copy(update={"metrics": False})
    assert "metrics" not in run(module(LOAD), chip, values=False, check=False).summary
    assert "metrics" not in run(RUNS / "transpose_fig3.toml", values=False).summary


def test_the_lines_of_the_table():
    found = {
        "tensor_engine_active_time_percent": 99.5, "dma_active_time_percent": 21.539,
        "matmul_instruction_count": 65536, "hfu_estimated_percent": 85.24,
        "mfu_estimated_percent": 80.0, "transpose_flops": 12, "mbu_estimated_percent": 4.0,
        "arithmetic_intensity": 682.667, "spill_bytes": 1,
    }  # fmt: skip
    assert list(metric_lines(found)) == [
        ("active", "tensor 99.50 %, dma 21.54 %"),
        ("array", "65,536 matmul instructions, HFU 85.24 %, MFU 80.00 %, 12 FLOPs of transposes"),
        ("memory", "MBU 4.00 %, 682.7 FLOPs per byte, 1 byte spilled"),
    ]  # fmt: skip


def test_loads_and_multiplies_have_tracks_of_their_own():
    made = observed(run(module(LOAD, MULTIPLY, MULTIPLY), CHIP, values=False, check=False))
    assert tracks_of(made) == {"Tensor": [0], "TensorMatrix": [1, 2]}
    assert tracks_of(replace(made, parts={})) == {"pe_array instructions": [0, 1, 2]}


def tracks_of(made: Observed) -> dict[str, list[int]]:
    """Return the instructions on the tracks of each name; tracks beside a track have its name."""
    events = json.loads("".join(perfetto(made)))["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found: dict[str, list[int]] = {}
    for event in events:
        if "instruction" in event.get("args", {}):
            name = names[event["tid"]].partition(" (")[0]
            found.setdefault(name, []).append(event["args"]["instruction"])
    return found
