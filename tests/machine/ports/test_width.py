"""How much passes a port in a cycle? `port_bytes`, section 5, by hand and on both engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import able_chip, ideal_chip
from support.compare_traces import assert_same
from systolic.hw.spec import Chip
from systolic.isa import (
    Copy,
    Instruction,
    LoadDoubleRow,
    LoadWeights,
    LocalGather,
    MatMul,
    MatMulDoubleRow,
    Pool,
    Program,
    TensorScalar,
    TensorTensor,
)
from systolic.machine import Image, Memory, Outcome, simulate
from systolic.machine.register import run_register
from systolic.trace.recorder import Recorder
from systolic.trace.records import Trace
from systolic.trace.words import KINDS

TARGET = 16384


def run(chip: Chip, *instructions: Instruction) -> Trace:
    program = Program("width", instructions)
    event = simulate(chip, program, kinds=KINDS)
    assert_same(event, simulate(chip, program, kinds=KINDS, engine="register"))
    return event.trace


def chip_of(port_bytes: int | None, **tables: Any) -> Chip:
    return ideal_chip(4, 8, **{"state_buffer": {"port_bytes": port_bytes}, **tables})


def load_reads(chip: Chip, rows: int, cols: int, dtype: str = "f32") -> int:
    """Return the cycles from the first read of a load to the injection that waits for its last."""
    total = "s32" if dtype == "s8" else "f32"
    trace = run(
        chip,
        LoadWeights(weights=state(0, rows, 0, cols, dtype)),
        MatMul(moving=state(0, rows, 8192, 1, dtype), result=psum(0, cols, 0, 1, total)),
    )
    assert trace.times[1].first == trace.times[0].last + 1
    return trace.times[1].first


TOP = [
    # 3 rows of 8 float32, 32 bytes: whole, in halves, in three parts of up to 3 columns
    (32, "f32", 1, 3), (None, "f32", 1, 3), (16, "f32", 1, 6), (12, "f32", 1, 9),
    # a float32 is never cut: 15 bytes are 3 columns
    (15, "f32", 1, 9),
    # rows of 8 bytes
    (8, "s8", 1, 3), (4, "s8", 1, 6),
    # two rows at a time, each through the port of its own partition
    (16, "f32", 2, 4), (32, "f32", 2, 2),
]  # fmt: skip


@pytest.mark.parametrize("scope", ["bank", "partition"])
@pytest.mark.parametrize(("port", "dtype", "fast", "reads"), TOP)
def test_a_row_from_the_top_takes_as_many_cycles_as_its_bytes_need(
    port: int | None, dtype: str, fast: int, reads: int, scope: str
) -> None:
    array = {"weight_path": "top", "fast_load": fast}
    state_buffer = {"port_bytes": port, "port_scope": scope}
    chip = ideal_chip(4, 8, state_buffer=state_buffer, pe_array=array)
    assert load_reads(chip, 3, 8, dtype) == reads


@pytest.mark.parametrize("hop", [(1, 1), (2, 3)])
@pytest.mark.parametrize("cell", [(1, 1), (2, 2), (1, 4)])
def test_each_part_of_a_row_enters_when_it_is_read(
    hop: tuple[int, int], cell: tuple[int, int]
) -> None:
    """(r, c) is read in cycle 3r + c // 3, and stands in its PE a distance later."""
    array = {"weight_path": "top", "hop": hop, "cell": cell, "weight_buffer": "single"}
    chip, numbers = chip_of(12, pe_array=array), np.arange(1, 33, dtype=np.float32).reshape(4, 8)
    multiply = MatMul(moving=state(0, 4, 8192, 5), result=psum(0, 8, 0, 5))
    program = Program("parts", (LoadWeights(weights=state(0, 4, 0, 8)), multiply))
    images = [Image(state(0, 4, 0, 8), numbers)]
    seen: dict[int, Any] = {}
    memory, recorder = Memory(chip, program, images), Recorder(chip.units, frozenset(KINDS), True)
    register = run_register(
        chip, program, memory, recorder,
        observer=lambda cycle, grid: seen.__setitem__(cycle, grid.weight.copy()),
    )  # fmt: skip
    event = simulate(chip, program, images, kinds=KINDS, grid=True)
    assert_same(event, Outcome(register, memory))
    assert max(seen) >= 3 * 3 + 2 + hop[0] * (3 // cell[0]) + hop[1] * (7 // cell[1])
    for cycle, weights in seen.items():
        for r, c in np.ndindex(4, 8):
            arrives = 3 * r + c // 3 + hop[0] * (r // cell[0]) + hop[1] * (c // cell[1])
            assert weights[r, c] == (numbers[r, c] if cycle >= arrives else 0), (cycle, r, c)
        assert np.array_equal(event.trace.grid.at(cycle).weight, weights)
    for word in event.trace.words.of("load").rows:
        assert word["tick"] == 3 * word["partition"] + word["address"] // 3


@pytest.mark.parametrize(
    ("port", "dtype", "reads"),
    [(16, "f32", 2), (None, "f32", 2), (8, "f32", 4), (8, "s8", 2), (4, "f32", 8), (4, "s8", 2)],
)
def test_columns_from_the_left(port: int | None, dtype: str, reads: int) -> None:
    """Four columns a cycle, or as many as pass the port: two float32 through 8 bytes."""
    assert load_reads(chip_of(port, pe_array={"fast_load": 4}), 3, 8, dtype) == reads


def steps(port: int | None, instruction: Instruction) -> int:
    chip = chip_of(port, pooling={"elements_per_cycle": 4})
    (times,) = run(chip, instruction).times
    return times.last - times.first + 1


def copy(source: Any, target: Any) -> Copy:
    return Copy(engine="pooling", source=source, target=target)


F32, S8 = state(0, 4, 0, 8), state(0, 4, 0, 8, "s8")
PSUM, WIDE, NARROW = psum(0, 4, 0, 8), state(0, 4, TARGET, 8), state(0, 4, TARGET, 8, "s8")
ENGINES = [
    # four elements a cycle, or as many as pass: 8 bytes are two float32
    (None, copy(F32, WIDE), 2), (16, copy(F32, WIDE), 2), (8, copy(F32, WIDE), 4),
    (4, copy(F32, WIDE), 8), (8, copy(S8, NARROW), 2),
    # the narrower of the two sides counts, and the result buffer has no such port
    (8, copy(S8, WIDE), 4), (8, copy(PSUM, NARROW), 2), (8, copy(PSUM, WIDE), 4),
    (8, copy(F32, psum(0, 4, 64, 8)), 4),
    # with a window of 2, four bytes read make two float32: one passes, so two bytes are read
    (4, Pool(function="max", window=2, source=S8, target=state(0, 4, TARGET, 4)), 4),
    (8, Pool(function="max", window=2, source=S8, target=state(0, 4, TARGET, 4)), 2),
    # two operands in banks of their own pass two ports; in one bank they take a step each
    (8, TensorTensor(engine="pooling", op="add", left=F32, right=state(0, 4, 8192, 8),
                     target=WIDE), 4),
    (8, TensorTensor(engine="pooling", op="add", left=F32, right=state(0, 4, 64, 8),
                     target=WIDE), 8),
    # an operand of one element per lane takes its step as ever
    (8, TensorScalar(engine="pooling", op="add", source=F32, scalar=state(0, 4, 8192, 1),
                     target=WIDE), 5),
]  # fmt: skip


@pytest.mark.parametrize(("port", "instruction", "expected"), ENGINES)
def test_engines(port: int | None, instruction: Instruction, expected: int) -> None:
    assert steps(port, instruction) == expected


def test_the_default_is_wide_enough_for_a_row_from_the_top() -> None:
    chip = ideal_chip(4, 128, pe_array={"weight_path": "top"}, dma={"bytes_per_cycle": 8})
    assert chip.state_buffer.port_bytes is None
    assert load_reads(chip, 4, 128) == 4


@pytest.mark.parametrize("path", ["left", "top"])
@pytest.mark.parametrize(("side", "fast"), [(1, 1), (4, 4), (4, 2)])
def test_the_default_is_wide_enough_for_double_rows(side: int, fast: int, path: str) -> None:
    """Two elements for each PE come in one read, of f columns from the left, of f rows on top."""
    array = {"double_row": {"f32": 1}, "fast_load": fast, "weight_path": path}
    chip = ideal_chip(side, side, pe_array=array, dma={"bytes_per_cycle": 4})
    load = LoadDoubleRow(weights=state(0, side, 0, 2 * side))
    multiply = MatMulDoubleRow(moving=state(0, side, 8192, 2), result=psum(0, side, 0, 1))
    trace = run(chip, load, multiply)
    assert trace.times[0].last == side // fast - 1
    assert trace.times[1].first == side // fast


def test_the_default_is_wide_enough_for_what_an_index_gives() -> None:
    """Of 64 elements for an index, of 4 bytes each, a cycle brings as many as the formula says.

    t e / (o + t e) * min(w / size, e) with o = 1000, t = 1, w = 4, e = 32 is 32 / 1032 of a cycle,
    so 33 elements are the fewest that take a cycle. Two such groups take ceil(2 x 33 x 32 / 1032).
    """
    gathers = {"index_cycles": 1000, "element_cycles": 1}
    chip = able_chip(1, 1, pooling={"gathers": gathers}, dma={"bytes_per_cycle": 4})
    gather = LocalGather(
        engine="pooling", source=state(0, 1, 0, 64), each=32, group=1,
        index=state(0, 1, 8192, 2, "s32"), target=state(0, 1, TARGET, 64),
    )  # fmt: skip
    assert run(chip, gather).times[0].last == 2
