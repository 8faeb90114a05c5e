"""Is the cycle right? Both engines on random programs of the whole table of instructions.

Several instructions, of one queue or of many, post each of up to three semaphores, and others wait
for counts of these posts: so whatever is done first counts first.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from support.compare_traces import assert_same
from support.random_table import TableProgram, whole_chip
from support.shared_posts import with_shared_posts
from support.tiers import quick_first
from systolic.hw.spec import Chip
from systolic.isa import Program
from systolic.isa.opcodes import BY_CLASS, BY_MNEMONIC
from systolic.machine import Image, simulate
from systolic.trace.words import KINDS

MANY = 300


def made(seed: int) -> tuple[Chip, Program, list[Image]]:
    rng = Random(seed)
    chip = whole_chip(rng, clocks=seed % 3 == 0)
    program, images = TableProgram(rng, chip).build(rng.randint(5, 60))
    return chip, with_shared_posts(program, chip, rng), images


@pytest.mark.parametrize("seed", quick_first(range(MANY), 12))
def test_both_engines_leave_the_same_trace(seed: int) -> None:
    chip, program, images = made(seed)
    event = simulate(chip, program, images, kinds=KINDS)
    assert_same(event, simulate(chip, program, images, kinds=KINDS, engine="register"))


def test_every_row_of_the_table_is_drawn_and_is_held_back() -> None:
    """Among 60 programs; moving vectors and DMA transposes are refused a port least often."""
    seen, stalled = Counter[str](), Counter[str]()
    for seed in range(60):
        chip, program, images = made(seed)
        trace = simulate(chip, program, images, values=False).trace
        names = [BY_CLASS[type(each)].mnemonic for each in program.instructions]
        seen.update(names)
        stalled.update(names[stall.instruction] for stall in trace.stalls)
    assert min(seen[name] for name in BY_MNEMONIC) > 5, seen
    assert min(stalled[name] for name in BY_MNEMONIC) > 0, stalled


def test_posts_of_an_engine_do_overtake_one_another() -> None:
    """In many programs an instruction is done before one that started before it in its queue."""
    overtaken = 0
    for seed in range(40):
        chip, program, images = made(seed)
        times = {
            t.instruction: t for t in simulate(chip, program, images, values=False).trace.times
        }
        for name in chip.lane_engines:
            mine = [times[i].done for i in program.queues().get(name, [])]
            overtaken += any(b < a for a, b in pairwise(mine))
    assert overtaken > 20, overtaken
