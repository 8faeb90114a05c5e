"""When may the next instruction of a queue start? Dispatch and least intervals, worked by hand.

Section 3 of the timing model, on both engines. The 4 x 4 array loads 4 columns in 4 cycles; moving
vectors and weights lie in different banks, so nothing is refused.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.isa import Buffer, Copy, DmaCopy, LoadWeights, MatMul, Memset, Program
from systolic.isa.access import Access
from systolic.machine import simulate

MOVING, TARGET = 8192, 16384

LOAD = LoadWeights(weights=state(0, 4, 0, 4))


def multiply(vectors: int) -> MatMul:
    return MatMul(moving=state(0, 4, MOVING, vectors), result=psum(0, 4, 0, vectors))


def copy(elements: int, lanes: tuple[int, int] = (0, 4)) -> Copy:
    first, count = lanes
    return Copy(
        engine="activation",
        source=state(first, count, 0, elements),
        target=state(first, count, TARGET, elements),
    )


def transfer(words: int) -> DmaCopy:
    dram = Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, words),))
    return DmaCopy(dma_queue=0, source=dram, target=state(0, 1, 0, words))


def starts(engine: Any, instructions: tuple[Any, ...], **tables: Any) -> list[int]:
    """Return the cycle in which each instruction starts."""
    chip = ideal_chip(4, 4, **{"activation": {"independent_lanes": False}, **tables})
    trace = simulate(chip, Program("starts", instructions), engine=engine).trace
    return [times.start for times in trace.times]


ARRAY = (LOAD, multiply(6), LOAD)
both = pytest.mark.parametrize("engine", ["event", "register"])


@both
@pytest.mark.parametrize(
    ("cycles", "expected"),
    [
        (0, [0, 4, 4]),  # the second load with the first injection
        (1, [0, 4, 5]),  # the first load is longer than its dispatch: the multiply is not late
        (4, [0, 4, 8]),
        (7, [0, 7, 14]),
    ],
)
def test_dispatch_shows_behind_shorter_instructions_only(engine, cycles, expected):
    assert starts(engine, ARRAY, pe_array={"dispatch_cycles": cycles}) == expected


@both
def test_serial_dispatch_is_added_to_every_instruction(engine):
    serial = {"dispatch_cycles": 2, "dispatch": "serial"}
    # They could start in 0, in 6 behind the reads of 2 to 5, and in 8 with the first injection.
    assert starts(engine, ARRAY, pe_array=serial) == [2, 8, 10]


@both
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, [0, 3, 4]),
        ({"dispatch_cycles": 2}, [0, 3, 5]),
        ({"dispatch_cycles": 9}, [0, 9, 18]),
        ({"dispatch_cycles": 2, "dispatch": "serial"}, [2, 7, 10]),
        # From start to start; of the two bounds the later holds.
        ({"dispatch_cycles": 2, "min_interval_cycles": 5}, [0, 5, 10]),
        ({"dispatch_cycles": 6, "min_interval_cycles": 5}, [0, 6, 12]),
        # The interval from 2 is over in 7, dispatch in 9; that from 9 in 14, dispatch in 16.
        ({"dispatch_cycles": 2, "dispatch": "serial", "min_interval_cycles": 5}, [2, 9, 16]),
    ],
)  # fmt: skip
def test_an_engine(engine, keys, expected):
    """Copies of 3, 1 and 1 elements a lane, one element per cycle."""
    keys = {"independent_lanes": False, **keys}
    assert starts(engine, (copy(3), copy(1), copy(1)), activation=keys) == expected


@both
def test_dispatch_holds_back_disjoint_lanes_too(engine):
    instructions = tuple(copy(9, (lane, 1)) for lane in range(3))
    for cycles, expected in ((0, [0, 1, 2]), (4, [0, 4, 8])):
        keys = {"independent_lanes": True, "dispatch_cycles": cycles}
        assert starts(engine, instructions, activation=keys) == expected


@both
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, [0, 9, 12]),
        ({"dispatch_cycles": 5}, [0, 9, 14]),
        ({"dispatch_cycles": 5, "dispatch": "serial"}, [5, 19, 27]),
    ],
)
def test_a_dma_queue(engine, keys, expected):
    """Copies of 32, 8 and 8 bytes at 4 bytes per cycle, 1 cycle of latency: 9, 3 and 3 cycles."""
    dma = {"bytes_per_cycle": 4, "latency_cycles": 1, **keys}
    assert starts(engine, (transfer(8), transfer(2), transfer(2)), dma=dma) == expected


@both
@pytest.mark.parametrize(
    ("interval", "instructions", "expected"),
    [
        (2, (LOAD, multiply(2), multiply(2)), [0, 4, 6]),
        (5, (LOAD, multiply(2), multiply(2)), [0, 4, 9]),
        (5, (LOAD, multiply(7), multiply(2)), [0, 4, 11]),
        (5, (LOAD, multiply(2), LOAD, multiply(2)), [0, 4, 4, 9]),  # a load is not held back
        (3, (LOAD, multiply(2), LOAD, multiply(2)), [0, 4, 4, 8]),
    ],
)
def test_multiplies_start_no_closer_than_their_interval(engine, interval, instructions, expected):
    assert starts(engine, instructions, pe_array={"min_interval_cycles": interval}) == expected


@both
def test_a_multiply_that_is_held_back_started_when_it_first_asked(engine):
    """A fill has the bank of the moving vectors' results until cycle 8: D = 0, one row of cells."""
    chip = ideal_chip(
        1, 4, pe_array={"min_interval_cycles": 5}, activation={"independent_lanes": False},
        port_priority=("activation", "moving", "weights", "pooling", "dma"),
    )  # fmt: skip
    fill = Memset(engine="activation", target=psum(0, 4, 100, 8), value=0)
    work = [
        MatMul(moving=state(0, 1, MOVING, 2), result=psum(0, 4, row, 2)) for row in (0, 8)
    ]  # fmt: skip
    program = Program("held", (fill, LoadWeights(weights=state(0, 1, 0, 4)), *work))
    times = simulate(chip, program, engine=engine).trace.times
    # The fill writes in cycles 1 to 8. The first multiply asks from 4 on and injects in 9 and 10,
    # the second could have started in 9 by the interval and does in 11, behind the first.
    assert [(t.start, t.first) for t in times[2:]] == [(4, 9), (11, 11)]


@both
def test_the_time_until_dispatch_is_over_is_waiting_for_issue(engine):
    chip = ideal_chip(4, 4, activation={"independent_lanes": False, "dispatch_cycles": 4})
    trace = simulate(chip, Program("labels", (copy(1), copy(1))), engine=engine).trace
    assert [(run.first, run.stop, run.label) for run in trace.labels["activation"]] == [
        (0, 1, "streaming"),
        (1, 2, "draining"),
        (2, 4, "waiting for issue"),
        (4, 5, "streaming"),
        (5, 6, "draining"),
    ]
