"""What is the time of a copy spent on? By hand, on DRAM of one rate and on one with banks."""

from __future__ import annotations

from typing import Any

from support.blocks import state
from support.chips import ideal_chip
from support.explained import lives, with_keys
from systolic.cli.explain import text
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.run.copy_times import CopyTimes
from systolic.run.execute import run
from systolic.run.explanation import explain

FLAT: dict[str, Any] = {
    "dma": {"latency_cycles": 9, "bytes_per_cycle": 16, "descriptor_cycles": 3},
    "dram": {"bytes_per_cycle": 4},
}


def rows(queue: int, count: int, words: int) -> DmaCopy:
    """Return a copy of rows, each to a partition of its own: a descriptor for each."""
    byte = 1024 * queue
    outside = Access(Buffer.DRAM, "f32", 0, 1, byte, ((2 * words, count), (1, words)))
    inside = Access(Buffer.STATE, "f32", 0, count, 8192 * (queue + 1), ((1, words),))
    return DmaCopy(dma_queue=queue, source=outside, target=inside)


def spent(chip: Chip, *copies: DmaCopy, of: int = 0) -> dict[str, int]:
    run = lives(chip, Program("copies", copies))
    ticks = run.end(of).tick - run.begin(of)
    return CopyTimes(run).spent(of, ticks)


def test_descriptors_and_bytes():
    """4 descriptors of 3 cycles and 16 bytes at 4 per cycle: 4 x (3 + 4), the latency apart."""
    chip = ideal_chip(4, 4, **FLAT)
    assert spent(chip, rows(0, 4, 4)) == {"moving bytes": 16, "descriptors": 12}


def test_short_descriptors_do_not_fill_the_rate():
    """4 descriptors of 4 bytes at 16 per cycle would take a cycle together, and take one each."""
    chip = ideal_chip(4, 4, dma={"bytes_per_cycle": 16}, dram={"bytes_per_cycle": 16})
    assert spent(chip, rows(0, 4, 1)) == {"moving bytes": 1, "descriptors": 3}


def test_two_queues_share_what_dram_has():
    """Both move at half the rate. Where one fetches a descriptor its share is lost, not lent."""
    chip = ideal_chip(4, 4, **FLAT)
    found = spent(chip, rows(0, 4, 4), rows(1, 4, 4))
    assert found == {"moving bytes": 16, "descriptors": 12, "sharing bandwidth with dma1": 16}


def test_the_copies_that_shared_are_named_the_longest_first():
    """A copy of 96 words beside three of another queue; then one that begins when it has ended."""
    chip = ideal_chip(4, 4, **FLAT)
    shorter = [rows(1, 1, words) for words in (4, 12, 8)]
    result = run(Program("copies", (rows(0, 4, 24), *shorter, rows(0, 1, 4))), chip, check=False)
    found = explain(result, outlooks=False)
    assert [link.shared_with for link in found.links if link.instruction == 0] == [(2, 3, 1)]
    assert [link.shared_with for link in found.links if link.instruction == 4] == [()]


def test_of_many_copies_that_shared_three_are_printed():
    chip = with_keys(ideal_chip(4, 4, **FLAT), dma={"queues": 5})
    copies = tuple(rows(queue, 4, 4) for queue in range(5))
    found = explain(run(Program("copies", copies), chip, check=False), outlooks=False)
    (row,) = [line for line in text(found) if " DmaCopy " in line]
    said, _, named = row.rpartition(": ")
    assert "sharing bandwidth with dma" in said
    assert named.endswith(" and 1 more")
    assert named.count("#") == 3


def test_copies_that_share_nothing():
    """One on the chip, one from DRAM, each by an engine of its own; then by one engine."""
    chip = ideal_chip(4, 4, dma={"bytes_per_cycle": 4, "queues": 2}, dram={"bytes_per_cycle": 64})
    inside = DmaCopy(dma_queue=1, source=state(0, 1, 0, 16), target=state(1, 1, 32768, 16))
    assert spent(chip, inside, rows(0, 1, 16)) == {"moving bytes": 16, "descriptors": 0}
    one = with_keys(chip, dma={"engines": 1})
    found = spent(one, inside, rows(0, 1, 16))
    assert found == {"moving bytes": 16, "descriptors": 0, "sharing bandwidth with dma0": 16}


def test_rows_and_banks_are_named_where_dram_has_them():
    """Four bursts of 4 cycles in four rows of a bank, one in hand: 3 to open, 2 to close."""
    organisation = {
        "channels": 1, "banks": 1, "row_bytes": 32, "burst_bytes": 16, "interleave_bytes": 32,
        "activate_cycles": 3, "precharge_cycles": 2,
    }  # fmt: skip
    chip = ideal_chip(4, 4, dma={"bytes_per_cycle": 16}, dram={"bytes_per_cycle": 4})
    chip = with_keys(chip, dram={"organisation": organisation})
    found = spent(chip, rows(0, 4, 4))
    assert found == {"moving bytes": 16, "descriptors and DRAM rows": 4 * 3 + 3 * 2}
