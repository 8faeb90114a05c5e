"""When do instructions start that must be fetched first? By hand, by formula, by a third model.

Section 3 of the timing model, on both engines. Fills of different banks keep out of each other's
way, so that nothing but fetch and the length of a fill decides.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from support.events import events_and_cycles
from support.fetch_reference import Timing, Work, reference
from support.tiers import quick_first
from systolic.errors import SimulationError
from systolic.hw.formulas.sequencing import stream_start
from systolic.isa import LoadWeights, MatMul, Memset, Program, Wait, encode, instruction_bytes
from systolic.isa.instruction import Instruction, Post
from systolic.machine import simulate

ENGINES = ("activation", "pooling")
both = pytest.mark.parametrize("engine", ["event", "register"])


def fill(unit: Any, elements: int = 1, **keys: Any) -> Memset:
    """Return a fill of 4 lanes; of another bank for each engine."""
    start = 8192 * (1 + ENGINES.index(unit))
    return Memset(engine=unit, target=state(0, 4, start, elements), value=0, **keys)


FILL_BYTES = instruction_bytes(fill("activation"))


def chip_of(slots: int, bytes_per_cycle: int, latency: int, **tables: Any) -> Any:
    fetch = {
        "buffer_instructions": slots,
        "bytes_per_cycle": bytes_per_cycle,
        "latency_cycles": latency,
    }
    lanes = {unit: {"independent_lanes": False, **tables.pop(unit, {})} for unit in ENGINES}
    return ideal_chip(4, 4, fetch=fetch, **lanes, **tables)


def rate_of(cycles: int) -> int:
    """Return the bytes per cycle with which a fill holds the path for that many cycles."""
    rate = -(-FILL_BYTES // cycles)
    assert -(-FILL_BYTES // rate) == cycles
    return rate


def starts(chip: Any, program: tuple[Instruction, ...], engine: Any) -> list[int]:
    trace = simulate(chip, Program("fetch", program), engine=engine).trace
    return [times.start for times in trace.times]


@pytest.mark.parametrize(
    "instruction",
    [
        fill("activation", posts=(Post(0),), waits=(Wait(0, 2), Wait(0, 1))),
        LoadWeights(weights=state(0, 4, 0, 4)),
        MatMul(moving=state(0, 4, 0, 4), result=psum(0, 4, 0, 4), posts=(Post(0, "row"),)),
    ],
)
def test_the_bytes_are_those_of_the_binary_form(instruction):
    once, twice = (encode(Program("p", (instruction,) * n, ("s",))) for n in (1, 2))
    assert len(twice) - len(once) == instruction_bytes(instruction)


@both
@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        (1, [7, 15, 23, 31, 39, 47]),
        (2, [7, 10, 15, 18, 23, 26]),
        (3, [7, 10, 13, 16, 19, 22]),
    ],
)
def test_one_queue(engine, slots, expected):
    """Each holds the path for 3 cycles, and 4 of latency follow."""
    chip = chip_of(slots, rate_of(3), 4)
    assert starts(chip, (fill("activation"),) * 6, engine) == expected


@both
def test_two_queues_in_turn(engine):
    chip = chip_of(1, rate_of(2), 0)
    program = tuple(fill(unit) for unit in (*ENGINES, *ENGINES))
    assert starts(chip, program, engine) == [2, 4, 6, 8]


@both
def test_a_slot_is_free_in_the_cycle_after_the_start(engine):
    chip = chip_of(1, rate_of(2), 0)
    program = tuple(fill(unit) for unit in ("activation", "pooling", "activation", "activation"))
    # The third fill of the activation engine: its slot is given up in cycle 6, taken in 7.
    assert starts(chip, program, engine) == [2, 4, 6, 9]


@both
def test_the_round_goes_on_behind_the_queue_served_last(engine):
    """The array comes first in the order, but has its turn only behind pooling and DMA."""
    chip = chip_of(2, 1000, 0)
    loads = tuple(LoadWeights(weights=state(0, 4, 0, 1)) for _ in range(2))
    program = (*loads, fill("activation"), fill("activation"), fill("pooling"), fill("pooling"))
    # One fetch a cycle: array, activation, pooling, array, activation, pooling.
    assert starts(chip, program, engine) == [1, 4, 2, 5, 3, 6]


@both
def test_several_starts_in_a_cycle_give_up_several_slots(engine):
    """A load and a multiply of other weights start together; both slots are filled anew."""
    chip = chip_of(2, 1000, 0)
    load = LoadWeights(weights=state(0, 4, 0, 4))
    first = LoadWeights(weights=state(0, 4, 0, 4))
    multiply = MatMul(moving=state(0, 4, 8192, 4), result=psum(0, 4, 0, 4))
    program = (first, multiply, load, multiply, load, multiply)
    # Fetched in 0 and 1; the load starts in 1, so the second load is fetched in 2. In cycle 5 the
    # multiply and that load start together; 6 and 7 fetch both of the next.
    assert starts(chip, program, engine) == [1, 5, 5, 9, 9, 13]


@both
def test_several_clocks(engine):
    chip = chip_of(
        1, 1000, 0, clock={"core": 1000, "own": 400}, activation={"clock": "own"}
    )  # fmt: skip
    assert chip.ticks_mhz == 2000
    assert starts(chip, (fill("activation"),) * 3, engine) == [5, 10, 15]


@both
def test_cycles_are_those_of_the_first_clock_even_if_no_unit_has_it(engine):
    units = {unit: {"clock": "own"} for unit in ("pe_array", "activation", "pooling", "dma")}
    chip = chip_of(1, rate_of(2), 3, clock={"core": 250, "own": 1000}, **units)
    # 2 + 3 cycles of 4 ticks. The slot given up in tick 20 is taken again in tick 24.
    assert starts(chip, (fill("activation"),) * 3, engine) == [20, 44, 68]
    assert ideal_chip(4, 4, clock={"core": 250, "own": 999}, **units).ticks_mhz == 999


@both
def test_serial_dispatch_begins_behind_the_fetch_and_keeps_the_slot(engine):
    serial = {"dispatch_cycles": 5, "dispatch": "serial"}
    chip = chip_of(1, rate_of(2), 0, activation=serial)
    # Fetched 0 to 1, dispatched 2 to 6, started in 7; fetched 8 to 9, dispatched 10 to 14.
    assert starts(chip, (fill("activation"),) * 2, engine) == [7, 15]


@both
def test_overlapped_dispatch_does_not_wait_for_the_fetch(engine):
    for cycles, second in ((3, 5), (4, 6)):
        chip = chip_of(1, rate_of(2), 0, activation={"dispatch_cycles": cycles})
        assert starts(chip, (fill("activation"),) * 2, engine) == [2, second]


@both
def test_what_the_head_waits_for(engine):
    """Its semaphores first, then its bytes, then its own unit."""
    chip = chip_of(1, rate_of(2), 4, activation={"min_interval_cycles": 22})
    late = fill("activation", waits=(Wait(0, 1),))
    program = Program(
        "labels", (late, fill("activation"), fill("pooling", posts=(Post(0),))), ("s",)
    )
    trace = simulate(chip, program, engine=engine).trace
    wide = -(-instruction_bytes(late) // rate_of(2))
    assert wide == 3
    # The first is fetched in 0 to 2 and could start in 7. The pooling fill is fetched in 3 and 4
    # (a post: 3 cycles), starts in 10, writes in 11, seen in 12. The second is fetched in 13 to 14
    # and there from 19 on; the interval is over in 34.
    assert [(run.first, run.stop, run.label) for run in trace.labels["activation"]] == [
        (0, 12, "waiting for pooling"),
        (12, 13, "streaming"),
        (13, 14, "draining"),
        (14, 19, "waiting for fetch"),
        (19, 34, "waiting for issue"),
        (34, 35, "streaming"),
        (35, 36, "draining"),
    ]
    assert [(run.first, run.stop, run.label) for run in trace.labels["pooling"]] == [
        (0, 10, "waiting for fetch"),
        (10, 11, "streaming"),
        (11, 12, "draining"),
        (12, 36, "idle"),
    ]


@both
@pytest.mark.parametrize("slots", [1, 2, 3, 5])
@pytest.mark.parametrize(("path", "latency"), [(1, 0), (2, 9), (4, 3)])
@pytest.mark.parametrize("interval", [1, 3, 7])
def test_a_long_stream_of_equal_instructions(engine, slots, path, latency, interval):
    chip, count = chip_of(slots, rate_of(path), latency), 41
    found = starts(chip, (fill("activation", interval),) * count, engine)
    assert found == [
        stream_start(chip.fetch, number, FILL_BYTES, interval) for number in range(count)
    ]
    in_the_long_run = max(interval, path, (path + latency + 1) / slots)
    assert abs((found[-1] - found[0]) / (count - 1) - in_the_long_run) < 1


@pytest.mark.parametrize("seed", quick_first(range(60), 15))
def test_against_a_model_that_steps(seed):
    """Both engines, and cycle by cycle with nothing but counters (`support.fetch_reference`)."""
    rng = Random(seed)
    timing = Timing(rng.randint(1, 4), rng.choice([10, 33, 60, 500]), rng.choice([0, 1, 5, 30]))
    chip = chip_of(*timing)
    queues: list[list[Instruction]] = [
        [fill(unit, rng.randint(1, 12), **_posts(rng)) for _ in range(rng.randint(1, 12))]
        for unit in ENGINES
    ]
    works = [
        [Work(instruction_bytes(one), one.target.elements) for one in queue]  # type: ignore[attr-defined]
        for queue in queues
    ]
    program = tuple(one for queue in queues for one in queue)
    expected = [start for queue in reference(timing, works) for start in queue]
    for engine in ("event", "register"):
        trace = simulate(
            chip, Program("p", program, ("s",)), engine=engine  # type: ignore[arg-type]
        ).trace  # fmt: skip
        assert [times.start for times in trace.times] == expected


def _posts(rng: Random) -> dict[str, Any]:
    """Return posts that nothing waits for: they make an instruction longer in the binary form."""
    return {"posts": (Post(0),) * rng.choice([0, 0, 1, 9])}


def test_fetch_costs_a_few_events_for_each_instruction():
    """And none for the cycles in which it waits, however many they are."""

    def count(latency: int) -> int:
        program = Program("p", (fill("activation"),) * 50)
        return events_and_cycles(chip_of(2, rate_of(3), latency), program)[0]

    assert count(100_000) <= count(1) + 50
    assert count(100_000) < 50 * 12


@both
def test_an_empty_program_takes_no_time(engine):
    assert simulate(chip_of(1, 1, 9), Program("empty", ()), engine=engine).trace.ticks == 0


@both
def test_a_deadlock_is_named_as_without_fetch(engine):
    program = Program("stuck", (fill("activation", waits=(Wait(0, 1),)), fill("pooling")), ("s",))
    with pytest.raises(SimulationError, match=r"deadlock.*activation.*semaphore 0 \(s\)"):
        simulate(chip_of(1, 10, 3), program, engine=engine)
