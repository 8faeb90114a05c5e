"""Random configurations and programs for the array, from a numpy generator.

What it is: loads, multiplies with and without reuse, partial tiles, accumulation, refused reads and
late semaphores, with operands that include every kind of float.
What it is not: tuned to any engine; every program here is legal for all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rtl_build import TOOLS
from rtl_harness import Load, Mul, RtlConfig, RtlProgram

SMALL = {"state_words": 1024, "result_words": 256}

ARRAYS = {
    "plain": RtlConfig(rows=4, columns=4, **SMALL),
    "one PE": RtlConfig(rows=1, columns=1, **SMALL),
    "one row": RtlConfig(rows=1, columns=5, number_format="float32", **SMALL),
    "one column, top": RtlConfig(rows=5, columns=1, weight_path="top", **SMALL),
    "float": RtlConfig(rows=5, columns=3, number_format="float32", **SMALL),
    "fast left": RtlConfig(rows=4, columns=7, fast=3, psum_write_latency=2, **SMALL),
    "fast top": RtlConfig(rows=7, columns=4, fast=4, weight_path="top", **SMALL),
    "single": RtlConfig(rows=5, columns=4, weight_buffer="single", entry_cycles=2, **SMALL),
    "single top": RtlConfig(rows=4, columns=5, weight_buffer="single", weight_path="top", **SMALL),
    "serial": RtlConfig(rows=4, columns=3, weight_buffer="serial", weight_path="top", **SMALL),
    "hops": RtlConfig(rows=4, columns=5, hop=(3, 2), entry_cycles=1, **SMALL),
    "cells": RtlConfig(rows=6, columns=4, cell=(3, 2), number_format="float32", **SMALL),
    "cells, hops, top": RtlConfig(
        rows=4,
        columns=6,
        cell=(2, 3),
        hop=(2, 3),
        entry_cycles=3,
        weight_path="top",
        fast=3,
        **SMALL,
    ),
    "slow vectors": RtlConfig(
        rows=3,
        columns=3,
        cycles_per_vector=4,
        number_format="float32",
        psum_write_latency=1,
        **SMALL,
    ),
    "middle": RtlConfig(rows=16, columns=12, number_format="float32", **SMALL),
}
"""Every value of every parameter, and every pair that could interact; one Verilator build each."""
QUICK_BUILDS = ("plain", "single", "cells, hops, top", "slow vectors")
"""Arrays that Verilator runs in every test run too: a build takes seconds, one by Icarus none."""


def with_tools(names: Iterable[str], quick: Collection[str]) -> list[Any]:
    """Return parameters (name, tool): Verilator on names that are not `quick` is slow."""
    return [
        pytest.param(
            name,
            tool,
            marks=[pytest.mark.slow] if tool == "verilator" and name not in quick else [],
        )
        for name in names
        for tool in TOOLS
    ]


SPECIAL_PATTERNS = """
    00000000 00000001 00000002 00400000 007fffff 00800000 00800001 1f800000 20000000 33800000
    33ffffff 34000000 34800001 3f7fffff 3f800000 3f800001 3fffffff 4b000000 4b7fffff 4b800000
    5f800000 7f7fffff 7f800000 7f800001 7fc00000 7fffffff
"""  # positive ones; the sign is drawn
SPECIAL_BITS = np.array([int(bits, 16) for bits in SPECIAL_PATTERNS.split()], dtype=np.uint32)


def random_floats(rng: np.random.Generator, shape: tuple[int, ...], wild: float) -> NDArray:
    """float32: mostly ordinary numbers; a share `wild` of any bit pattern and of special ones."""
    values = (rng.standard_normal(shape) * 4).astype(np.float32)
    bits = rng.integers(0, 2**32, shape, dtype=np.uint32)
    special = rng.choice(SPECIAL_BITS, shape) ^ (bits & np.uint32(0x80000000))
    kind = rng.random(shape)
    values = np.where(kind < wild / 2, bits.view(np.float32), values)
    return np.where((kind >= wild / 2) & (kind < wild), special.view(np.float32), values)


def random_state(config: RtlConfig, rng: np.random.Generator, words: int) -> NDArray:
    """(rows, words) of operands."""
    if config.number_format == "float32":
        return random_floats(rng, (config.rows, words), wild=float(rng.choice([0, 0.01, 0.2])))
    return rng.integers(-128, 128, (config.rows, words)).astype(np.int8)


def random_program(
    config: RtlConfig,
    rng: np.random.Generator,
    *,
    instructions: int = 12,
    vectors: int = 12,
    refusals: bool = True,
) -> RtlProgram:
    """A legal program of about `instructions` instructions."""
    words = 4 * (config.columns + vectors)
    queue: list[Load | Mul] = []
    while len(queue) < instructions:
        if rng.random() < 0.55:
            queue.append(random_load(config, rng, words, queue))
        if rng.random() < 0.8:
            queue.append(random_mul(config, rng, words, vectors))
    horizon = 40 * instructions
    density = rng.choice([0.0, 0.1, 0.5, 0.9]) if refusals else 0.0
    moving, weights = rng.random((2, horizon)) < density
    state = random_state(config, rng, words)
    return RtlProgram(
        instructions=tuple(queue), state=state, moving_refused=moving, weight_refused=weights
    )


def partial(size: int, rng: np.random.Generator) -> int:
    """A full extent in half of the cases, else any."""
    return size if rng.random() < 0.5 else int(rng.integers(1, size + 1))


def late(rng: np.random.Generator, instructions: int) -> int:
    """Mostly no wait; else a cycle somewhere in the run."""
    return int(rng.integers(0, 12 * instructions + 8)) if rng.random() < 0.2 else 0


def random_load(
    config: RtlConfig, rng: np.random.Generator, words: int, queue: list[Load | Mul]
) -> Load:
    """A load of a whole or partial tile from anywhere."""
    rows, columns = partial(config.rows, rng), partial(config.columns, rng)
    address = int(rng.integers(0, words - columns + 1))
    return Load(rows=rows, columns=columns, address=address, not_before=late(rng, len(queue)))


def random_mul(config: RtlConfig, rng: np.random.Generator, words: int, vectors: int) -> Mul:
    """A multiply of any extent, now and then accumulating."""
    count = int(rng.integers(1, vectors + 1))
    return Mul(
        rows=partial(config.rows, rng),
        columns=partial(config.columns, rng),
        vectors=count,
        moving_address=int(rng.integers(0, words - count + 1)),
        result_address=int(rng.integers(0, 8)),
        accumulate=bool(rng.random() < 0.5),
        not_before=late(rng, 8),
    )


def random_config(rng: np.random.Generator, largest: int = 6) -> RtlConfig:
    """Any array of at most `largest` cells each way, of every kind."""
    cell = tuple(int(x) for x in rng.choice([1, 1, 2, 3], 2))
    rows, columns = (max(1, int(rng.integers(1, largest + 1)) // t) * t for t in cell)
    return RtlConfig(
        rows=rows,
        columns=columns,
        fast=int(rng.choice([1, 1, 2, 3, 4])),
        weight_path=str(rng.choice(["left", "top"])),
        weight_buffer=str(rng.choice(["double", "double", "single", "serial"])),
        hop=tuple(int(x) for x in rng.choice([1, 1, 2, 3], 2)),
        cell=cell,
        entry_cycles=int(rng.choice([0, 0, 1, 3])),
        number_format=str(rng.choice(["int32", "float32"])),
        psum_write_latency=int(rng.choice([0, 0, 1, 4])),
        cycles_per_vector=int(rng.choice([1, 1, 1, 2, 4])),
        state_words=256,
        result_words=256,
    )
