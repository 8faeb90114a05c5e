"""Is the cycle right? Cores that do not talk, and share nothing, have the traces they have alone.

Bit for bit: random programs on random chips on both engines, and all shipped runs on the event
engine, each beside itself on a chip of two cores.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from support.cores_alone import beside_itself, records, records_of, uncoupled
from support.random_programs import RandomProgram, random_chip, spread_over_engines
from support.random_sequencing import sequenced
from support.random_table import TableProgram, whole_chip
from support.random_transfers import RandomTransfers, organised_chip
from support.shared_posts import with_shared_posts
from support.tiers import quick_first
from systolic.compiler import compile_graph
from systolic.config import load_run
from systolic.hw.spec import Chip
from systolic.isa import Buffer, Program
from systolic.machine import Image, simulate
from systolic.machine.simulate_chip import simulate_chip
from systolic.shipped import CONFIGS

COPIES = 2


def made(seed: int) -> tuple[Chip, Program, list[Image]]:
    rng = Random(seed)
    if seed % 3 == 0:
        chip = whole_chip(rng, clocks=seed % 2 == 0)
        program, images = TableProgram(rng, chip).build(rng.randint(3, 30))
    else:
        chip = random_chip(rng, clocks=seed % 4 == 0, largest=4, engines=seed % 2 == 1)
        if seed % 5 == 0:
            chip = spread_over_engines(chip, rng)
        if seed % 4 in (1, 2):
            chip = sequenced(chip, rng)
        program, images = RandomProgram(rng, chip, elementwise=True).build(rng.randint(3, 30))
    return with_enough_shares(chip), with_shared_posts(program, chip, rng), images


def with_enough_shares(chip: Chip) -> Chip:
    """Return a chip whose DRAM has a byte in every cycle for each share on a chip of several."""
    if chip.dram.organisation is not None:
        return chip
    parts = chip.model_dump()
    shares = 2 * COPIES * parts["dma"]["queues"]
    parts["dram"]["bytes_per_cycle"] = max(shares, parts["dram"]["bytes_per_cycle"])
    return Chip.model_validate(parts)


def made_with_banks(seed: int) -> tuple[Chip, Program, list[Image]]:
    rng = Random(f"banks {seed}")
    chip = organised_chip(rng, clocks=seed % 2 == 0)
    program, images = RandomTransfers(rng, chip).build(rng.randint(2, 14))
    return chip, program, images


def hold_against_alone(
    chip: Chip, program: Program, images: list[Image], engine: str, *, values: bool = True
) -> None:
    alone = simulate(chip, program, images, engine=engine, values=values)  # type: ignore[arg-type]
    module, contents = beside_itself(chip, program, images, COPIES)
    outcome = simulate_chip(
        uncoupled(chip, COPIES), module, contents, engine=engine, values=values  # type: ignore[arg-type]
    )  # fmt: skip
    assert outcome.trace.ticks == alone.trace.ticks
    expected = records(alone.trace)
    counts = len(program.instructions), len(program.semaphores)
    for number in range(COPIES):
        found = records_of(outcome.trace, number, *counts, cores=COPIES)
        for name, wanted in expected.items():
            assert found[name] == wanted, (number, name)
    if values:
        for memory in outcome.memory.cores:
            for buffer in (Buffer.STATE, Buffer.RESULT):
                mine, theirs = memory.bytes_of(buffer), alone.memory.bytes_of(buffer)
                assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("seed", quick_first(range(60), 10))
def test_random_programs_beside_themselves(seed: int, engine: str) -> None:
    hold_against_alone(*made(seed), engine)


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("seed", quick_first(range(60), 10))
def test_random_transfers_from_banks_beside_themselves(seed: int, engine: str) -> None:
    hold_against_alone(*made_with_banks(seed), engine)


def shipped() -> list[str]:
    """Return the names of runs whose chips may have several cores."""
    folders = CONFIGS / "runs", CONFIGS / "networks"
    return sorted(f"{folder.name}/{p.stem}" for folder in folders for p in folder.glob("*.toml"))


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped())
def test_shipped_runs_beside_themselves(name: str) -> None:
    config = load_run(CONFIGS / f"{name}.toml")
    compiled = compile_graph(name, config.graph, config.chip, config.options)
    hold_against_alone(with_enough_shares(config.chip), compiled.program, [], "event", values=False)
