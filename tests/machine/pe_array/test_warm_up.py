"""Is a cold array slow, for as long as it must be, and cold again after a rest? By hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.config import load_chip
from systolic.hw.formulas.warm_up import MadeMultiply, slow_multiplies
from systolic.isa import LoadWeights, MatMul, Memset, PassThrough, Post, Program, Wait
from systolic.machine import simulate
from systolic.shipped import CHIPS

both = pytest.mark.parametrize("engine", ["event", "register"])
MOVING, ELSEWHERE = 8192, 32768
LOAD = LoadWeights(weights=state(0, 4, 0, 4))


def multiply(row: int, waits: tuple[Wait, ...] = (), kind: Any = MatMul, cols: int = 4) -> Any:
    return kind(moving=state(0, 4, MOVING, 4), result=psum(0, cols, row, 4), waits=waits)


def injections(engine: Any, program: Program, **array: Any) -> list[list[int]]:
    """Return the cycles in which each multiply's vectors are injected."""
    chip = ideal_chip(4, 4, pe_array=array)
    outcome = simulate(chip, program, engine=engine, kinds=("inject",))
    rows = outcome.trace.words.of("inject").rows
    return [
        sorted(set(rows["tick"][rows["instruction"] == number].tolist()))
        for number in sorted(set(rows["instruction"].tolist()))
    ]


def after_a_rest(elements: int) -> Program:
    """Return three multiplies, and two that wait until so many elements have been written."""
    fill = Memset(
        engine="activation", target=state(0, 1, ELSEWHERE, elements), value=1, posts=(Post(0),)
    )
    work = [multiply(0), multiply(4), multiply(8), multiply(12, (Wait(0, 1),)), multiply(16)]
    return Program("rest", (fill, LOAD, *work), ("s0",))


FIRST = [[4, 6, 8, 10], [12, 13, 14, 15], [16, 17, 18, 19]]
"""The load reads in 0 to 3. Cold from 4 on; 8 cycles later it is warm."""


@both
@pytest.mark.parametrize(
    ("elements", "rest"),
    [
        # The last write is in cycle 23, so the fourth starts in 24: of 16 to 23 half were busy.
        (23, [[24, 25, 26, 27], [28, 29, 30, 31]]),
        # In 25: of 17 to 24 three were. It is cold again, until 33.
        (24, [[25, 27, 29, 31], [33, 34, 35, 36]]),
    ],
)
def test_the_array_warms_up_and_cools_down(engine: Any, elements: int, rest: Any) -> None:
    program = after_a_rest(elements)
    assert injections(engine, program, warm_up_cycles=8) == FIRST + rest


@both
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, [[4, 5, 6, 7], [8, 9, 10, 11]]),
        ({"warm_up_cycles": 9}, [[4, 6, 8, 10], [12, 14, 16, 18]]),  # warm from 13 on
        ({"warm_up_cycles": 8, "warm_up_factor": 3}, [[4, 7, 10, 13], [16, 17, 18, 19]]),
        ({"warm_up_cycles": 8, "warm_up_factor": 1}, [[4, 5, 6, 7], [8, 9, 10, 11]]),
        ({"warm_up_cycles": 1, "cycles_per_vector": {"f32": 2}},
         [[4, 8, 12, 16], [20, 22, 24, 26]]),
        # Eight vectors at least, of twice the length: the next starts in 20.
        ({"warm_up_cycles": 99, "min_vectors": 4, "passes": {"f32": 2}},
         [[4, 6, 8, 10, 12, 14, 16, 18], [20, 22, 24, 26, 28, 30, 32, 34]]),
    ],
)  # fmt: skip
def test_two_multiplies(engine: Any, keys: Any, expected: Any) -> None:
    program = Program("two", (LOAD, multiply(0), multiply(4)))
    assert injections(engine, program, **keys) == expected


@both
def test_the_least_length_of_a_multiply_is_slow_too(engine: Any) -> None:
    """One vector of a multiply holds the array for four of them: 8 cycles cold, 4 warm."""
    ones = [MatMul(moving=state(0, 4, MOVING, 1), result=psum(0, 4, row, 1)) for row in range(4)]
    program = Program("ones", (LOAD, *ones))
    found = injections(engine, program, warm_up_cycles=6, min_vectors=4)
    # Busy is only the time of the one vector, 2 cycles of the last 6: the array stays cold.
    assert found == [[4], [12], [20], [28]]
    assert injections(engine, program, min_vectors=4) == [[4], [8], [12], [16]]


@both
def test_what_passes_through_is_slow_too(engine: Any) -> None:
    program = Program("through", (LOAD, multiply(0, kind=PassThrough), multiply(4)))
    keys = {"warm_up_cycles": 8, "pass_through": {"f32": 3}}
    assert injections(engine, program, **keys) == [[4, 10, 16, 22], [28, 29, 30, 31]]


@both
def test_the_first_microseconds_of_the_third_generation(engine: Any) -> None:
    """3 us of 2.4 GHz are 7200 cycles: eight products of 512 columns take 1024 cycles each."""
    chip = load_chip(CHIPS / "neuroncore_v3.toml")
    array = chip.pe_array.model_copy(update={"warm_up_cycles": 7200})
    cold = chip.model_copy(update={"pe_array": array})
    load = LoadWeights(weights=state(0, 128, 0, 128, "bf16"))
    one = MatMul(moving=state(0, 128, 65536, 512, "bf16"), result=psum(0, 128, 0, 512))
    program = Program("chain", (load, *[one] * 11))
    trace = simulate(cold, program, engine=engine, values=False).trace
    starts = [times.start // cold.period("pe_array") for times in trace.times][1:]
    assert [b - a for a, b in pairwise(starts)] == [1024] * 8 + [512] * 2


def test_told_from_when_they_were_made() -> None:
    """The worked case again, as critical paths have it."""
    array = ideal_chip(4, 4, pe_array={"warm_up_cycles": 8}).pe_array
    made = [MadeMultiply(each[0], each[-1], 1) for each in [*FIRST, [25, 31], [33, 36]]]
    assert slow_multiplies(array, made) == [True, False, False, True, False]
