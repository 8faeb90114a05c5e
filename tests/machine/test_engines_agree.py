"""Is the cycle right? Event and register engine on the same random programs: same trace, same bits.

They share no timing code: one computes with schedules, the other steps every register. The chips
are random in every number; the programs load, multiply, accumulate, copy, fill, calculate and
transfer, wait for one another, and fight for ports.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from sim.hw.spec import Chip
from sim.isa import Copy, LoadWeights, MatMul, Memset, Post, Program, TensorTensor, Wait
from sim.machine import Memory, Outcome, simulate
from sim.machine.event import run_event
from sim.machine.event.traffic import plan_of
from sim.trace.record import Recorder
from sim.trace.words import KINDS
from support.blocks import psum, state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from support.random_programs import RandomProgram, random_chip
from support.random_transfers import random_organisation
from support.tiers import quick_first

QUICK, MANY = 120, 4000
TARGET = 8192


def _program(seed: int, length: int = 25, largest: int = 6, elementwise: bool = False):
    rng = Random(seed)
    chip = random_chip(rng, clocks=seed % 3 == 0, largest=largest)
    made = RandomProgram(rng, chip, elementwise=elementwise).build(rng.randint(3, length))
    return chip, *made


def _compare(
    seed: int, length: int = 25, largest: int = 6, elementwise: bool = False, banks: bool = False
) -> int:
    """Compare both engines; return the cycles simulated. banks: DRAM has channels and banks."""
    chip, program, images = _program(seed, length, largest, elementwise)
    if banks:
        parts = chip.model_dump()
        parts["dram"] |= random_organisation(Random(seed))
        chip = Chip.model_validate(parts)
    event = simulate(chip, program, images, kinds=KINDS)
    register = simulate(chip, program, images, kinds=KINDS, engine="register")
    assert_same(event, register)
    return event.trace.cycles()


@pytest.mark.parametrize("seed", quick_first(range(QUICK), 50))
def test_random_programs(seed):
    _compare(seed)


@pytest.mark.parametrize("seed", quick_first(range(QUICK), 50))
def test_random_programs_with_arithmetic_in_the_engines(seed):
    _compare(seed, length=40, elementwise=True)


@pytest.mark.parametrize("seed", quick_first(range(20_000, 20_060), 25))
def test_random_programs_whose_dram_has_channels_and_banks(seed):
    _compare(seed, elementwise=seed % 2 == 0, banks=True)


def test_the_arithmetic_is_of_every_kind_and_finds_its_operands_in_one_bank_too():
    """Each instruction occurs, contends, and pairs of operands take one slot and two."""
    seen, stalled, slots = Counter(), Counter(), Counter()
    for seed in range(QUICK):
        chip, program, images = _program(seed, 40, elementwise=True)
        trace = simulate(chip, program, images, values=False).trace
        kinds = [type(i).__name__ for i in program.instructions]
        seen.update(kinds)
        stalled.update(kinds[stall.instruction] for stall in trace.stalls)
        for instruction in program.instructions:
            if isinstance(instruction, TensorTensor):
                engine = getattr(chip, instruction.engine)
                groups = -(-instruction.target.elements // engine.elements_per_cycle)
                cost = plan_of(instruction, engine, chip).steps
                slots["one" if cost == groups else "two" if cost == 2 * groups else "both"] += 1
    kinds = ("Activate", "Pool", "TensorTensor", "TensorScalar", "Iota", "Select")
    assert min(seen[kind] for kind in kinds) > QUICK / 3, seen
    assert min(stalled[kind] for kind in kinds) > 0, stalled
    assert min(slots["one"], slots["two"]) > QUICK / 4, slots
    assert slots["both"] > 0, slots


@pytest.mark.parametrize("seed", range(10_000, 10_006))
def test_larger_arrays(seed):
    _compare(seed, length=15, largest=40)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_a_million_cycles(part):
    """Both engines agree over more than a million cycles of contention in all."""
    seeds = range(QUICK + part, QUICK + MANY, 8)
    cycles = sum(
        _compare(seed, length=60, elementwise=seed % 2 == 0, banks=seed % 3 == 0) for seed in seeds
    )
    assert cycles > 1_000_000 / 8


@pytest.mark.parametrize("rows", [1, 4])
def test_a_multiply_that_is_held_back_holds_no_port_ahead_of_time(rows):
    """A fill of the bank the multiply writes goes on while a copy keeps the multiply waiting."""
    priority = ("pooling", "moving", "weights", "activation", "dma")
    chip = ideal_chip(rows, 4, port_priority=priority, pooling={"latency_cycles": 9})
    program = Program(
        "held",
        (
            LoadWeights(weights=state(0, rows, 0, 4)),
            MatMul(
                moving=state(0, rows, 64, 30), result=psum(0, 4, 0, 30), posts=(Post(0, "row"),)
            ),
            Memset(engine="activation", target=psum(0, 4, 40, 20), value=1, waits=(Wait(0, 2),)),
            Copy(
                engine="pooling",
                source=state(0, 1, 512, 25),
                target=state(0, 1, TARGET, 25),
                waits=(Wait(0, 5),),
            ),
        ),
        ("rows",),
    )
    event = simulate(chip, program, kinds=KINDS)
    assert_same(event, simulate(chip, program, kinds=KINDS, engine="register"))
    _, multiply, fill, copy = event.trace.times
    assert copy.start < fill.done <= copy.last + 1 < multiply.done


@pytest.mark.parametrize("seed", quick_first(range(40), 15))
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
