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
from rtl_build import Tool
from rtl_formulas import same_as_formulas, same_bits, same_traces
from rtl_harness import Load, Mul, RtlConfig, RtlProgram, RtlTrace, simulate
from rtl_programs import (
    ARRAYS,
    QUICK_BUILDS,
    SMALL,
    random_config,
    random_program,
    random_state,
    with_tools,
)

from support.tiers import quick_first

pytestmark = pytest.mark.rtl
BUILDS = with_tools(ARRAYS, QUICK_BUILDS)
OTHERS = tuple(name for name in ARRAYS if name not in QUICK_BUILDS)


@cache
def run(name: str, seed: int, tool: Tool) -> tuple[RtlProgram, RtlTrace]:
    """One random program on one of the arrays above; both comparisons use the same run."""
    rng = np.random.default_rng([seed, *name.encode()])
    config = ARRAYS[name]
    program = random_program(config, rng, instructions=16, vectors=max(12, config.columns))
    return program, simulate(config, program, tool)


@pytest.mark.parametrize(("name", "tool"), BUILDS, indirect=["tool"])
def test_every_register_in_every_cycle_follows_the_formulas(name: str, tool: Tool) -> None:
    for seed in range(4):
        program, trace = run(name, seed, tool)
        same_as_formulas(ARRAYS[name], program, trace)


@pytest.mark.parametrize("name", quick_first(QUICK_BUILDS + OTHERS, len(QUICK_BUILDS)))
def test_verilator_and_icarus_dump_the_same(name: str, need: Callable[[str], str]) -> None:
    need("verilator")
    need("icarus")
    for seed in range(4):
        same_traces(run(name, seed, "verilator")[1], run(name, seed, "icarus")[1])


@pytest.mark.parametrize("batch", quick_first(range(8), 1))
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


@pytest.mark.parametrize("batch", quick_first(range(8), 1))
def test_the_loops_are_the_netlist(batch: int, need: Callable[[str], str]) -> None:
    need("icarus")
    for seed in range(10 * batch, 10 * batch + 10):
        rng = np.random.default_rng([seed, 12])
        config = random_config(rng)
        program = random_program(config, rng)
        structural = simulate(replace(config, form="structural"), program, "icarus")
        same_as_formulas(config, program, structural)
        same_traces(structural, simulate(config, program, "icarus"))


@pytest.mark.parametrize(
    "name", quick_first(["cells, hops, top", "single", "float", "fast left"], 1)
)
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
