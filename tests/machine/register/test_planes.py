"""Does a NaN among the weights stay hidden when the register engine moves its planes back?

Every SPARE cycles of a stream it moves them, and then looks whether any weight is still a NaN or
an infinity. One that it overlooked would show in idle rows: 0 times NaN, added to every sum.
"""

from __future__ import annotations

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.isa import Access, Buffer, LoadWeights, MatMul, Post, Program, Wait
from systolic.machine import Image, simulate
from systolic.machine.register.pe_array.grid import SPARE

MOVING, WILD = 8192, 16384
VECTORS = SPARE + 64
"""Of the stream during which the planes are moved: once, since the last vectors are on their way
for fewer than SPARE cycles more."""
TAME = np.float32([[2, 3, 5, 7], [4, 5, 6, 8]])


def wild(value):
    """Return weights of four rows; a multiply with two rows must not notice the others."""
    return np.concatenate([TAME, np.full((2, 4), value, np.float32)])


def run(chip, instructions, value):
    """Return the two results; memory holds the weights and a stream of two rows of ones."""
    images = [
        Image(state(0, 2, 0, 4), TAME),
        Image(state(0, 4, WILD, 4), wild(value)),
        Image(state(0, 2, MOVING, 1), np.ones((2, 1), np.float32)),
    ]
    program = Program("long", instructions, ("rows",))
    memory = simulate(chip, program, images, engine="register").memory
    return memory.read(psum(0, 4, 0, VECTORS)), memory.read(psum(0, 4, VECTORS, 4))


def stream(**links):
    """Return a multiply of VECTORS times the same vector."""
    moving = Access(Buffer.STATE, "f32", 0, 2, MOVING, ((0, VECTORS),))
    return MatMul(moving=moving, result=psum(0, 4, 0, VECTORS), **links)


def after():
    """Return a short multiply of two rows."""
    moving = Access(Buffer.STATE, "f32", 0, 2, MOVING, ((0, 4),))
    return MatMul(moving=moving, result=psum(0, 4, VECTORS, 4))


def all_are_right(results):
    sums = TAME.sum(axis=0)
    return all(np.array_equal(r, np.repeat(sums[:, None], r.shape[1], axis=1)) for r in results)


tame = LoadWeights(weights=state(0, 2, 0, 4))
wild_load = LoadWeights(weights=state(0, 4, WILD, 4))


def chip_of(buffer="double", path="left", entry=0):
    return ideal_chip(
        4,
        4,
        pe_array={"weight_buffer": buffer, "weight_path": path, "entry_cycles": entry},
        result_buffer={"bank_bytes": 4 * 1024},
    )


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("buffer", ["double", "single"])
@pytest.mark.parametrize("path", ["left", "top"])
def test_among_the_weights_in_use(value, buffer, path):
    chip = chip_of(buffer, path)
    assert all_are_right(run(chip, (wild_load, stream(), after()), value))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("path", ["left", "top"])
def test_in_the_shadow(value, path):
    """Loaded while the stream runs, exchanged after it, stale in rows 2 and 3 from then on."""
    program = (tame, stream(), wild_load, after())
    assert all_are_right(run(chip_of(path=path), program, value))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("path", ["left", "top"])
def test_on_their_way(value, path):
    """Read 12 to 9 cycles before the planes are moved, through 40 registers before the first PE."""
    entry, moved_at = 40, 4 + SPARE
    behind = entry + 4 - 1 + 3 + 1  # from injection until others see that a row is complete
    rows = moved_at - 12 - (4 + behind) + 1
    waiting = LoadWeights(weights=wild_load.weights, waits=(Wait(0, rows),))
    program = (tame, stream(posts=(Post(0, "row"),)), waiting, after())
    if path == "top":  # two rows are read in two cycles, so all is earlier by two
        moved_at -= 2
    chip = chip_of(path=path, entry=entry)
    times = simulate(chip, Program("when", program, ("rows",)), values=False).trace.times
    assert times[1].first == moved_at - SPARE
    assert (times[2].first, times[2].last) == (moved_at - 12, moved_at - 9)
    assert all_are_right(run(chip, program, value))
