"""Are cycle and value right? The RTL against the closed formulas and against itself in two tools.

Every dump is compared register by register: operand, weight, shadow weight, sum and valid bit of
every PE in every cycle, all reads, injections, starts and writes of the result buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from rtl_formulas import same_as_formulas, same_bits, same_cycles, same_traces
from rtl_harness import Load, Mul, RtlConfig, RtlProgram, RtlTrace, Straps, Tool, simulate
from rtl_programs import random_config, random_program, random_state

pytestmark = pytest.mark.rtl

SMALL = {"state_words": 256, "result_words": 256}

# Every value of every parameter, and every pair that could interact; one Verilator build each.
ARRAYS = {
    "plain": RtlConfig(rows=4, columns=4, **SMALL),
    "one PE": RtlConfig(rows=1, columns=1, **SMALL),
    "one row": RtlConfig(rows=1, columns=5, number_format="float32", **SMALL),
    "one column, top": RtlConfig(rows=5, columns=1, weight_path="top", **SMALL),
    "float": RtlConfig(rows=5, columns=3, number_format="float32", **SMALL),
    "fast left": RtlConfig(rows=4, columns=7, fast=3, psum_write_latency=2, **SMALL),
    "fast top": RtlConfig(rows=7, columns=4, fast=4, weight_path="top", **SMALL),
    "single": RtlConfig(rows=5, columns=4, weight_buffer="single", entry_cycles=2, **SMALL),
    "single top": RtlConfig(rows=4, columns=5, weight_buffer="single", weight_path="top", **SMALL),
    "serial": RtlConfig(rows=4, columns=3, weight_buffer="serial", weight_path="top", **SMALL),
    "hops": RtlConfig(rows=4, columns=5, hop=(3, 2), entry_cycles=1, **SMALL),
    "cells": RtlConfig(rows=6, columns=4, cell=(3, 2), number_format="float32", **SMALL),
    "cells, hops, top": RtlConfig(
        rows=4,
        columns=6,
        cell=(2, 3),
        hop=(2, 3),
        entry_cycles=3,
        weight_path="top",
        fast=3,
        **SMALL,
    ),
    "slow vectors": RtlConfig(
        rows=3,
        columns=3,
        cycles_per_vector=4,
        number_format="float32",
        psum_write_latency=1,
        **SMALL,
    ),
    "middle": RtlConfig(rows=16, columns=12, number_format="float32", **SMALL),
}


@cache
def run(name: str, seed: int, tool: Tool) -> tuple[RtlProgram, RtlTrace]:
    """One random program on one of the arrays above; both comparisons use the same run."""
    rng = np.random.default_rng([seed, *name.encode()])
    config = ARRAYS[name]
    program = random_program(config, rng, instructions=16, vectors=max(12, config.columns))
    return program, simulate(config, program, tool)


@pytest.mark.parametrize("name", ARRAYS)
def test_every_register_in_every_cycle_follows_the_formulas(name: str, tool: Tool) -> None:
    for seed in range(4):
        program, trace = run(name, seed, tool)
        same_as_formulas(ARRAYS[name], program, trace)


@pytest.mark.parametrize("name", ARRAYS)
def test_verilator_and_icarus_dump_the_same(name: str, need: Callable[[str], str]) -> None:
    need("verilator")
    need("icarus")
    for seed in range(4):
        same_traces(run(name, seed, "verilator")[1], run(name, seed, "icarus")[1])


@pytest.mark.parametrize("batch", range(8))
def test_random_arrays_follow_the_formulas(batch: int, need: Callable[[str], str]) -> None:
    need("icarus")
    for seed in range(25 * batch, 25 * batch + 25):
        rng = np.random.default_rng([seed, 11])
        config = random_config(rng)
        program = random_program(config, rng)
        try:
            same_as_formulas(config, program, simulate(config, program, "icarus"))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {config}: {error}") from error


def test_the_random_programs_try_what_they_should() -> None:
    configs, programs = [], []
    for seed in range(200):
        rng = np.random.default_rng([seed, 11])
        configs.append(random_config(rng))
        programs.append(random_program(configs[-1], rng))
    muls = [i for p in programs for i in p.instructions if isinstance(i, Mul)]
    assert sum(m.accumulate for m in muls) > 200
    assert sum(m.not_before > 0 for m in muls) > 100
    assert sum(p.moving_refused.mean() > 0.4 for p in programs) > 50
    kinds = [[type(i) for i in p.instructions] for p in programs]
    pairs = [pair for k in kinds for pair in pairwise(k)]
    for pair in ((Load, Load), (Load, Mul), (Mul, Load), (Mul, Mul)):
        assert pairs.count(pair) > 80
    partial = [
        i.rows < c.rows and i.columns < c.columns
        for c, p in zip(configs, programs, strict=True)
        for i in p.instructions
    ]
    assert sum(partial) > 100


@pytest.mark.parametrize("batch", range(4))
def test_the_loops_are_the_netlist(batch: int, need: Callable[[str], str]) -> None:
    need("icarus")
    for seed in range(20 * batch, 20 * batch + 20):
        rng = np.random.default_rng([seed, 12])
        config = random_config(rng)
        program = random_program(config, rng)
        structural = simulate(replace(config, form="structural"), program, "icarus")
        same_as_formulas(config, program, structural)
        same_traces(structural, simulate(config, program, "icarus"))


@pytest.mark.parametrize("name", ["float", "fast left", "cells, hops, top", "single"])
def test_the_netlist_is_the_same_under_both_tools(name: str, need: Callable[[str], str]) -> None:
    need("verilator")
    need("icarus")
    config = replace(ARRAYS[name], form="structural")
    for seed in range(4):
        program, loops = run(name, seed, "icarus")
        same_traces(simulate(config, program, "verilator"), loops)
        same_traces(simulate(config, program, "icarus"), loops)


# ---- the worked example --------------------------------------------------------------------------

FIGURE_3 = {  # cycle: {(partition, row): value}; processing cycles 1 to 7 are cycles 7 to 13
    7: {(0, 0): 1},
    8: {(1, 0): 2, (0, 1): 5},
    9: {(2, 0): 3, (1, 1): 6, (0, 2): 9},
    10: {(3, 0): 4, (2, 1): 7, (1, 2): 10, (0, 3): 13},
    11: {(3, 1): 8, (2, 2): 11, (1, 3): 14},
    12: {(3, 2): 12, (2, 3): 15},
    13: {(3, 3): 16},
}


@pytest.mark.parametrize("number_format", ["int32", "float32"])
def test_the_transpose_of_figure_3(number_format: str, tool: Tool) -> None:
    config = RtlConfig(rows=4, columns=4, number_format=number_format, **SMALL)
    block = np.arange(1, 17).reshape(4, 4)
    program = RtlProgram(
        instructions=(
            Load(rows=4, columns=4),
            Mul(rows=4, columns=4, vectors=4, moving_address=4),
        ),
        state=np.hstack([block, np.eye(4)]).astype(config.operand_dtype),
    )
    trace = simulate(config, program, tool)
    assert trace.reads[:, 0].tolist() == [0, 1, 2, 3]
    assert trace.injections[:, 0].tolist() == [4, 5, 6, 7]
    table: dict[int, dict[tuple[int, int], int]] = {}
    for (cycle, partition, row), value in zip(trace.writes, trace.write_values, strict=True):
        table.setdefault(int(cycle), {})[int(partition), int(row)] = int(value)
    assert table == FIGURE_3


# ---- totals that follow from the rules -----------------------------------------------------------


def tiles(config: RtlConfig, count: int, vectors: int, seed: int = 0) -> RtlProgram:
    """`count` load-multiply pairs of full tiles of different weights, none of them 0."""
    rng = np.random.default_rng(seed)
    k, n = config.rows, config.columns
    state = rng.integers(1, 100, (k, count * (n + vectors)))
    queue: list[Load | Mul] = []
    for i in range(count):
        first = i * (n + vectors)
        queue.append(Load(rows=k, columns=n, address=first))
        queue.append(
            Mul(
                rows=k,
                columns=n,
                vectors=vectors,
                moving_address=first + n,
                result_address=i * vectors,
            )
        )
    return RtlProgram(instructions=tuple(queue), state=state.astype(config.operand_dtype))


@pytest.mark.parametrize("vectors", [3, 6, 9])
def test_steady_tiles_take_max_of_vectors_and_columns(
    vectors: int, need: Callable[[str], str]
) -> None:
    need("icarus")
    config = RtlConfig(rows=6, columns=6, **SMALL)
    trace = simulate(config, tiles(config, 4, vectors), "icarus", planes=False)
    assert np.diff(trace.starts[1::2]).tolist() == [max(vectors, 6)] * 3
    if vectors >= 6:
        assert np.diff(trace.injections[:, 0]).tolist() == [1] * (4 * vectors - 1)


def test_a_serial_tile_from_the_top_is_one_scale_sim_fold(need: Callable[[str], str]) -> None:
    need("icarus")
    config = RtlConfig(rows=5, columns=3, weight_path="top", weight_buffer="serial", **SMALL)
    trace = simulate(config, tiles(config, 3, 7), "icarus", planes=False)
    assert np.diff(trace.starts[0::2]).tolist() == [2 * 5 + 3 + 7 - 2] * 2


def test_results_of_a_tile_arrive_over_vectors_plus_columns_less_one_cycles(
    need: Callable[[str], str],
) -> None:
    need("icarus")
    config = RtlConfig(rows=3, columns=5, **SMALL)
    trace = simulate(config, tiles(config, 1, 7), "icarus", planes=False)
    assert trace.writes[-1, 0] - trace.writes[0, 0] + 1 == 7 + 5 - 1


# ---- tightness: one cycle earlier gives wrong values ---------------------------------------------

TIGHT = {
    "left": RtlConfig(rows=4, columns=4, **SMALL),
    "left, fast": RtlConfig(rows=4, columns=4, fast=2, **SMALL),
    "top": RtlConfig(rows=4, columns=4, weight_path="top", **SMALL),
    "top, fast": RtlConfig(rows=4, columns=4, weight_path="top", fast=2, **SMALL),
    "float": RtlConfig(rows=4, columns=4, number_format="float32", **SMALL),
    "deep": RtlConfig(rows=4, columns=6, hop=(2, 3), cell=(2, 2), entry_cycles=2, **SMALL),
}


def values_right(config: RtlConfig, program: RtlProgram, trace: RtlTrace) -> list[bool]:
    """For each multiply: are all its results the product of its own operands and weights?"""
    right = []
    loads, muls = program.instructions[0::2], program.instructions[1::2]
    for load, mul in zip(loads, muls, strict=True):
        vectors = slice(mul.moving_address, mul.moving_address + mul.vectors)
        operands = program.state[:, vectors].astype(np.int64)
        tile = program.state[:, load.address : load.address + load.columns].astype(np.int64)
        mine = (trace.writes[:, 2] >= mul.result_address) & (
            trace.writes[:, 2] < mul.result_address + mul.vectors
        )
        got = np.zeros((mul.vectors, mul.columns), np.int64)
        _, partition, address = trace.writes[mine].T
        got[address - mul.result_address, partition] = trace.write_values[mine]
        right.append(bool((got == operands.T @ tile).all()))
    return right


def cycles_of(rows: np.ndarray, instruction: int) -> np.ndarray:
    """The cycles of the reads or injections of one instruction."""
    return rows[rows[:, 1] == instruction, 0]


@pytest.mark.parametrize("buffer", ["double", "single", "serial"])
@pytest.mark.parametrize("name", TIGHT)
def test_a_multiply_one_cycle_before_its_weights_is_wrong(
    name: str, buffer: str, tool: Tool
) -> None:
    config = replace(TIGHT[name], weight_buffer=buffer)
    program = tiles(config, 2, 5)
    honest = simulate(config, program, tool)
    assert honest.starts[1] == cycles_of(honest.reads, 0)[-1] + 1
    assert values_right(config, program, honest) == [True, True]

    early = simulate(config, program, tool, straps=Straps(early_multiply=True))
    assert early.starts[1] == cycles_of(early.reads, 0)[-1]
    assert not values_right(config, program, early)[0]


@pytest.mark.parametrize("buffer", ["double", "single"])
@pytest.mark.parametrize("name", TIGHT)
def test_a_load_one_cycle_before_the_exchange_or_the_last_vector_is_wrong(
    name: str, buffer: str, tool: Tool
) -> None:
    config = replace(TIGHT[name], weight_buffer=buffer)
    program = tiles(config, 2, 5)
    vector = 0 if buffer == "double" else -1
    honest = simulate(config, program, tool)
    assert honest.starts[2] == cycles_of(honest.injections, 1)[vector]
    assert values_right(config, program, honest) == [True, True]

    early = simulate(config, program, tool, straps=Straps(early_load=True))
    assert early.starts[2] == cycles_of(early.injections, 1)[vector] - 1
    assert not values_right(config, program, early)[0]


# ---- the comparison sees what it must ------------------------------------------------------------


@pytest.mark.parametrize("strap", ["early_multiply", "early_load", "late_load"])
@pytest.mark.parametrize("buffer", ["double", "single"])
def test_a_rule_bent_by_one_cycle_turns_the_comparison_red(
    strap: str, buffer: str, tool: Tool
) -> None:
    config = replace(TIGHT["left"], weight_buffer=buffer)
    program = tiles(config, 2, 5)
    same_cycles(config, program, simulate(config, program, tool))
    bent = simulate(config, program, tool, straps=Straps(**{strap: True}))
    with pytest.raises(AssertionError, match="wanted"):
        same_cycles(config, program, bent)


def test_one_wrong_bit_anywhere_turns_the_comparison_red(need: Callable[[str], str]) -> None:
    need("icarus")
    config = TIGHT["left"]
    program = tiles(config, 2, 5)
    trace = simulate(config, program, "icarus")
    for name in ("moving", "weight", "shadow", "sum", "valid", "write_values"):
        plane = getattr(trace, name).copy()
        plane.reshape(-1)[plane.size // 2] ^= 1
        wrong = replace(trace, **{name: plane})
        with pytest.raises(AssertionError, match=name):
            same_as_formulas(config, program, wrong)
    for name in ("reads", "injections", "writes", "starts"):
        rows = getattr(trace, name).copy()
        rows.reshape(-1)[-1] += 1
        with pytest.raises(AssertionError, match=name):
            same_as_formulas(config, program, replace(trace, **{name: rows}))
    with pytest.raises(AssertionError, match="sum"):
        same_traces(trace, replace(trace, sum=trace.sum + 1))


def test_minus_zero_is_not_plus_zero_but_any_nan_is_nan() -> None:
    nans = np.array([0x7FC00000, 0xFF800001], np.uint32).view(np.float32)
    same_bits(nans[:1], nans[1:], "x")
    with pytest.raises(AssertionError, match="x"):
        same_bits(np.array([0.0], np.float32), np.array([-0.0], np.float32), "x")


# ---- values that only floats have ----------------------------------------------------------------


def test_a_stale_nan_never_shows_and_a_minus_zero_becomes_plus_zero(tool: Tool) -> None:
    config = RtlConfig(rows=3, columns=3, number_format="float32", **SMALL)
    state = np.zeros((3, 8), np.float32)
    state[:, :3] = np.nan
    state[:2, 3:6] = np.array([[-0.0, 2, 3], [4, 5, -0.0]])
    state[:2, 6:8] = np.eye(2)
    program = RtlProgram(
        instructions=(
            Load(rows=3, columns=3),
            Load(rows=2, columns=3, address=3),
            Mul(rows=2, columns=3, vectors=2, moving_address=6),
        ),
        state=state,
    )
    trace = simulate(config, program, tool)
    assert np.isnan(trace.weight[-1, 2]).all()
    result = np.zeros((2, 3), np.float32)
    result[trace.writes[:, 2], trace.writes[:, 1]] = trace.write_values
    same_bits(result, np.array([[0, 2, 3], [4, 5, 0]], np.float32), "result")
    same_as_formulas(config, program, trace)


def test_a_nan_spreads_over_its_column_only(tool: Tool) -> None:
    config = RtlConfig(rows=3, columns=3, number_format="float32", **SMALL)
    state = np.hstack([np.ones((3, 3)), np.eye(3)]).astype(np.float32)
    state[1, 1] = np.nan
    program = RtlProgram(
        instructions=(
            Load(rows=3, columns=3),
            Mul(rows=3, columns=3, vectors=3, moving_address=3),
        ),
        state=state,
    )
    trace = simulate(config, program, tool)
    result = np.zeros((3, 3), np.float32)
    result[trace.writes[:, 2], trace.writes[:, 1]] = trace.write_values
    assert np.isnan(result[:, 1]).all()
    assert (result[:, [0, 2]] == 1).all()


# ---- large arrays --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "columns", "number_format"),
    [(64, 64, "int32"), (64, 64, "float32"), (128, 64, "float32"), (128, 128, "int32")],
)
def test_large_arrays_follow_the_formulas(
    rows: int, columns: int, number_format: str, need: Callable[[str], str]
) -> None:
    need("verilator")
    config = RtlConfig(rows=rows, columns=columns, number_format=number_format)
    program = random_program(config, np.random.default_rng(rows), instructions=5, vectors=64)
    trace = simulate(config, program, "verilator")
    same_as_formulas(config, program, trace)


@pytest.mark.slow
def test_icarus_dumps_the_same_at_32_x_32(need: Callable[[str], str]) -> None:
    need("verilator")
    need("icarus")
    config = RtlConfig(rows=32, columns=32, number_format="float32")
    state = random_state(config, np.random.default_rng(5), 256)
    program = RtlProgram(
        instructions=(
            Load(rows=32, columns=32),
            Mul(rows=32, columns=32, vectors=40, moving_address=64),
            Load(rows=20, columns=30, address=7),
            Mul(rows=20, columns=30, vectors=40, moving_address=90, accumulate=True),
        ),
        state=state,
    )
    one = simulate(config, program, "verilator")
    same_traces(one, simulate(config, program, "icarus"))
