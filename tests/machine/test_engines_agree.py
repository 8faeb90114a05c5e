"""Is the cycle right? Event and register engine on the same random programs: same trace, same bits.

They share no timing code: one computes with schedules, the other steps every register. The chips
are random in every number; the programs load, multiply, accumulate, copy, fill and transfer, wait
for one another, and fight for ports.
"""

from __future__ import annotations

from random import Random

import pytest

from sim.machine import Memory, Outcome, simulate
from sim.machine.event import run_event
from sim.trace.record import Recorder
from sim.trace.words import KINDS
from support.compare_traces import assert_same
from support.random_programs import RandomProgram, random_chip

QUICK, MANY = 120, 4000


def _program(seed: int, length: int = 25, largest: int = 6):
    rng = Random(seed)
    chip = random_chip(rng, clocks=seed % 3 == 0, largest=largest)
    return chip, *RandomProgram(rng, chip).build(rng.randint(3, length))


def _compare(seed: int, length: int = 25, largest: int = 6) -> int:
    """Compare both engines; return the cycles simulated."""
    chip, program, images = _program(seed, length, largest)
    event = simulate(chip, program, images, kinds=KINDS)
    register = simulate(chip, program, images, kinds=KINDS, engine="register")
    assert_same(event, register)
    return event.trace.cycles()


@pytest.mark.parametrize("seed", range(QUICK))
def test_random_programs(seed):
    _compare(seed)


@pytest.mark.parametrize("seed", range(10_000, 10_006))
def test_larger_arrays(seed):
    _compare(seed, length=15, largest=40)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_a_million_cycles(part):
    """Both engines agree over more than a million cycles of contention in all."""
    cycles = sum(_compare(seed, length=60) for seed in range(QUICK + part, QUICK + MANY, 8))
    assert cycles > 1_000_000 / 8


@pytest.mark.parametrize("seed", range(40))
def test_the_order_of_units_does_not_matter(seed):
    """Building the units in any order gives the same trace."""
    chip, program, images = _program(seed)
    first = simulate(chip, program, images, kinds=KINDS)
    for order in range(3):
        memory = Memory(chip, program, images)
        recorder = Recorder(chip.units, frozenset(KINDS))
        trace = run_event(chip, program, memory, recorder, shuffle=Random(order))
        assert_same(first, Outcome(trace, memory))


def test_random_programs_do_contend():
    """The programs above are worth comparing: most of them lose cycles at ports."""
    contended = 0
    for seed in range(QUICK):
        chip, program, images = _program(seed)
        contended += bool(simulate(chip, program, images).trace.stalls)
    assert contended > QUICK / 2
