"""Is the cycle right? Event and register engine on the same random programs: same trace, same bits.

They share no timing code: one computes with schedules, the other steps every register. The chips
are random in every number; the programs load, multiply, accumulate, copy, fill, calculate and
transfer, wait for one another, and fight for ports.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from support.random_programs import LATER_CAPABILITIES, RandomProgram, random_chip
from support.random_sequencing import sequenced
from support.random_transfers import random_organisation
from support.shared_posts import with_shared_posts
from support.tiers import quick_first
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import Copy, LoadWeights, MatMul, Memset, Post, Program, TensorTensor, Wait
from systolic.isa.opcodes import BY_CLASS
from systolic.machine import Image, Memory, Outcome, simulate
from systolic.machine.event import run_event
from systolic.machine.event.lane_engine.plan import plan_of
from systolic.machine.event.pe_array.row_order import SMALL_PRODUCTS
from systolic.machine.register.pe_array.multiply import MANY_PRODUCTS
from systolic.trace.recorder import Recorder
from systolic.trace.words import KINDS

QUICK, MANY = 120, 4000
TARGET = 8192


def _program(
    seed: int,
    length: int = 25,
    largest: int = 6,
    elementwise: bool = False,
    banks: bool = False,
    later: bool = False,
):
    rng = Random(seed)
    chip = random_chip(rng, clocks=seed % 3 == 0, largest=largest, engines=seed % 2 == 1)
    if banks:
        parts = chip.model_dump()
        parts["dram"] |= random_organisation(Random(seed))
        chip = Chip.model_validate(parts)
    if seed % 4 in (1, 2):
        chip = sequenced(chip, Random(seed))
    made = RandomProgram(rng, chip, elementwise=elementwise, later=later)
    program, images = made.build(rng.randint(3, length))
    if seed % 2:
        program = with_shared_posts(program, chip, Random(seed))
    return chip, program, images


def _compare(
    seed: int,
    length: int = 25,
    largest: int = 6,
    elementwise: bool = False,
    banks: bool = False,
    later: bool = False,
) -> int:
    """Compare both engines; return the cycles simulated. banks: DRAM has channels and banks."""
    chip, program, images = _program(seed, length, largest, elementwise, banks, later)
    event = simulate(chip, program, images, kinds=KINDS)
    register = simulate(chip, program, images, kinds=KINDS, engine="register")
    assert_same(event, register)
    return event.trace.cycles()


@pytest.mark.parametrize("seed", quick_first(range(QUICK), 16))
def test_random_programs(seed):
    _compare(seed)


@pytest.mark.parametrize("seed", quick_first(range(QUICK), 15))
def test_random_programs_with_arithmetic_in_the_engines(seed):
    _compare(seed, length=40, elementwise=True)


@pytest.mark.parametrize("seed", quick_first(range(30_000, 30_120), 15))
def test_random_programs_with_instructions_beyond_the_patents(seed):
    _compare(seed, length=60, elementwise=True, later=True)


@pytest.mark.slow
def test_instructions_beyond_the_patents_occur_and_contend():
    """Each of them does both in the programs above."""
    seen, stalled = Counter(), Counter()
    for seed in range(30_000, 30_120):
        chip, program, images = _program(seed, 60, elementwise=True, later=True)
        trace = simulate(chip, program, images, values=False).trace
        names = [BY_CLASS[type(i)].mnemonic for i in program.instructions]
        seen.update(names)
        stalled.update(names[stall.instruction] for stall in trace.stalls)
    assert min(seen[name] for name in LATER_CAPABILITIES) > 20, seen
    assert min(stalled[name] for name in LATER_CAPABILITIES) > 5, stalled


@pytest.mark.parametrize("seed", quick_first(range(20_000, 20_060), 8))
def test_random_programs_whose_dram_has_channels_and_banks(seed):
    _compare(seed, elementwise=seed % 2 == 0, banks=True)


def test_a_tick_decided_twice_does_not_cut_a_stall_in_two():
    """Seed 864: a copy ends in the middle of a stall, so its cycle is decided again."""
    _compare(864, length=60, elementwise=True, banks=True)


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
                engine = chip.engine(instruction.engine)
                groups = -(-instruction.target.elements // engine.elements_per_cycle)
                cost = plan_of(instruction, engine, chip).steps
                slots["one" if cost == groups else "two" if cost == 2 * groups else "both"] += 1
    kinds = ("Activate", "Pool", "TensorTensor", "TensorScalar", "Iota", "Select",
             "Requantise")  # fmt: skip
    assert min(seen[kind] for kind in kinds) > QUICK / 3, seen
    assert min(stalled[kind] for kind in kinds) > 0, stalled
    assert min(slots["one"], slots["two"]) > QUICK / 4, slots
    assert slots["both"] > 0, slots


def test_the_programs_wait_for_fetch_and_dispatch():
    """Half of the chips draw these keys, half of those that list engines too, and they show."""
    waited: Counter[str] = Counter()
    for seed in range(QUICK):
        chip, program, images = _program(seed, elementwise=True)
        trace = simulate(chip, program, images, values=False).trace
        waited.update({run.label for runs in trace.labels.values() for run in runs})
    assert waited["waiting for fetch"] > QUICK / 4, waited
    assert waited["waiting for issue"] > QUICK / 5, waited


@pytest.mark.parametrize("seed", range(10_000, 10_006))
def test_larger_arrays(seed):
    _compare(seed, length=15, largest=40)


@pytest.mark.parametrize(("dtype", "total"), [("f32", "f32"), ("s8", "s32")])
def test_work_large_enough_to_be_compiled(dtype, total):
    """In both engines; on a full array, weights changing, sums accumulating."""
    side, vectors, rng = 128, 512, np.random.default_rng(4)
    size = 4 if dtype == "f32" else 1
    moving = state(0, side, 65536, vectors, dtype)
    weights = [state(0, side, n * side * size, side, dtype) for n in range(7)]
    result = psum(0, side, 0, vectors, total)
    instructions = []
    for n, tile in enumerate(weights):
        instructions += [
            LoadWeights(weights=tile),
            MatMul(moving=moving, result=result, accumulate=n > 0),
        ]
    numpy = data_type(dtype).numpy
    images = [
        Image(a, (50 * rng.standard_normal((side, a.elements))).astype(numpy))
        for a in (moving, *weights)
    ]
    chip = ideal_chip(side, side, state_buffer={"bytes_per_partition": 131072})
    program = Program("large", tuple(instructions))
    assert program.products() >= max(SMALL_PRODUCTS, MANY_PRODUCTS)
    event = simulate(chip, program, images)
    assert_same(event, simulate(chip, program, images, engine="register"))


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


def _slow_accesses(seed: int):
    """Return a chip whose engines are slower than its array, and a program for one PSUM bank."""
    rng = Random(seed)
    parts = random_chip(rng, largest=4).model_dump()
    parts["clock"] = {"core": 1000, "slow": rng.choice([250, 200, 400]), "fast": 1400}
    parts["pe_array"]["clock"] = parts["dma"]["clock"] = "core"
    parts["activation"]["clock"] = "slow"
    parts["pooling"]["clock"] = rng.choice(["core", "slow", "fast"])
    parts["result_buffer"] |= {"banks": 1, "bank_bytes": 2048}
    chip = Chip.model_validate(parts)
    rows, cols = chip.pe_array.rows, chip.pe_array.cols
    steps: list = [LoadWeights(weights=state(0, rows, 0, cols))]
    for place in range(rng.randint(4, 14)):
        words, unit = rng.randint(1, 6), rng.choice(["array", "activation", "pooling"])
        target = psum(0, cols, 32 * place, words)
        if unit == "array":
            steps.append(MatMul(moving=state(0, rows, 64, words), result=target))
        elif rng.random() < 0.5:
            steps.append(Memset(engine=unit, target=target, value=place))
        else:
            steps.append(Copy(engine=unit, source=state(0, cols, 0, words), target=target))
    return chip, Program("slow", tuple(steps))


def test_sums_that_pass_over_the_accesses_of_slower_clocks():
    """Both name the same winner in each cycle, also when the sums have passed and left others."""
    behind_sums = 0
    for seed in range(QUICK):
        chip, program = _slow_accesses(seed)
        event = simulate(chip, program, kinds=KINDS)
        assert_same(event, simulate(chip, program, kinds=KINDS, engine="register"))
        for unit in ("activation", "pooling"):
            period = event.trace.periods[unit]
            mine = [s for s in event.trace.stalls if s.unit == unit]
            behind_sums += sum(
                (one.winner, one.tick + one.cycles * period) == ("moving", two.tick)
                and two.winner not in ("moving", unit)
                for one, two in pairwise(mine)
            )
    assert behind_sums > 5, behind_sums


def test_random_programs_do_contend():
    """The programs above are worth comparing: most of them lose cycles at ports."""
    contended = 0
    for seed in range(QUICK):
        chip, program, images = _program(seed)
        contended += bool(simulate(chip, program, images).trace.stalls)
    assert contended > QUICK / 2
