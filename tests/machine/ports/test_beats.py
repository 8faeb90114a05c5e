"""Regular uses of a port against plain sets of ticks."""

from __future__ import annotations

import random

import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.isa import LoadWeights, MatMul, Program
from systolic.machine import simulate
from systolic.machine.event.ports import beats
from systolic.machine.event.ports.beats import Beats, covered_ticks, stretch


def ticks_of(uses: Beats) -> set[int]:
    begins = (uses.first + number * uses.distance for number in range(uses.times))
    return {tick for begin in begins for tick in range(begin, begin + uses.ticks)}


def drawn(numbers: random.Random) -> Beats:
    first, ticks = numbers.randrange(200), numbers.randrange(1, 9)
    if numbers.random() < 0.4:
        return stretch(first, first + ticks)
    return Beats(first, ticks, ticks + numbers.randrange(6), numbers.randrange(1, 12))


@pytest.mark.parametrize("at_once", [1, 2, 7, 1024])
def test_overlaps_are_counted_once(monkeypatch, at_once):
    monkeypatch.setattr(beats, "AT_ONCE", at_once)
    for seed in range(150):
        numbers = random.Random(seed)
        uses = [drawn(numbers) for _ in range(numbers.randrange(12))]
        assert covered_ticks(uses) == len(set().union(*map(ticks_of, uses))), seed


def test_the_use_near_a_tick_is_the_first_that_is_not_over():
    for seed in range(100):
        numbers = random.Random(seed)
        uses = drawn(numbers)
        begins = [uses.first + number * uses.distance for number in range(uses.times)]
        for tick in range(uses.first - 2, uses.stop + 3):
            left = [begin for begin in begins if begin + uses.ticks > tick]
            assert uses.near(tick) == ((left[0], left[0] + uses.ticks) if left else None)


@pytest.mark.parametrize("engine", ["event", "register"])
def test_a_vector_every_third_cycle_uses_ports_once_in_three(engine):
    """5 vectors, one in 3 cycles, on an array of one column: their sums leave one in 3 cycles."""
    chip = ideal_chip(2, 1, pe_array={"cycles_per_vector": {"f32": 3}})
    program = Program(
        "slow",
        (
            LoadWeights(weights=state(0, 2, 0, 1)),
            MatMul(moving=state(0, 2, 8192, 5), result=psum(0, 1, 0, 5)),
        ),
    )
    used = simulate(chip, program, engine=engine).trace.port_cycles
    moving_bank = 8192 // chip.state_buffer.bank_bytes
    assert used["state_buffer", moving_bank, "read"] == 5
    assert used["result_buffer", 0, "write"] == 5
