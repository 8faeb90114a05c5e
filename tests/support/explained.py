"""Runs to be explained: random programs, and chips on which nothing but causes decides."""

from __future__ import annotations

from random import Random
from typing import Any

from support.random_programs import RandomProgram, random_chip
from support.random_sequencing import sequenced
from support.random_transfers import random_organisation
from systolic.critical_path.points import Lives
from systolic.hw.spec import Chip
from systolic.isa import Program
from systolic.machine import simulate
from systolic.machine.spared import NOTHING, Spared


def random_run(seed: int, **settings: Any) -> Lives:
    """Return a finished run of a random program on a chip that draws every key."""
    rng = Random(seed)
    chip = random_chip(rng, clocks=seed % 3 == 0, engines=seed % 2 == 1)
    if seed % 5 == 0:
        parts = chip.model_dump()
        parts["dram"] |= random_organisation(Random(seed))
        chip = Chip.model_validate(parts)
    if seed % 4 in (1, 2):
        chip = sequenced(chip, Random(seed))
    program, _ = RandomProgram(rng, chip, elementwise=seed % 2 == 0).build(rng.randint(3, 40))
    return lives(chip, program, **settings)


def lives(chip: Chip, program: Program, spared: Spared = NOTHING) -> Lives:
    """Return a finished run of a program, for its times."""
    return Lives(chip, program, simulate(chip, program, values=False, spared=spared).trace)


def unshared(seed: int, **keys: Any) -> tuple[Chip, Program]:
    """Return a random program, and a chip with one clock, no fetch, and no bandwidth shared.

    Where no port is refused either, the run's length is a matter of causes alone: no instruction
    can come later because another came earlier.
    """
    rng = Random(seed)
    chip = random_chip(rng, engines=True)
    if seed % 2:
        chip = sequenced(chip, Random(seed))
    parts = chip.model_dump() | {"fetch": None} | keys
    parts["dma"] |= {"engines": None}
    parts["dram"] |= {"bytes_per_cycle": 2 * chip.dma.queues * chip.dma.bytes_per_cycle}
    chip = Chip.model_validate(parts)
    program, _ = RandomProgram(rng, chip, elementwise=seed % 2 == 0).build(rng.randint(5, 40))
    return chip, program


def with_keys(chip: Chip, **tables: Any) -> Chip:
    """Return a chip with other values; a dict of a table that is one is added to it."""
    parts = chip.model_dump()
    for table, values in tables.items():
        parts[table] = parts[table] | values if isinstance(values, dict) else values
    return Chip.model_validate(parts)
