"""A write that pauses can be overtaken by a later one of its engine: the machine shows it.

An engine pools 8 elements to 4 words, or copies 4 in 2 cycles each, with a latency of 6. Its last
read is in cycle 7; words are written in 7, 9, 11 and 13. A memset behind it starts in 8 and writes
the last of these words in 14. A DMA queue that takes the port in cycles 8 to 11 puts the writes of
9, 11 and 13 off to 12, 14 and 16. So the memset, refused in 14, writes its word in 15: too soon.
"""

from __future__ import annotations

import numpy as np
import pytest

from support.chips import ideal_chip
from systolic.isa import Access, Buffer, Copy, DmaCopy, Memset, Pool, Program
from systolic.isa.lint.lint import lint
from systolic.machine import simulate

CHIP = ideal_chip(
    4, 4,
    engines={"v": {"does": ["pool", "copy", "memset"], "latency_cycles": 6,
                   "rates": [{"does": ["copy"], "elements": 1, "cycles": 2}]}},
    port_priority=("dma", "moving", "weights", "v"),
    dma={"latency_cycles": 8, "bytes_per_cycle": 4},
)  # fmt: skip
QUICK = ideal_chip(4, 4, engines={"v": {"does": ["copy", "memset"], "latency_cycles": 6}})


def at(place: int, count: int, bank: int = 0) -> Access:
    return Access(Buffer.STATE, "f32", 0, 4, bank * 8192 + place, ((1, count),))


TARGET, LAST = at(0, 4), at(12, 1)
FIRST = {
    "a window": Pool(engine="v", function="max", window=2, source=at(0, 8, 1), target=TARGET),
    "a rate": Copy(engine="v", source=at(0, 4, 1), target=TARGET),
}
MEMSET = Memset(engine="v", target=LAST, value=5)
BRINGS = DmaCopy(dma_queue=0, source=Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, 4),)),
                 target=Access(Buffer.STATE, "f32", 0, 1, 256, ((1, 4),)))  # fmt: skip


@pytest.mark.parametrize("case", FIRST)
def test_the_later_write_comes_first_and_lint_says_so(case: str) -> None:
    program = Program("pause", (FIRST[case], MEMSET, BRINGS))
    found = simulate(CHIP, program, engine="register")
    done = {t.instruction: t.done for t in found.trace.times}
    assert (done[0], done[1]) == (16, 15)
    assert np.array_equal(found.memory.read(LAST), np.zeros((4, 1), "f4"))
    assert [d.code for d in lint(program, CHIP)] == ["write-after-write"]


def test_a_write_in_every_cycle_is_not_overtaken() -> None:
    program = Program("no pause", (FIRST["a rate"], MEMSET))
    assert lint(program, QUICK) == []
