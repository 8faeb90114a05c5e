"""A post announced later may be made before one announced earlier: does its waiter start then?

By hand, for both engines. In each program an instruction waits for a count that the first poster
would reach late. A second poster, which starts during the wait, reaches it sooner.
"""

from __future__ import annotations

import pytest

from support.blocks import psum, state
from support.chips import able_chip, ideal_chip
from support.compare_traces import assert_same
from systolic.isa import (
    Access,
    BnAggr,
    BnStats,
    Buffer,
    Copy,
    DmaCopy,
    FindIndex8,
    LoadWeights,
    MatchReplace8,
    MatMul,
    Max8,
    Memset,
    Post,
    Program,
    TopK,
    Transpose,
    Wait,
)
from systolic.machine import simulate
from systolic.trace.words import KINDS

BANK = 8192
LOAD = LoadWeights(weights=state(0, 4, 0, 4))


def waiter(count, engine="activation"):
    """Return a fill of a bank that no other instruction uses, with a wait for that count."""
    return Memset(engine=engine, target=state(0, 1, 7 * BANK, 1), value=1, waits=(Wait(0, count),))


def started(chip, *instructions):
    """Return the tick in which the last instruction starts, in both engines."""
    program = Program("posts", instructions, ("posts",))
    event = simulate(chip, program, kinds=KINDS)
    assert_same(event, simulate(chip, program, kinds=KINDS, engine="register"))
    return event.trace.times[-1].start


def multiply(vectors, on, N=4, row=0):
    return MatMul(
        moving=state(0, 4, BANK, vectors), result=psum(0, N, row, vectors), posts=(Post(0, on),)
    )


def test_partitions_of_the_next_multiply_come_among_those_of_the_one_before():
    # injected in 4 and 5; complete in 7, 8, 9, 10 and 8, 9, 10, 11: the third post is made in 8,
    # where the first multiply alone would make it in 9
    multiplies = multiply(1, "partition"), multiply(1, "partition", row=4)
    assert started(ideal_chip(4, 4), LOAD, *multiplies, waiter(3)) == 9


@pytest.mark.parametrize("on", ["done", "row"])
def test_a_narrower_multiply_is_done_before_the_one_before_it(on):
    # injected in 4 and 5; the last columns take their results in 4 + 3 + 3 and 5 + 3 + 0
    multiplies = multiply(1, on), multiply(1, on, N=1, row=4)
    assert started(ideal_chip(4, 4), LOAD, *multiplies, waiter(1)) == 9


def test_a_load_is_done_before_the_multiply_before_it():
    load = LoadWeights(weights=state(0, 4, 2 * BANK, 1), posts=(Post(0),))
    # the multiply, injected in 4, is done in 10; the load after it has one read, in 4 or 5
    assert started(ideal_chip(4, 4), LOAD, multiply(1, "done"), load, waiter(1)) == 5


def test_rows_come_before_the_end_of_the_multiply_before():
    # 4 columns, done in 10; 1 column, a row in 8
    multiplies = multiply(1, "done"), multiply(1, "row", N=1, row=4)
    assert started(ideal_chip(4, 4), LOAD, *multiplies, waiter(1)) == 9


def fill(lane, elements, bank, engine="activation"):
    target = state(lane, 1, bank * BANK, elements)
    return Memset(engine=engine, target=target, value=1, posts=(Post(0),))


@pytest.mark.parametrize("engine", ["activation", "pooling"])
def test_a_short_instruction_on_other_lanes_is_done_first(engine):
    other = "pooling" if engine == "activation" else "activation"
    # on lane 0 in 0 to 9, done in 10; on lane 1 in 1, done in 2
    fills = fill(0, 10, 0, engine), fill(1, 1, 1, engine)
    assert started(ideal_chip(4, 4), *fills, waiter(1, other)) == 3


def test_without_independent_lanes_it_is_not():
    chip = ideal_chip(4, 4, activation={"independent_lanes": False})
    # generated in 0 to 9 and in 10
    assert started(chip, fill(0, 10, 0), fill(1, 1, 1), waiter(1, "pooling")) == 11


