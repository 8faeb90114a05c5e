"""Is the cycle right? Bounds of neighbours that are taken apart: by hand, and programs by hand."""

from __future__ import annotations

import numpy as np
import pytest

from support.chips import ideal_chip
from systolic.config import load_chip
from systolic.hw.formulas.parts import Lines, parted_bound, shared_bound
from systolic.hw.formulas.timing import largest
from systolic.isa import Access, Buffer, Copy, DmaCopy, Program
from systolic.machine import Image, simulate
from systolic.shipped import CHIPS

LANES = 4


def chip(**tables):
    """A chip of four lanes with two engines of an element per cycle, and a queue that is late."""
    dma = {"queues": 1, "latency_cycles": 1000, "bytes_per_cycle": 8}
    return ideal_chip(4, 4, state_buffer={"partitions": LANES}, dma=dma, **tables)


@pytest.mark.parametrize(
    ("unit_bytes", "cycles"),
    [
        # 4 lines of 8 have 28 pairs of neighbours. In a cycle two engines write 8 elements, which
        # have 16 ends: 2 cycles, and the last is written a cycle later.
        (1, 2 + 1),
        # A group of 8 keeps one in place, so that 28 are written, 2 of them in a word: 2 cycles.
        (2, 2 + 1),
        (4, 4 + 1),  # one in a word: 3.5 cycles
    ],
)
def test_engines_by_hand(unit_bytes: int, cycles: int) -> None:
    lines = Lines(((8, 4),), unit_bytes, 8)
    assert parted_bound(chip(), lines, outside=False).cycles == cycles


def test_a_reach_of_two_leaves_every_second_in_place() -> None:
    """16 groups of two: one of each is written, 8 in a cycle, and 28 pairs have 14 ends."""
    assert parted_bound(chip(), Lines(((8, 4),), 4, 2), outside=False).cycles == 2 + 1


def test_descriptors_by_hand() -> None:
    """A queue that is there at once: 11 pairs of a line of 12 need 6 writes.

    A cycle has a descriptor with 2 ends, and 8 elements of engines with 16, written a cycle later.
    Of words, groups of three need 4 * 2 <= 8 n + 2 * 2 (n + 1) for n cycles of engines: n is 1.
    """
    there = ideal_chip(4, 4, state_buffer={"partitions": LANES},
                       dma={"queues": 1, "bytes_per_cycle": 8})  # fmt: skip
    assert parted_bound(there, Lines(((12, 1),), 4, 64), outside=False).cycles == 2
    late = there.model_copy(update={"dma": there.dma.model_copy(update={"latency_cycles": 9})})
    assert parted_bound(late, Lines(((12, 1),), 4, 64), outside=False).cycles == 2 + 1


def test_all_queues_share_the_buses_of_dram() -> None:
    """A million pairs, 256 elements of two engines in a cycle, and from 600 on 1.6 cycles of DMA.

    In each of those 32 channels have a burst in two cycles, and four queues a descriptor on the
    chip each: 20 descriptors, of two ends, are 64 in a cycle, and 600 + 846,400 / 320 is 3,245.
    """
    hbm3 = load_chip(CHIPS / "hbm3_128x128.toml")
    found = parted_bound(hbm3, Lines(((2, 10**6),), 4, 2), outside=False)
    assert 3245 <= found.cycles <= 3245 + 2


def test_what_is_left_of_a_line_counts_as_well() -> None:
    """Of 63 units 62 * 15 / 16 are written, 8 in a cycle; 49 if only seven groups of 8 counted."""
    assert parted_bound(chip(), Lines(((63, 1),), 4, 16), outside=False).cycles == 8 + 1


