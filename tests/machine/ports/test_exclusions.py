"""Do engines that exclude one another take turns at a buffer? Worked by hand, both engines.

Engines read an element in each cycle, and write it 2 cycles later. Every access has a bank of
its own, so that no port of a bank is wanted twice.
"""

from __future__ import annotations

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from systolic.engine_kind import EngineKind
from systolic.isa import Access, Copy, Program
from systolic.machine import Image, simulate
from systolic.trace.records import EXCLUSIVE
from systolic.trace.words import KINDS

BANK = 8192
ENGINE = {"does": ["copy"], "latency_cycles": 2}
NAMES = ("vector", "scalar", "gpsimd")


def near(bank: int, count: int) -> Access:
    return state(0, 2, bank * BANK, count)


def chip_with(*exclusions: tuple[str, str, str], **tables):
    listed = [{"engines": [one, other], "buffer": buffer} for one, other, buffer in exclusions]
    return ideal_chip(4, 4, engines=dict.fromkeys(NAMES, ENGINE), exclusions=listed, **tables)


def copy(engine: str, source: Access, target: Access) -> Copy:
    return Copy(engine=engine, source=source, target=target)


def two(first: Copy, second: Copy) -> Program:
    return Program("two", (first, second))


BOTH = two(copy("vector", near(0, 3), near(1, 3)), copy("gpsimd", near(2, 3), near(3, 3)))
AT_STATE = ("vector", "gpsimd", "state_buffer")
# What is done when, and the stalls: (unit, tick, cycles, winner).
CASES = {
    "each has banks of its own": ((), BOTH, [(0, 2, 4), (0, 2, 4)], []),
    # vector uses the buffer in 0 to 4; gpsimd is refused in these and reads in 5, 6, 7.
    "one at a time in the state buffer": (
        (AT_STATE,), BOTH, [(0, 2, 4), (5, 7, 9)], [("gpsimd", 0, 5, "vector")]),
    "of another buffer nothing is said": (
        (("vector", "gpsimd", "result_buffer"),), BOTH, [(0, 2, 4), (0, 2, 4)], []),
    "of another engine nothing is said": (
        (("vector", "scalar", "state_buffer"),), BOTH, [(0, 2, 4), (0, 2, 4)], []),
    # One element: vector reads in 0 and writes in 2, so the buffer is free in 1. gpsimd reads its
    # first in 1, is refused in 2, reads in 3, and writes two of its own cycles behind: in 4 and 5.
    "between reading and writing the buffer is free": (
        (AT_STATE,),
        two(copy("vector", near(0, 1), near(1, 1)), copy("gpsimd", near(2, 2), near(3, 2))),
        [(0, 0, 2), (1, 3, 5)], [("gpsimd", 0, 1, "vector"), ("gpsimd", 2, 1, "vector")]),
    # Results are read in 0 to 2 by vector; scalar is refused there and goes on in 3.
    "one at a time in the result buffer, whose banks differ": (
        (("vector", "scalar", "result_buffer"),),
        two(copy("vector", psum(0, 2, 0, 3), near(1, 3)),
            copy("scalar", psum(0, 2, 2048, 3), near(2, 3))),
        [(0, 2, 4), (3, 5, 7)], [("scalar", 0, 3, "vector")]),
    # Two of one engine, one behind the other: the second reads while the first still writes.
    "an engine does not exclude itself": (
        (AT_STATE,),
        two(copy("vector", near(0, 3), near(1, 3)), copy("vector", near(0, 3), near(2, 3))),
        [(0, 2, 4), (3, 5, 7)], []),
}  # fmt: skip


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("case", CASES)
def test_turns_by_hand(case: str, engine: EngineKind) -> None:
    exclusions, program, expected, refused = CASES[case]
    trace = simulate(chip_with(*exclusions), program, engine=engine).trace
    assert [(time.first, time.last, time.done) for time in trace.times] == expected
    assert [(s.unit, s.tick, s.cycles, s.winner) for s in trace.stalls] == refused
    assert all(s.direction == EXCLUSIVE and s.place.endswith("buffer exclusive")
               for s in trace.stalls)  # fmt: skip


@pytest.mark.parametrize("engine", ["event", "register"])
def test_the_priority_list_decides(engine: EngineKind) -> None:
    order = ("moving", "weights", "gpsimd", "vector", "scalar", "dma")
    trace = simulate(chip_with(AT_STATE, port_priority=order), BOTH, engine=engine).trace
    assert [(time.first, time.done) for time in trace.times] == [(5, 9), (0, 4)]


def test_a_slow_clock_keeps_the_buffer_for_its_whole_cycle() -> None:
    """vector's cycle is 3 of gpsimd's: it has ticks 0-2 and 6-8, gpsimd reads in 3, 4 and 5.

    What gpsimd writes two cycles behind its reads would come in 5, in one cycle with its last read,
    then in 6, where it is refused until vector's cycle is over: 9 and 10.
    """
    engines = dict.fromkeys(NAMES, ENGINE) | {"vector": ENGINE | {"clock": "slow"}}
    chip = ideal_chip(
        4, 4, clock={"core": 3000, "slow": 1000}, engines=engines,
        exclusions=[{"engines": ["vector", "gpsimd"], "buffer": "state_buffer"}],
    )  # fmt: skip
    program = two(copy("vector", near(0, 1), near(1, 1)), copy("gpsimd", near(2, 3), near(3, 3)))
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    images = [Image(near(0, 1), values[:, :1]), Image(near(2, 3), values)]
    event, register = (
        simulate(chip, program, images, engine=kind, kinds=KINDS) for kind in ("event", "register")
    )
    assert_same(event, register)
    assert [(t.first, t.last, t.done) for t in event.trace.times] == [(0, 0, 6), (3, 5, 10)]
    assert np.array_equal(event.memory.read(near(3, 3)), values)
