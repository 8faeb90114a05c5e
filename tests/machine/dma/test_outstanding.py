"""Latencies that overlap, and what a descriptor costs: worked by hand, for both engines."""

from __future__ import annotations

import pytest

from support.blocks import state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from systolic.hw.formulas import timing
from systolic.isa import Access, Buffer, DmaCopy, Memset, Post, Program, Wait
from systolic.machine import simulate
from systolic.trace.words import KINDS

BANK = 8192


def times_of(program, **keys):
    """Return start, first and done of each copy of queue 0, which both engines must agree on."""
    dma = {"queues": 1, "bytes_per_cycle": 8, "latency_cycles": 10} | keys
    chip = ideal_chip(4, 4, dma=dma, dram={"bytes_per_cycle": 8})
    event = simulate(chip, program, kinds=KINDS)
    assert_same(event, simulate(chip, program, kinds=KINDS, engine="register"))
    return [(t.start, t.first, t.done) for t in event.trace.times if t.unit == "dma0"], event.trace


def copies(*elements, runs=1, **links):
    """Return copies from DRAM of so many f32 each, in so many runs, to a bank of their own each."""
    made = []
    for n, count in enumerate(elements):
        pattern = ((1, count),) if runs == 1 else ((count + 1, runs), (1, count))
        source = Access(Buffer.DRAM, "f32", 0, 1, 4096 * n, pattern)
        target = state(0, 1, n * BANK, count * runs)
        made.append(DmaCopy(dma_queue=0, source=source, target=target, **links))
    return Program("copies", tuple(made))


# -- outstanding copies ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outstanding", "found"),
    [
        # 32 bytes take 4 cycles behind a latency of 10
        (1, [(0, 10, 13), (14, 24, 27), (28, 38, 41)]),
        # the second starts in cycle 1, and its latency is over in 11: it moves after 13; the third
        # starts when the first has ended
        (2, [(0, 10, 13), (1, 14, 17), (14, 24, 27)]),
        (3, [(0, 10, 13), (1, 14, 17), (2, 18, 21)]),
        (9, [(0, 10, 13), (1, 14, 17), (2, 18, 21)]),
    ],
)
def test_latencies_run_while_the_copy_before_moves(outstanding, found):
    assert times_of(copies(8, 8, 8), outstanding=outstanding)[0] == found


def test_a_copy_whose_latency_is_over_sooner_does_not_overtake():
    """From DRAM the latency is 10 + 20; within the state buffer it is 10."""
    program = copies(8)
    within = DmaCopy(dma_queue=0, source=state(0, 1, 6 * BANK, 2), target=state(0, 1, 7 * BANK, 2))
    program = Program("order", (*program.instructions, within))
    chip = ideal_chip(
        4, 4,
        dma={"queues": 1, "bytes_per_cycle": 8, "latency_cycles": 10, "outstanding": 2},
        dram={"bytes_per_cycle": 8, "latency_cycles": 20},
    )  # fmt: skip
    event = simulate(chip, program, kinds=KINDS)
    assert_same(event, simulate(chip, program, kinds=KINDS, engine="register"))
    assert [(t.start, t.first, t.done) for t in event.trace.times] == [(0, 30, 33), (1, 34, 34)]


def test_posts_and_waits_are_those_of_each_copy():
    """A waiter of the second copy starts after it, and the third copy waits for that one."""
    first, second, third = copies(8, 8, 8).instructions
    fill = Memset(engine="pooling", target=state(0, 1, 5 * BANK, 1), value=1,
                  waits=(Wait(0, 1),), posts=(Post(1),))  # fmt: skip
    second = DmaCopy(dma_queue=0, source=second.source, target=second.target, posts=(Post(0),))
    third = DmaCopy(dma_queue=0, source=third.source, target=third.target, waits=(Wait(1, 1),))
    program = Program("posts", (first, second, fill, third), ("second", "filled"))
    found, trace = times_of(program, outstanding=4)
    # the second ends in 17, the fill reads nothing, starts in 18 and writes in 19, seen in 20
    assert [t.start for t in trace.times if t.unit == "pooling"] == [18]
    assert found == [(0, 10, 13), (1, 14, 17), (20, 30, 33)]


def test_the_label_of_an_overlapped_latency_is_that_of_the_bytes_that_move():
    _, trace = times_of(copies(8, 8), outstanding=2)
    found = [(part.first, part.stop, part.label) for part in trace.labels["dma0"]]
    assert found == [(0, 10, "filling"), (10, 18, "streaming")]


# -- what a descriptor costs ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cost", "fetch", "found"),
    [
        # 3 runs of 20 bytes, 3 cycles each at 8 bytes
        ("sum", 2, (0, 12, 10 + 3 * 5 - 1)),
        ("max", 2, (0, 10, 10 + 3 * 3 - 1)),
        ("sum", 5, (0, 15, 10 + 3 * 8 - 1)),
        # the copy ends when the cost of its last descriptor is over, two cycles after its bytes
        ("max", 5, (0, 10, 10 + 3 * 5 - 1)),
        ("max", 3, (0, 10, 10 + 3 * 3 - 1)),
    ],
)
def test_a_descriptor_costs_the_sum_or_the_longer(cost, fetch, found):
    program = copies(5, runs=3)
    keys = {"descriptor_cost": cost, "descriptor_cycles": fetch}
    assert times_of(program, **keys)[0] == [found]
    chip = ideal_chip(
        4, 4, dma={"queues": 1, "bytes_per_cycle": 8, "latency_cycles": 10, **keys},
        dram={"bytes_per_cycle": 8},
    )  # fmt: skip
    assert timing.dma_cycles(chip, [(3, 20)], dram=True) == found[2] + 1


def test_a_refused_port_delays_bytes_but_not_what_the_descriptor_costs():
    """The engine, which goes first, writes bank 0 in cycles 1 to 6.

    The first descriptor moves in cycle 0, and its cost of 5 is over in 4. The second begins in 5,
    is refused in 5 and 6, moves in 7, and its cost is over in 9.
    """
    chip = ideal_chip(
        4, 4,
        dma={"queues": 1, "bytes_per_cycle": 8, "descriptor_cycles": 5, "descriptor_cost": "max"},
    )  # fmt: skip
    fill = Memset(engine="activation", target=state(0, 1, 0, 6), value=1)
    target = state(1, 1, 64, 4)
    copy = DmaCopy(dma_queue=0, source=Access(Buffer.DRAM, "f32", 0, 1, 0, ((3, 2), (1, 2))),
                   target=target)  # fmt: skip
    event = simulate(chip, Program("refused", (fill, copy)), kinds=KINDS)
    register = simulate(chip, Program("refused", (fill, copy)), kinds=KINDS, engine="register")
    assert_same(event, register)
    (found,) = [(t.start, t.first, t.done) for t in event.trace.times if t.unit == "dma0"]
    (wait,) = [(s.tick, s.cycles) for s in event.trace.stalls if s.unit == "dma0"]
    assert (wait, found) == ((5, 2), (0, 0, 9))