@pytest.mark.parametrize(
    ("name", "size_bytes", "cycles"),
    [
        # 256 writes in a cycle, over in the next; from 600 on 544 bytes, half of whose elements
        # count. All but one of 64 elements are brought by engines as well: (2^20 + 2^20 * 63 / 64)
        # / 2.
        ("patent_128x64", 2, 600 + (2**20 * 127 // 128 - 599 * 256) // (256 + 136)),
        ("patent_128x64", 1, 600 + (2**20 * 127 // 128 - 599 * 256) // (256 + 272)),
        # 1.2 cycles of DMA, each of 256 bytes and four descriptors of 2 + 7 / 2; all but an eighth
        # of 16,384 * 63 neighbours are brought by engines as well, but for what descriptors save.
        (
            "ddr4_2400_128x128",
            2,
            600 + ((2**20 + 16384 * 63 * 7 // 8) // 2 - 599 * 256) / (256 + 1.2 * (64 + 22)),
        ),
        # A descriptor of bytes counts 3 + 7 / 2.
        (
            "ddr4_2400_128x128",
            1,
            600 + ((2**20 + 16384 * 63 * 7 // 8) // 2 - 599 * 256) / (256 + 1.2 * (128 + 26)),
        ),
    ],
)
def test_shared_words_by_hand(name: str, size_bytes: int, cycles: float) -> None:
    """2^20 elements in lines of 64."""
    lines = Lines(((64, 16384),), size_bytes, 64)
    found = largest([*shared_bound(load_chip(CHIPS / f"{name}.toml"), lines, 2**20)])
    assert cycles <= found.cycles <= cycles + 3


def test_where_dma_turns_elements_they_share_words_otherwise() -> None:
    neuroncore = load_chip(CHIPS / "neuroncore_v3.toml")
    assert not [*shared_bound(neuroncore, Lines(((64, 16),), 2, 64), 1024)]


def test_from_dram_an_engine_waits_for_a_copy_and_another_one_for_it() -> None:
    """Latency 1000, seen a cycle later, two cycles of an engine, and 1000 again with a byte."""
    found = parted_bound(chip(), Lines(((8, 4),), 1, 8), outside=True)
    alone = parted_bound(chip(), Lines(((8, 4),), 1, 8), outside=False)
    assert found.cycles == min(alone.cycles + 1000 + 1 + 1000 + 1, 1000 + 14)  # or 14 descriptors


def state(dtype: str, start: int, *pairs: tuple[int, int], lanes: int = LANES) -> Access:
    return Access(Buffer.STATE, dtype, 0, lanes, start, pairs)


@pytest.mark.parametrize("dtype", ["u8", "bf16", "f32"])
def test_two_engines_that_interleave_rows_are_no_faster(dtype: str) -> None:
    """Rows a and b of 24 become a0 b0 a1 b1 ..., a row by each engine.

    They meet at the port of the bank in which they write: 48 cycles and one more.
    """
    size = {"u8": 1, "bf16": 2, "f32": 4}[dtype]
    program = Program("interleave", (
        Copy(engine="activation", source=state(dtype, 0, (1, 24)),
             target=state(dtype, 256, (2, 24))),
        Copy(engine="pooling", source=state(dtype, 24 * size, (1, 24)),
             target=state(dtype, 256 + size, (2, 24))),
    ))  # fmt: skip
    found = simulate(chip(), program, values=False)
    lines = Lines(((24, 2 * LANES),), size, 24)
    bound = parted_bound(chip(), lines, outside=False)
    assert bound.cycles <= found.trace.cycles() == 48 + 1


def test_words_under_single_bytes_are_no_faster() -> None:
    """4 x 4 bytes turned in each lane: words first, and over them the 12 bytes that are wrong.

    A word for every column costs 4 writes and gives its first byte; 16 writes, of two engines.
    """
    words = [
        Copy(engine="activation", source=state("s32", 0, (1, 4)), target=state("s32", 256, (1, 4)))
    ]
    single = [
        Copy(engine=("activation", "pooling")[(row + col) % 2],
             source=state("u8", 4 * row + col, (1, 1)),
             target=state("u8", 256 + 4 * col + row, (1, 1)))
        for row in range(4) for col in range(4) if row != col
    ]  # fmt: skip
    program = Program("turn", (*words, *single))
    held = np.arange(LANES * 16, dtype=np.uint8).reshape(LANES, 16)
    found = simulate(chip(), program, [Image(state("u8", 0, (1, 16)), held)])
    made = found.memory.read(state("u8", 256, (1, 16))).reshape(LANES, 4, 4)
    assert (made == held.reshape(LANES, 4, 4).swapaxes(1, 2)).all()
    bound = parted_bound(chip(), Lines(((4, 4 * LANES),), 1, 4), outside=False)
    assert bound.cycles <= found.trace.cycles()


def test_descriptors_of_single_elements_are_no_faster() -> None:
    """One lane of eight words at twice their distance: a descriptor for each."""
    at_once = ideal_chip(4, 4, state_buffer={"partitions": LANES},
                         dma={"queues": 1, "bytes_per_cycle": 8})  # fmt: skip
    copy = DmaCopy(
        dma_queue=0,
        source=state("f32", 0, (1, 8), lanes=1),
        target=state("f32", 256, (2, 8), lanes=1),
    )
    found = simulate(at_once, Program("spread", (copy,)))
    bound = parted_bound(at_once, Lines(((8, 1),), 4, 8), outside=False)
    assert bound.cycles <= found.trace.cycles()
    assert found.trace.cycles() >= 8
