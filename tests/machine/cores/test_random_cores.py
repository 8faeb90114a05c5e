"""Is the cycle right? Both engines on the same random chips of several cores.

Same trace, same bits. They share no timing code: the register engine steps all cores in one loop.
Chips have two to four cores of at most 4 x 4, alike or different, with any clocks; programs share
DRAM, DMA engines, pools and posts. A tenth runs in the slow tier; SYSTOLIC_RANDOM_CORES=10000 runs
them all.
"""

from __future__ import annotations

import os
from random import Random

import numpy as np
import pytest

from support.compare_traces import assert_same_traces
from support.random_cores import RandomCores, random_cores
from support.tiers import quick_first
from systolic.errors import SimulationError
from systolic.hw.spec import MultiCoreChip
from systolic.isa import Buffer, ChipModule
from systolic.machine import Image
from systolic.machine.simulate_chip import ChipOutcome, simulate_chip
from systolic.trace.words import KINDS

BLOCKS, IN_A_BLOCK, QUICK = 40, 25, 2
ALL = int(os.environ.get("SYSTOLIC_RANDOM_CORES", "0"))
Case = tuple[MultiCoreChip, ChipModule, dict[str, list[Image]]]


def case(seed: int) -> Case:
    """Return a chip, every third with processors, and a program for it."""
    rng = Random(seed)
    chip = random_cores(rng, processors=seed % 3 == 2)
    module, images = RandomCores(rng, chip).build(rng.randint(2, 14))
    return chip, module, images


def run(seed: int, engine: str) -> ChipOutcome | None:
    """Return what an engine makes of a case; None for a deadlock, as by a post that is lost."""
    chip, module, images = case(seed)
    try:
        return simulate_chip(chip, module, images, engine=engine, kinds=KINDS)  # type: ignore[arg-type]
    except SimulationError:
        return None


def compare(seed: int) -> bool:
    """Compare both engines; return whether they ran to the end."""
    event, register = run(seed, "event"), run(seed, "register")
    assert (event is None) == (register is None), f"seed {seed}: one engine finds a deadlock"
    if event is None or register is None:
        return False
    try:
        same(event, register)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    return True


def same(one: ChipOutcome, other: ChipOutcome) -> None:
    assert_same_traces(one.trace, other.trace)
    assert one.trace.notifications == other.trace.notifications
    for mine, theirs in zip(one.memory.cores, other.memory.cores, strict=True):
        for buffer in Buffer:
            assert np.array_equal(mine.bytes_of(buffer), theirs.bytes_of(buffer)), buffer


@pytest.mark.parametrize("block", quick_first(range(BLOCKS), QUICK))
def test_random_chips_of_several_cores(block: int) -> None:
    seeds = range(block * IN_A_BLOCK, (block + 1) * IN_A_BLOCK)
    assert sum(map(compare, seeds)) > IN_A_BLOCK / 2


@pytest.mark.slow
@pytest.mark.skipif(not ALL, reason="SYSTOLIC_RANDOM_CORES says how many")
@pytest.mark.parametrize("part", range(100))
def test_many_random_chips_of_several_cores(part: int) -> None:
    for seed in range(part, ALL, 100):
        compare(seed)
