"""Do the registers hold what the timing model says, in every cycle of every PE?"""

from __future__ import annotations

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.isa import LoadWeights, MatMul, Program
from systolic.machine import Image
from systolic.machine.memory import Memory
from systolic.machine.register import run_register
from systolic.machine.register.pe_array import multiply_numba
from systolic.machine.register.pe_array.multiply import MANY_PRODUCTS, plain_step
from systolic.trace.recorder import Recorder

R, C, K, N, M = 4, 6, 3, 5, 4
MOVING = 8192
RNG = np.random.default_rng(3)
WEIGHTS = RNG.integers(1, 9, (K, N)).astype(np.float32)
VECTORS = RNG.integers(1, 9, (K, M)).astype(np.float32)
CHIPS = [
    {},
    {"fast_load": 2},
    {"weight_path": "top"},
    {"weight_path": "top", "fast_load": 2, "hop": (2, 3), "cell": (2, 3)},
    {"hop": (2, 3), "entry_cycles": 2},
    {"cell": (2, 3), "fast_load": 3},
    {"weight_buffer": "single"},
    {"weight_buffer": "serial", "hop": (1, 2)},
]


def watch(chip, program, images):
    """Return the grid at the end of every cycle of the array."""
    states = []
    memory = Memory(chip, program, images)
    recorder = Recorder(chip.units)
    run_register(
        chip, program, memory, recorder, observer=lambda cycle, grid: states.append((cycle, grid))
    )
    assert [cycle for cycle, _ in states] == list(range(len(states)))
    return [grid for _, grid in states]


