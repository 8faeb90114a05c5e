"""Operands of instructions of engines as exact numbers, and their results as the bits they must be.

For second statements of what an instruction computes: `support.scalar_lanes` says what an element
is, `support.exact` what a type holds. Three lanes of seven elements, half of them awkward.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from support import exact
from support.chips import able_chip
from systolic.hw.datatypes import data_type
from systolic.isa import Access, Buffer, Program
from systolic.machine import Image, simulate

ENGINES = ("event", "register")
LANES, COUNT = 3, 7
SOURCE, TENSOR, TARGET, REDUCED = 0, 8192, 16384, 24576
SPECIAL = {
    "f32": [0.0, -0.0, 1.0, -1.5, 1e30, -1e30, 3e38, 1e-42, np.inf, -np.inf, np.nan, 2.0**24 + 2],
    "s32": [0, 1, -1, 7, -8, 2**31 - 1, -(2**31), 2**24 + 1],
}


def operand(dtype: str, start: int, count: int = COUNT, lanes: int = LANES) -> Access:
    return Access(Buffer.STATE, dtype, 0, lanes, start, ((1, count),))


def drawn(
    rng: np.random.Generator, dtype: str, count: int = COUNT, lanes: int = LANES
) -> np.ndarray:
    """Return values of a type, [lanes, count]; in some of the places those of `SPECIAL`."""
    numpy, kind = data_type(dtype).numpy, "s32" if dtype in exact.INTEGERS else "f32"
    plain = rng.integers(-9, 9, (lanes, count)) / (1 if kind == "s32" else 8)
    special = rng.choice(SPECIAL[kind], (lanes, count))
    with np.errstate(all="ignore"):
        return np.where(rng.random((lanes, count)) < 0.7, plain, special).astype(numpy)


def numbers(values: np.ndarray, dtype: str) -> list[list[Any]]:
    """Return what the stored patterns are worth, lane by lane."""
    if dtype in exact.INTEGERS:
        return [[int(v) for v in lane] for lane in values]
    bits = values.view(f"u{values.itemsize}")
    return [[exact.value_of(int(b), dtype) for b in lane] for lane in bits]


def patterns(values: np.ndarray) -> list[list[int]]:
    found: list[list[int]] = values.view(f"u{values.itemsize}").tolist()
    return found


def stored(value: Any, dtype: str) -> int:
    """Return the bits of a computed number, cast to a type."""
    source = "s32" if isinstance(value, int) else "f32"
    if dtype in exact.INTEGERS:
        return exact.cast(value, source, dtype) % (1 << exact.INTEGERS[dtype][0])
    return exact.pattern_of(exact.Fraction(value) if isinstance(value, int) else value, dtype)


def run(instruction: Any, values: dict[Access, np.ndarray], turn: int) -> dict[str, np.ndarray]:
    """Return what the instruction leaves in `target` and `reduced`, of one engine or the other."""
    images = [Image(access, array) for access, array in values.items()]
    program = Program("lanes", (instruction,))
    memory = simulate(able_chip(4, 4), program, images, engine=ENGINES[turn % 2]).memory
    names = [name for name in ("target", "reduced") if hasattr(instruction, name)]
    return {name: memory.read(getattr(instruction, name)) for name in names}


def check(found: np.ndarray, wanted: list[list[Any]], dtype: str) -> None:
    assert patterns(found) == [[stored(value, dtype) for value in lane] for lane in wanted]
