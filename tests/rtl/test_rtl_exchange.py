"""Is the cycle right? Two cores in RTL that exchange tiles over a link, against both engines.

Compared are every start, weight read, injection and write of the result buffer of both arrays, with
its value, and of every copy its start, its first byte and its last. The RTL has sequencers, state
buffers, semaphores, DMA queues, ports and the pools of the link, and gets nothing of any other
model's run.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from rtl_build import Tool
from rtl_exchange import STRAPS, Numbers, chip_of, exchange, images, run_rtl, told_by

from support.tiers import quick_first
from systolic.machine.simulate_chip import simulate_chip
from systolic.trace.words import KINDS

pytestmark = pytest.mark.rtl
BATCHES, OF_EACH = 8, 10


def differences(seed: int, tool: Tool, strap: str = "") -> list[str]:
    """Return what differs between the RTL and an engine, for one random program."""
    rng = Random(seed)
    numbers, module, contents = Numbers.draw(rng), exchange(rng), images(seed)
    rtl = run_rtl(module, contents, numbers, tool, strap)
    found = []
    for engine in ("event", "register"):
        outcome = simulate_chip(chip_of(numbers), module, contents, engine=engine, kinds=KINDS)
        told = told_by(outcome)
        found += [f"{seed} {numbers} {engine}: {what}" for what in rtl if told[what] != rtl[what]]
    return found


@pytest.mark.parametrize("batch", quick_first(range(BATCHES), 1))
def test_random_exchanges(batch: int, need: Callable[[str], str]) -> None:
    need("icarus")
    for seed in range(batch, BATCHES * OF_EACH, BATCHES):
        assert not differences(seed, "icarus")


def test_an_exchange_under_both_tools(tool: Tool) -> None:
    for seed in range(200, 204):
        assert not differences(seed, tool)


@pytest.mark.parametrize("strap", STRAPS)
def test_a_rule_bent_by_a_cycle_is_noticed(strap: str, need: Callable[[str], str]) -> None:
    """An early post of the other core, a share held too short, the rest of a pool dealt out."""
    need("icarus")
    assert any(differences(seed, "icarus", strap) for seed in range(20))
