"""Is the cycle right? Both engines on the same random chips of several cores.

Same trace, same bits. They share no timing code: the register engine steps all cores in one loop.
Chips have two to four cores of at most 4 x 4, alike or different, with any clocks; programs share
DRAM, with and without banks, DMA engines, pools and posts. A tenth runs in the slow tier;
`make cores` runs all 10,000.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from support.cores_by_seed import case, run, same
from support.tiers import quick_first
from systolic.hw.spec.places import split
from systolic.isa.instruction import Command, DmaCopy, DmaMove, RemotePost
from systolic.isa.joint import JointProgram
from systolic.machine.event.chip.machine import run_event_chip
from systolic.machine.register.chip import run_register_chip
from systolic.machine.simulate_chip import ChipOutcome
from systolic.machine.values.chip_memory import ChipMemory
from systolic.trace.recorder import Recorder
from systolic.trace.words import KINDS, VALUE_TYPES

COUNT, IN_A_BLOCK, QUICK = 1000, 10, 2


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


@pytest.mark.parametrize("block", quick_first(range(COUNT // IN_A_BLOCK), QUICK))
def test_random_chips_of_several_cores(block: int) -> None:
    seeds = range(block * IN_A_BLOCK, (block + 1) * IN_A_BLOCK)
    assert sum(map(compare, seeds)) > IN_A_BLOCK / 2


@pytest.mark.parametrize("seed", [7012, 7630, 7977])
def test_what_is_refused_may_be_granted_in_the_same_tick(seed: int) -> None:
    """Another stream comes; a waiter that took the refusal for final starts a cycle late."""
    assert compare(seed)


@pytest.mark.parametrize("seed", quick_first(range(40), 8))
def test_the_order_of_cores_and_units_does_not_matter(seed: int) -> None:
    """Built, and stepped, in any order they leave the same trace."""
    first = run(seed, "event")
    assert first is not None
    for order in range(3):
        chip, module, images = case(seed)
        for engine in (run_event_chip, run_register_chip):
            joint = JointProgram.of(module, chip)
            memory = ChipMemory(joint, images)
            recorder = Recorder(chip.units, frozenset(KINDS))
            trace = engine(joint, memory, recorder, shuffle=Random(order))
            same(first, ChipOutcome(joint, trace, memory))


def bytes_of_copies(outcome: ChipOutcome) -> dict[int, dict[str, int]]:
    """Return how many bytes each copy of values has read, and written to all of its targets."""
    sizes = np.array([dtype.itemsize for _, dtype in VALUE_TYPES])
    found: dict[int, dict[str, int]] = {}
    for index, instruction in enumerate(outcome.joint.program.instructions):
        if not isinstance(instruction, DmaCopy) or getattr(instruction, "brings_code", False):
            continue
        found[index] = {}
        for kind in ("read", "write"):
            rows = outcome.trace.words.of(kind).rows
            rows = rows[rows["instruction"] == index]
            found[index][kind] = int(sizes[rows["type"]].sum())
    return found


@pytest.mark.parametrize("seed", quick_first(range(100, 130), 8))
def test_bytes_are_conserved(seed: int) -> None:
    """What a copy has read it has written, to each target; its descriptors add up to the same."""
    outcome = run(seed, "register")
    assert outcome is not None
    total, instructions = 0, outcome.joint.program.instructions
    for index, moved in bytes_of_copies(outcome).items():
        copy = instructions[index]
        assert isinstance(copy, DmaCopy)
        size = copy.source.partitions * copy.source.elements * copy.source.element_bytes
        targets = 2 if isinstance(copy, DmaMove) and copy.duplicate is not None else 1
        assert moved == {"read": size, "write": targets * size}, (index, copy)
        total += size
    code = [c for c in instructions if isinstance(c, DmaMove) and c.brings_code]
    total += sum(c.source.elements for c in code)
    assert outcome.trace.transfers.moved_bytes == total


def test_the_programs_share_all_that_can_be_shared() -> None:
    """Copies of each kind, refused at both ends and by one another, posts, starts, code, clocks."""
    seen = Counter[str]()
    for seed in range(60):
        outcome = run(seed, "event")
        if outcome is None:
            continue
        joint, trace = outcome.joint, outcome.trace
        for each in joint.program.instructions:
            if isinstance(each, DmaMove):
                ends = {each.source_at, each.target_at, each.duplicate_at} - {""}
                seen["between cores"] += len(ends) > 1
                seen["accumulate"] += each.accumulate
                seen["duplicate"] += each.duplicate is not None
                seen["code"] += each.brings_code
            elif isinstance(each, Command):
                seen[each.word] += 1
        for section in joint.module.sections:
            for each in section.module.program.instructions:
                seen["posts to others"] += any(isinstance(p, RemotePost) for p in each.posts)
        for stall in trace.stalls:
            is_move = isinstance(joint.program.instructions[stall.instruction], DmaMove)
            seen["refused at another core"] += split(stall.buffer)[0] != split(stall.unit)[0]
            seen["refused by DMA"] += is_move and stall.winner.endswith(".dma")
        seen["clocks"] += len(set(trace.periods.values())) > 1
        seen["bursts"] += any(each.bursts for each in trace.transfers.channels.values())
        seen["several programs"] += len({launch.at for launch in joint.launches}) < len(
            joint.launches
        )
    assert len(seen) == 16, seen
    assert min(seen.values()) > 5, seen
