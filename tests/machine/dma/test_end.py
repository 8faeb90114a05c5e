"""When is a transfer over whose share of DRAM grows? By hand, for both engines."""

from __future__ import annotations

from support.blocks import state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from systolic.isa import Access, Buffer, DmaCopy, Memset, Post, Program, Wait
from systolic.machine import simulate
from systolic.trace.words import KINDS

BANK = 8192


def copy(queue, elements, bank, **links):
    source = Access(Buffer.DRAM, "f32", 0, 1, 4096 * queue, ((1, elements),))
    return DmaCopy(
        dma_queue=queue, source=source, target=state(0, 1, bank * BANK, elements), **links
    )


def test_a_transfer_ends_sooner_when_another_leaves_dram_and_its_waiters_know():
    """Eight bytes per cycle for two: 16 bytes of each in cycles 0 to 3, then 8 for dma0 alone."""
    chip = ideal_chip(4, 4, dma={"queues": 2, "bytes_per_cycle": 8}, dram={"bytes_per_cycle": 8})
    fills = [Memset(engine="pooling", target=state(0, 1, b * BANK, 2), value=1) for b in (5, 6)]
    program = Program(
        "leaves",
        (
            copy(0, 16, 0, posts=(Post(0),)),
            copy(0, 2, 1),
            copy(1, 4, 2),
            *fills,
            # comes to the head of its queue in cycle 2, when both share
            Memset(engine="pooling", target=state(0, 1, 7 * BANK, 1), value=1, waits=(Wait(0, 1),)),
        ),
        ("first",),
    )
    event = simulate(chip, program, kinds=KINDS)
    assert_same(event, simulate(chip, program, kinds=KINDS, engine="register"))
    long, following, short, *_, fill = event.trace.times
    # 64 - 16 bytes at 8 per cycle: 4 to 9, where half the share would have taken until 15
    assert (short.done, long.done) == (3, 9)
    assert fill.start == 10
    assert (following.start, following.done) == (10, 10)


def test_a_transfer_ends_later_when_another_joins_and_its_waiters_know():
    chip = ideal_chip(4, 4, dma={"queues": 2, "bytes_per_cycle": 8}, dram={"bytes_per_cycle": 8})
    program = Program(
        "joins",
        (
            copy(0, 16, 0, posts=(Post(0),)),
            Memset(engine="activation", target=state(0, 1, 6 * BANK, 2), value=1, posts=(Post(1),)),
            copy(1, 16, 2, waits=(Wait(1, 1),)),
            Memset(engine="pooling", target=state(0, 1, 7 * BANK, 1), value=1, waits=(Wait(0, 1),)),
        ),
        ("first", "filled"),
    )
    event = simulate(chip, program, kinds=KINDS)
    assert_same(event, simulate(chip, program, kinds=KINDS, engine="register"))
    long, _, other, fill = event.trace.times
    # alone in cycles 0 to 2 (the fill is done in 2, seen in 3): 24 bytes; 40 bytes by 4: 3 to 12
    assert other.start == 3
    assert long.done == 12
    assert fill.start == 13
    # 40 bytes by then, 24 by 8: 13 to 15
    assert other.done == 15
