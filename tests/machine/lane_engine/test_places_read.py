"""Is the cycle right? Places that are read as they are needed, while engines want the same ports.

Random programs of the instructions whose places are numbers, on two engines and one or two banks:
both models leave the same trace, and the values are those of each instruction on its own.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from support.chips import able_chip
from support.compare_traces import assert_same
from support.tiers import quick_first
from systolic.hw.spec import Chip
from systolic.isa import (
    Access,
    Buffer,
    Copy,
    CopyDynamicDst,
    CopyDynamicSrc,
    Instruction,
    LocalGather,
    Program,
    TopK,
    check_program,
    lint,
)
from systolic.machine import Image, simulate
from systolic.trace.words import KINDS

MOST = 20
TABLE, NUMBERS, TARGETS = 0, 1024, 2048
"""Bytes of each bank: inputs, indices and offsets, results."""


def words(start: int, count: int, dtype: str = "f32", lanes: int = 8) -> Access:
    return Access(Buffer.STATE, dtype, 0, lanes, start, ((1, count),))


class Programs:
    """Instructions whose sources are inputs, each with a target of its own."""

    def __init__(self, rng: Random, chip: Chip) -> None:
        self.rng, self.bank = rng, chip.state_buffer.bank_bytes
        self.banks, self.made = chip.state_buffer.banks, 0

    def place(self, part: int) -> int:
        return self.rng.randrange(self.banks) * self.bank + part

    def target(self, count: int, dtype: str = "f32") -> Access:
        self.made += 1
        return words(self.place(TARGETS + 256 * self.made), count, dtype)

    def one(self) -> Instruction:
        rng, engine = self.rng, self.rng.choice(["activation", "pooling"])
        kind, count = rng.randrange(5), rng.randint(1, 24)
        source = words(self.place(TABLE + 4 * rng.randint(0, 9)), count)
        offset = words(self.place(NUMBERS), 1, "s32", lanes=1)
        if kind == 0:
            return Copy(engine=engine, source=source, target=self.target(count))
        if kind == 1:
            return CopyDynamicSrc(
                engine=engine, source=source, offset=offset, most=MOST, target=self.target(count)
            )
        if kind == 2:
            return CopyDynamicDst(
                engine=engine, source=source, target=self.target(count), offset=offset, most=MOST
            )
        group, each = rng.choice([1, 2, 4, 8]), rng.choice([1, 2, 4])
        if kind == 3:
            count = rng.randint(1, 16)
            return LocalGather(
                engine=engine, source=words(self.place(TABLE), MOST + each), each=each, group=group,
                index=words(self.place(NUMBERS), -(-count // group), "s32"),
                target=self.target(count * each),
            )  # fmt: skip
        count = rng.randint(8, 24)
        k = rng.randint(1, count)
        return TopK(
            engine=engine, source=words(self.place(TABLE), -(-count // group), "bf16"), count=count,
            target=self.target(-(-k // group), "bf16"), k=k, group=group,
            indices=self.target(-(-k // group), "s32"),
        )  # fmt: skip


def random_chip(rng: Random) -> Chip:
    engines: dict[str, Any] = {
        name: {
            "latency_cycles": rng.randint(1, 4),
            "elements_per_cycle": rng.choice([1, 1, 2, 3]),
            "independent_lanes": rng.random() < 0.5,
            "fixed_cycles": rng.choice([0, 0, 3]),
        }
        for name in ("activation", "pooling")
    }
    buffer = {"banks": rng.choice([1, 2]), "port_scope": rng.choice(["bank", "partition"])}
    return able_chip(8, 8, state_buffer=buffer, **engines)


@pytest.mark.parametrize("seed", quick_first(range(24), 6))
def test_both_models_and_each_instruction_on_its_own(seed: int) -> None:
    rng = Random(seed)
    chip = random_chip(rng)
    programs = Programs(rng, chip)
    program = Program("p", tuple(programs.one() for _ in range(8)))
    check_program(program, chip)
    numbers, images = np.random.default_rng(seed), []
    for bank in range(chip.state_buffer.banks):
        at = bank * chip.state_buffer.bank_bytes
        table = numbers.integers(-9, 9, (8, 64)).astype(np.float32)
        images.append(Image(words(at + TABLE, 64), table))
        index = numbers.integers(0, MOST + 1, (8, 16)).astype(np.int32)
        images.append(Image(words(at + NUMBERS, 16, "s32"), index))
    found = [
        simulate(chip, program, images, engine=engine, kinds=KINDS)  # type: ignore[arg-type]
        for engine in ("event", "register")
    ]
    assert_same(*found)
    alone = None
    for instruction in program.instructions:
        before = images if alone is None else [*images, alone]
        outcome = simulate(chip, Program("one", (instruction,)), before)
        whole = Access(Buffer.STATE, "u8", 0, 8, 0, ((1, chip.state_buffer.bytes_per_partition),))
        alone = Image(whole, outcome.memory.read(whole))
    assert alone is not None
    assert np.array_equal(found[0].memory.read(alone.access), alone.values)
    inputs = [image.access for image in images]
    kinds = {d.code for d in lint(program, chip, [*inputs, alone.access])}
    assert not kinds  # different targets, and sources that nothing writes
