"""Are the register engine's activation and pooling engines on time? Section 4, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.isa import Copy, Memset, Program, Wait
from systolic.isa.instruction import Post
from systolic.machine import Image, simulate

TARGET = 8192
"""Targets lie in bank 1, sources in bank 0."""


def copy(elements, start=0, lanes=(0, 4), engine="activation", **keys):
    first, count = lanes
    return Copy(
        engine=engine,
        source=state(first, count, start, elements),
        target=state(first, count, TARGET + start, elements),
        **keys,
    )


def chip(engine="activation", **keys):
    return ideal_chip(4, 4, **{engine: {"independent_lanes": False, **keys}})


def schedule(chip, *instructions, semaphores=()):
    """Return (start, first read, last read, last write) of every instruction."""
    trace = simulate(chip, Program("engine", instructions, semaphores), engine="register").trace
    return [(t.start, t.first, t.last, t.done) for t in trace.times]


@pytest.mark.parametrize("engine", ["activation", "pooling"])
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, (0, 0, 6, 7)),
        ({"latency_cycles": 5}, (0, 0, 6, 11)),
        ({"elements_per_cycle": 3}, (0, 0, 2, 3)),
        ({"fixed_cycles": 4}, (0, 4, 10, 11)),
        ({"dispatch_cycles": 2}, (0, 0, 6, 7)),  # there is none before it
        ({"dispatch_cycles": 2, "dispatch": "serial"}, (2, 2, 8, 9)),
    ],
)
def test_a_copy_of_seven_elements_a_lane(engine, keys, expected):
    assert schedule(chip(engine, **keys), copy(7, engine=engine)) == [expected]


@pytest.mark.parametrize(
    ("keys", "second"),
    [
        ({}, (3, 3, 4, 5)),  # the cycle after the last read
        ({"fixed_cycles": 2}, (5, 7, 8, 9)),
        ({"min_interval_cycles": 10}, (10, 10, 11, 12)),
        ({"latency_cycles": 9}, (3, 3, 4, 13)),  # writes outstanding do not matter
    ],
)
def test_without_independent_lanes_the_next_one_waits_for_the_last_read(keys, second):
    assert schedule(chip(**keys), copy(3), copy(2, 64))[1] == second


@pytest.mark.parametrize(
    ("lanes", "start"),
    [((2, 2), 1), ((1, 2), 4), ((0, 4), 4)],  # disjoint: a cycle later; else after the last read
)
def test_independent_lanes_overlap_only_if_they_are_disjoint(lanes, start):
    found = schedule(chip(independent_lanes=True), copy(4, lanes=(0, 2)), copy(2, 64, lanes=lanes))
    assert found[1] == (start, start, start + 1, start + 2)


def test_an_older_one_that_still_reads_holds_its_lanes():
    found = schedule(
        chip(independent_lanes=True),
        copy(9, lanes=(0, 1)),
        copy(1, 64, lanes=(1, 1)),
        copy(1, 96, lanes=(0, 1)),
    )
    assert [start for start, *_ in found] == [0, 1, 9]


def test_a_memset_generates_its_elements():
    chip_ = chip(latency_cycles=2)
    target = psum(1, 2, 3, 5)
    program = Program("set", (Memset(engine="activation", target=target, value=2.5),))
    outcome = simulate(chip_, program, engine="register", kinds=["read", "write"])
    assert [(t.first, t.last, t.done) for t in outcome.trace.times] == [(0, 4, 6)]
    assert (outcome.memory.read(target) == np.float32(2.5)).all()
    assert outcome.trace.port_cycles == {("result_buffer", 0, "write"): 5}
    words = outcome.trace.words
    assert len(words.of("read").rows) == 0
    assert [int(t) for t in words.of("write").rows["tick"]] == [2, 2, 3, 3, 4, 4, 5, 5, 6, 6]


@pytest.mark.parametrize(("cycles", "start"), [(1, 3), (4, 6)])
def test_a_post_is_visible_some_cycles_later(cycles, start):
    chip_ = ideal_chip(4, 4, semaphore_cycles=cycles)
    found = schedule(
        chip_,
        copy(2, posts=(Post(0),)),  # done in cycle 2
        copy(2, 64, engine="pooling", waits=(Wait(0, 1),)),
        semaphores=("copied",),
    )
    assert found[1][0] == start


def test_every_wait_must_be_satisfied():
    instructions = (
        copy(2, posts=(Post(0),)),
        copy(6, 64, posts=(Post(1),)),
        copy(1, 128, engine="pooling", waits=(Wait(1, 1), Wait(0, 1))),
    )
    program = Program("waits", instructions, ("early", "late"))
    trace = simulate(chip(), program, engine="register").trace
    # the second copy reads in cycles 2 to 7 and is done in 8
    assert trace.times[2].start == 9
    waits = [(e.tick, e.semaphore, e.value) for e in trace.semaphores if e.kind == "wait"]
    assert waits == [(9, 0, 1), (9, 1, 1)]
    assert trace.labels["pooling"][0].label == "waiting for activation"


def test_values_are_read_when_they_are_read_and_land_a_cycle_after_the_write():
    """A copy onto itself, one element on, with a latency of 2: each write is seen two reads on."""
    source, target = state(0, 1, 0, 6), state(0, 1, 4, 6)
    values = np.arange(1, 8, dtype=np.float32)[None]
    program = Program("race", (Copy(engine="activation", source=source, target=target),))
    whole = state(0, 1, 0, 7)
    memory = simulate(
        chip(latency_cycles=2), program, [Image(whole, values)], engine="register"
    ).memory
    # element i is read in cycle i and written to i + 1 in cycle i + 2, seen from cycle i + 3 on
    assert memory.read(whole).tolist() == [[1, 1, 2, 3, 4, 5, 6]]


def test_casts_go_through_the_types_of_source_and_target():
    source, target = state(0, 1, 0, 3), state(0, 1, TARGET, 3, "s8")
    values = np.float32([[1.9, -300, np.nan]])
    program = Program("cast", (Copy(engine="activation", source=source, target=target),))
    memory = simulate(chip(), program, [Image(source, values)], engine="register").memory
    assert memory.read(target).tolist() == [[1, -128, 0]]