def test_another_queue_is_done_first():
    """dma1 starts later, in the cycle after a copy of its own, and has less to do."""
    dram = Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, 256),))
    few = Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, 16),))
    chip = ideal_chip(4, 4, dma={"queues": 2}, dram={"bytes_per_cycle": 128})
    long = DmaCopy(dma_queue=0, source=dram, target=state(0, 1, 0, 256), posts=(Post(0),))
    before = DmaCopy(dma_queue=1, source=few, target=state(0, 1, BANK, 16))
    short = DmaCopy(dma_queue=1, source=few, target=state(0, 1, 2 * BANK, 16), posts=(Post(0),))
    # 1024 bytes by 64 in cycles 0 to 15; 64 bytes in 0, and 64 in 1
    assert started(chip, long, before, short, waiter(1)) == 2


def test_another_kind_of_queue_is_done_first():
    copy = Copy(
        engine="pooling",
        source=state(1, 1, 2 * BANK, 1),
        target=state(1, 1, 3 * BANK, 1),
        posts=(Post(0),),
    )
    first = Memset(engine="pooling", target=state(1, 1, 4 * BANK, 3), value=1)
    chip = ideal_chip(4, 4, pooling={"independent_lanes": False},
                      activation={"independent_lanes": False})  # fmt: skip
    # the activation engine's fill is done in 20, the copy, begun in 3, in 4
    last = DmaCopy(
        dma_queue=0,
        source=state(0, 1, 6 * BANK, 1),
        target=state(0, 1, 7 * BANK, 1),
        waits=(Wait(0, 1),),
    )
    assert started(chip, fill(0, 20, 0), first, copy, last) == 5


POST = {"engine": "pooling", "posts": (Post(0),)}
WAITER = DmaCopy(
    dma_queue=0,
    source=state(0, 1, 6 * BANK, 1),
    target=state(0, 1, 7 * BANK, 1),
    waits=(Wait(0, 1),),
)


def one_element(bank: int) -> Copy:
    """Return a copy of one element from bank 0 to another."""
    return Copy(source=state(0, 1, 0, 1), target=state(0, 1, bank * BANK, 1), **POST)


def in_order(rows: int, **tables):
    """Return a chip whose engines take one instruction at a time, and do everything."""
    serial = {"independent_lanes": False}
    return able_chip(rows, 4, **{"activation": serial, "pooling": serial, **tables})


BEHIND_THE_LAST_READ = [
    # read in 0 to 2, written in 3 to 8; the copy reads in 3, writes in 4
    (BnStats(source=state(0, 1, 0, 3), target=state(0, 1, BANK, 6), **POST), 5),
    # read in 0 to 2, written in 3 and 4: the copy, done in 4 too, does not overtake it
    (BnAggr(source=state(0, 1, 0, 3), target=state(0, 1, BANK, 2), **POST), 5),
    # 0 to 7, 8 to 15; 8, 9
    (Max8(source=state(0, 1, 0, 8), target=state(0, 1, BANK, 8), **POST), 10),
    # 0 to 3, 4 to 7; 4, 5
    (Transpose(source=state(0, 4, 0, 4), target=state(0, 4, BANK, 4), side=4, **POST), 6),
    # values beside the source, both in 0 to 8 and 0 to 7, 9 to 16; 9, 10
    (FindIndex8(source=state(0, 1, 0, 9), values=state(0, 1, 3 * BANK, 8),
                target=state(0, 1, BANK, 8, "s32"), **POST), 11),
    # 0 to 7, the target in 8 to 15, indices in 16 to 23; 8, 9
    (MatchReplace8(source=state(0, 1, 0, 8), values=state(0, 1, 3 * BANK, 8), other=0,
                   target=state(0, 1, BANK, 8), indices=state(0, 1, 2 * BANK, 8, "s32"),
                   **POST), 10),
    # 0 and 1, the target in 2 and 3, indices in 4 and 5; 2, 3
    (TopK(source=state(0, 4, 0, 2, "bf16"), count=8, k=8, group=4,
          target=state(0, 4, BANK, 2, "bf16"), indices=state(0, 4, 2 * BANK, 2, "s32"),
          **POST), 4),
]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "cycle"), BEHIND_THE_LAST_READ, ids=lambda each: type(each).__name__
)
def test_what_writes_behind_its_last_read_is_overtaken(first, cycle):
    """The next instruction of the engine starts in the cycle after the last read (section 4)."""
    assert started(in_order(4), first, one_element(4), WAITER) == cycle


def test_a_write_whose_port_is_refused_is_overtaken():
    """The fill has bank 1 from 1 to 20; the first copy writes in 21, the second in 2."""
    filled = Memset(engine="activation", target=state(0, 1, BANK + 512, 20), value=1)
    assert started(in_order(4), filled, one_element(1), one_element(2), WAITER) == 3
