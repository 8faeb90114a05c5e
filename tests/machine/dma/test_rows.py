"""Rows in parallel, and the width of a partition's port: worked by hand, for both engines."""

from __future__ import annotations

import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from systolic.hw.formulas import timing
from systolic.isa import Access, Buffer, DmaCopy, Memset, Program
from systolic.machine import simulate
from systolic.trace.words import KINDS


def chip_of(width=None, **keys):
    return ideal_chip(
        8, 8,
        state_buffer={"port_bytes": width},
        dma={"queues": 1, "bytes_per_cycle": 40} | keys,
        dram={"bytes_per_cycle": 40},
        result_buffer={"dma_readable": True},
    )  # fmt: skip


def dram(elements, start=0):
    return Access(Buffer.DRAM, "f32", 0, 1, start, ((1, elements),))


def done(chip, *steps):
    """Return the last cycle of each copy, which both engines must agree on."""
    program = Program("rows", tuple(steps))
    event = simulate(chip, program, kinds=KINDS)
    assert_same(event, simulate(chip, program, kinds=KINDS, engine="register"))
    return [t.done for t in event.trace.times if t.unit == "dma0"], event.trace


# Six rows of 40 bytes, each in a partition of its own, all one run of DRAM.
ROWS = DmaCopy(dma_queue=0, source=dram(60), target=state(1, 6, 64, 10))


@pytest.mark.parametrize(
    ("width", "beside", "fetch", "cycles"),
    [
        (None, 1, 0, 6),  # a row of 40 bytes in a cycle
        (None, 4, 0, 6),  # 160 bytes in 4 cycles, 80 in 2
        (16, 1, 0, 18),  # 16 bytes in a cycle: 3 for each row
        (16, 2, 0, 9),  # 32 of two rows: 80 in 3
        (16, 3, 0, 6),  # 48 are more than the engine moves: 120 in 3
        (16, 4, 0, 7),  # 160 at 40 in 4, the other two rows, 80 at 32, in 3
        (16, 8, 0, 6),  # all six: 240 at 40
        (16, 3, 2, 18),  # each descriptor is fetched: 2 x (3 x 2 + 3)
        (16, 4, 1, 13),  # 4 + 4 + 2 + 3
    ],
)
def test_rows_move_side_by_side_each_through_its_own_port(width, beside, fetch, cycles):
    chip = chip_of(width, partitions_per_cycle=beside, descriptor_cycles=fetch)
    assert done(chip, ROWS)[0] == [cycles - 1]
    assert timing.dma_cycles(chip, [(6, 40)], dram=True, rows=beside) == cycles


def test_the_longer_of_fetch_and_bytes_is_that_of_the_bundle():
    """3 rows: fetched in 6, moved in 3; and again."""
    chip = chip_of(16, partitions_per_cycle=3, descriptor_cycles=2, descriptor_cost="max")
    assert done(chip, ROWS)[0] == [11]
    assert timing.dma_cycles(chip, [(6, 40)], dram=True, rows=3) == 12


@pytest.mark.parametrize(
    ("copy", "cycles"),
    [
        # one partition: each run alone, 16 bytes in a cycle
        (DmaCopy(dma_queue=0, source=dram(20), target=state(0, 1, 64, 20)), 5),
        # two runs in each of two partitions: the second run of a row comes before the next row
        (DmaCopy(dma_queue=0, source=dram(16),
                 target=Access(Buffer.STATE, "f32", 0, 2, 64, ((8, 2), (1, 4)))), 4),
        # rows that lie at other places of their partitions on the other side: each alone
        (DmaCopy(dma_queue=0, source=state(0, 2, 64, 8),
                 target=Access(Buffer.STATE, "f32", 3, 1, 4096, ((1, 16),))), 4),
        # both sides by rows: 32 bytes of two rows in a cycle
        (DmaCopy(dma_queue=0, source=state(0, 2, 64, 8), target=state(4, 2, 4096, 8)), 2),
        # no port of the state buffer binds from DRAM to DRAM (half of 40 in a cycle) ...
        (DmaCopy(dma_queue=0, source=dram(20), target=dram(20, 4096)), 4),
        # ... nor from the result buffer to DRAM
        (DmaCopy(dma_queue=0, source=psum(0, 1, 0, 20), target=dram(20)), 2),
    ],
)  # fmt: skip
def test_which_descriptors_go_side_by_side(copy, cycles):
    assert done(chip_of(16, partitions_per_cycle=2), copy)[0] == [cycles - 1]


def test_a_bundle_needs_the_ports_of_its_rows():
    """The engine, which goes first, writes bank 0 in cycles 1 to 4, row 3 of its partitions.

    The copy moves two rows of 10 bytes in cycle 0, and the next two in 5.
    """
    fill = Memset(engine="activation", target=state(3, 1, 0, 4), value=1)
    copy = DmaCopy(dma_queue=0, source=Access(Buffer.DRAM, "u8", 0, 1, 0, ((1, 40),)),
                   target=Access(Buffer.STATE, "u8", 1, 4, 64, ((1, 10),)))  # fmt: skip
    found, trace = done(chip_of(16, partitions_per_cycle=2), fill, copy)
    assert found == [5]
    assert [(s.tick, s.cycles) for s in trace.stalls if s.unit == "dma0"] == [(1, 4)]


def test_bursts_are_no_wider_than_a_port():
    """64 bytes through a port of 16: a burst takes 4 cycles, where the channel alone takes 2."""
    organisation = {
        "channels": 1, "banks": 2, "row_bytes": 1024, "burst_bytes": 64, "interleave_bytes": 64,
        "activate_cycles": 0, "precharge_cycles": 0,
    }  # fmt: skip
    for width, cycles in ((None, 2), (16, 4)):
        chip = chip_of(width).model_dump()
        chip["dram"] |= {"size_bytes": 1 << 20, "bytes_per_cycle": 32, "organisation": organisation}
        copy = DmaCopy(dma_queue=0, source=dram(16), target=state(0, 1, 64, 16))
        assert done(type(chip_of()).model_validate(chip), copy)[0] == [cycles - 1]
