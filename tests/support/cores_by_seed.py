"""Random chips of several cores by seed, and what an engine makes of them."""

from __future__ import annotations

from random import Random

import numpy as np

from support.compare_traces import assert_same_traces
from support.random_cores import RandomCores, random_cores
from systolic.engine_kind import EngineKind
from systolic.errors import SimulationError
from systolic.hw.spec import MultiCoreChip
from systolic.isa import Buffer, ChipModule
from systolic.machine import Image
from systolic.machine.simulate_chip import ChipOutcome, simulate_chip
from systolic.trace.words import KINDS

Case = tuple[MultiCoreChip, ChipModule, dict[str, list[Image]]]


def case(seed: int) -> Case:
    """Return a chip, every third with processors, and a program for it."""
    rng = Random(seed)
    chip = random_cores(rng, processors=seed % 3 == 2)
    module, images = RandomCores(rng, chip).build(rng.randint(2, 14))
    return chip, module, images


def run(seed: int, engine: EngineKind) -> ChipOutcome | None:
    """Return what an engine makes of a case; None for a deadlock, as by a post that is lost."""
    chip, module, images = case(seed)
    try:
        return simulate_chip(chip, module, images, engine=engine, kinds=KINDS)
    except SimulationError:
        return None


def same(one: ChipOutcome, other: ChipOutcome) -> None:
    """Fail unless two outcomes have the same trace, and the same bytes in all memories."""
    assert_same_traces(one.trace, other.trace)
    assert one.trace.notifications == other.trace.notifications
    for mine, theirs in zip(one.memory.cores, other.memory.cores, strict=True):
        for buffer in Buffer:
            assert np.array_equal(mine.bytes_of(buffer), theirs.bytes_of(buffer)), buffer