def one_tile(**keys):
    """Return the states of one load and multiply, the delay of each PE, and e[0]."""
    chip = ideal_chip(R, C, pe_array=keys)
    down, right = keys.get("hop", (1, 1))
    TR, TC = keys.get("cell", (1, 1))
    rows, cols = np.arange(R)[:, None], np.arange(C)
    delay = keys.get("entry_cycles", 0) + down * (rows // TR) + right * (cols // TC)
    f, top = keys.get("fast_load", 1), keys.get("weight_path") == "top"
    read = (rows + 0 * cols if top else 0 * rows + cols) // f
    images = [Image(state(0, K, 0, N), WEIGHTS), Image(state(0, K, MOVING, M), VECTORS)]
    instructions = (
        LoadWeights(weights=images[0].access),
        MatMul(moving=images[1].access, result=psum(0, N, 0, M)),
    )
    states = watch(chip, Program("grid", instructions), images)
    return states, delay, read, -(-(K if top else N) // f)


def in_tile(plane):
    """Return [R, C] with the tile in its corner and zeros around it."""
    whole = np.zeros((R, C), np.float32)
    whole[:K, :N] = plane
    return whole


@pytest.mark.parametrize("keys", CHIPS)
def test_weights_travel_and_are_exchanged_on_time(keys):
    states, delay, read, start = one_tile(**keys)
    tile = in_tile(WEIGHTS)
    for cycle, grid in enumerate(states):
        loaded = np.where(cycle >= read + delay, tile, 0)
        if keys.get("weight_buffer", "double") == "double":
            assert np.array_equal(grid.shadow, loaded), cycle
            assert np.array_equal(grid.weight, np.where(cycle >= start + delay, tile, 0)), cycle
        else:
            assert not grid.shadow.any()
            assert np.array_equal(grid.weight, loaded), cycle


@pytest.mark.parametrize("keys", CHIPS)
def test_vectors_sweep_the_grid(keys):
    states, delay, _, start = one_tile(**keys)
    vectors = np.zeros((R, M), np.float32)
    vectors[:K] = VECTORS
    partial = np.cumsum(in_tile(WEIGHTS)[:, :, None] * vectors[:, None, :], axis=0)
    rows, cols = np.indices((R, C))
    for cycle, grid in enumerate(states):
        vector = cycle - start - delay
        there = (vector >= 0) & (vector < M) & (cols < N)
        m = np.where(there, vector, 0)
        assert np.array_equal(grid.valid, there), cycle
        assert np.array_equal(grid.vector, np.where(there, vector, -1)), cycle
        assert np.array_equal(grid.matmul, np.where(there, 1, -1)), cycle
        assert np.array_equal(grid.moving, np.where(there, vectors[rows, m], 0)), cycle
        assert np.array_equal(grid.sum, np.where(there, partial[rows, cols, m], 0)), cycle


def test_vectors_of_different_width_pass_one_another_unharmed():
    chip = ideal_chip(R, C)
    weights = np.ones((R, C), np.float32)
    vectors = np.arange(1, 4 * M + 1, dtype=np.float32).reshape(R, M)
    images = [Image(state(0, R, 0, C), weights), Image(state(0, R, MOVING, M), vectors)]
    widths = (2, 6, 3, 1)
    multiplies = [
        MatMul(moving=state(0, R, MOVING + 4 * n, 1), result=psum(0, width, n, 1))
        for n, width in enumerate(widths)
    ]
    program = Program("grid", (LoadWeights(weights=images[0].access), *multiplies))
    rows, cols = np.indices((R, C))
    for cycle, grid in enumerate(watch(chip, program, images)):
        vector = cycle - C - rows - cols
        there = (vector >= 0) & (vector < 4)
        m = np.where(there, vector, 0)
        there &= cols < np.array(widths)[m]
        assert np.array_equal(grid.valid, there)
        assert np.array_equal(grid.moving, np.where(there, vectors[rows, m], 0)), cycle
        partial = np.cumsum(vectors, axis=0)[rows, m]
        assert np.array_equal(grid.sum, np.where(there, partial, 0)), cycle


def test_a_shadow_write_in_the_cycle_of_the_exchange_lands_after_it():
    chip = ideal_chip(2, 2)
    first, second = np.float32([[1, 2], [3, 4]]), np.float32([[5, 6], [7, 8]])
    images = [
        Image(state(0, 2, 0, 2), first),
        Image(state(0, 2, 64, 2), second),
        Image(state(0, 2, MOVING, 4), np.ones((2, 4), np.float32)),
    ]
    program = Program(
        "grid",
        (
            LoadWeights(weights=images[0].access),
            MatMul(moving=images[2].access, result=psum(0, 2, 0, 4)),
            LoadWeights(weights=images[1].access),
        ),
    )
    states = watch(chip, program, images)
    # e[0] = 2 and the second load reads in 2 and 3: PE (0, 0) exchanges and is written in cycle 2
    assert (states[2].weight[0, 0], states[2].shadow[0, 0]) == (1, 5)
    assert np.array_equal(states[5].weight, first)
    assert np.array_equal(states[5].shadow, second)


def test_a_run_with_both_accumulators_is_seen_as_numbers():
    chip = ideal_chip(2, 2)
    images = [
        Image(state(0, 2, 0, 2, "s8"), np.int8([[1, -2], [3, -4]])),
        Image(state(0, 2, 64, 2), np.float32([[0.5, 1.5], [2.5, 3.5]])),
        Image(state(0, 2, MOVING, 1, "s8"), np.int8([[-1], [-1]])),
        Image(state(0, 2, MOVING + 64, 1), np.float32([[0.25], [0.25]])),
    ]
    program = Program(
        "mixed",
        (
            LoadWeights(weights=images[0].access),
            MatMul(moving=images[2].access, result=psum(0, 2, 0, 1, "s32")),
            LoadWeights(weights=images[1].access),
            MatMul(moving=images[3].access, result=psum(0, 2, 1, 1)),
        ),
    )
    states = watch(chip, program, images)
    # exchanges begin in cycles 2 and 4 and reach PE (r, c) r + c cycles later
    assert states[3].weight.tolist() == [[1, -2], [3, 0]]
    assert states[4].weight.tolist() == [[0.5, -2], [3, -4]]
    assert states[-1].weight.tolist() == [[0.5, 1.5], [2.5, 3.5]]
    # vectors enter in the same cycles: in cycle 4 PE (1, 1) still adds integers, 2 + 4
    assert states[4].sum.tolist() == [[0.125, 0], [0, 6]]
    assert states[4].valid.tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_the_compiled_step_has_the_bits_of_numpy(dtype):
    """Two roundings (one would keep the 2^-24), subnormals, infinities; integers wrap."""
    bits = np.random.default_rng(1).integers(-(1 << 31), 1 << 31, (3, 4096)).astype(np.int32)
    moving, weight, sums = bits.view(dtype)
    a = 1 + 2**-12
    if dtype is np.float32:
        moving[:4], weight[:4] = [a, 1e-30, np.inf, -1], [a, 1e-12, 1, 0]
        sums[:4] = [-(1 + 2**-11), 1e-42, 1, 0]
    with np.errstate(all="ignore"):
        expected = sums + moving * weight
    multiply_numba.step(moving, weight, sums)
    assert np.array_equal(sums, expected, equal_nan=True)
    assert (np.signbit(sums) == np.signbit(expected))[~np.isnan(expected)].all()
    assert dtype is np.int32 or sums[0] == 0


def test_large_runs_are_compiled():
    assert plain_step(MANY_PRODUCTS) is multiply_numba.step
    assert plain_step(MANY_PRODUCTS - 1) is not multiply_numba.step
