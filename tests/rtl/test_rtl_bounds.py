"""Are the bounds exact, and would the comparison notice? Totals, tightness and bent rules.

The sequencer's straps bend one rule by one cycle each. Earlier must give wrong values in the RTL
(the bound is tight); earlier or later must turn the comparison with the formulas red.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from rtl_build import Tool
from rtl_formulas import same_as_formulas, same_bits, same_cycles, same_traces
from rtl_harness import Load, Mul, RtlConfig, RtlProgram, RtlTrace, Straps, simulate
from rtl_programs import with_tools

pytestmark = pytest.mark.rtl

SMALL = {"state_words": 256, "result_words": 256}

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

BUILDS = with_tools(TIGHT, ["left"])


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
@pytest.mark.parametrize(("name", "tool"), BUILDS, indirect=["tool"])
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
@pytest.mark.parametrize(("name", "tool"), BUILDS, indirect=["tool"])
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
