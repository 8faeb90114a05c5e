"""Are the register engine's values right, bit for bit, with any other work in the grid?"""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.hw.datatypes import data_type
from systolic.isa import LoadWeights, MatMul, Program
from systolic.machine import Image, simulate
from systolic.machine.register.pe_array.multiply import fused_multiply_add

MOVING = 8192


def product(chip, weights, vectors, dtype, accumulate_on=None):
    """Return the PSUM words [N, M] after one load and multiply."""
    (K, N), M = weights.shape, vectors.shape[1]
    accumulator = data_type(dtype).accumulator
    result = psum(0, N, 0, M, accumulator)
    images = [
        Image(state(0, K, 0, N, dtype), weights),
        Image(state(0, K, MOVING, M, dtype), vectors),
    ]
    if accumulate_on is not None:
        images.append(Image(result, accumulate_on))
    program = Program(
        "values",
        (
            LoadWeights(weights=images[0].access),
            MatMul(moving=images[1].access, result=result, accumulate=accumulate_on is not None),
        ),
    )
    return simulate(chip, program, images, engine="register").memory.read(result)


def in_row_order(weights, vectors, kind):
    """Return [N, M]: column sums from +0, row by row, a rounding per product and per addition."""
    total = np.zeros((weights.shape[1], vectors.shape[1]), kind)
    with np.errstate(all="ignore"):
        for row, vector in zip(weights.astype(kind), vectors.astype(kind), strict=True):
            total = total + row[:, None] * vector[None, :]
    return total


def same(found, wanted):
    """Equal bit for bit; any NaN is a NaN."""
    assert found.dtype == wanted.dtype
    if found.dtype.kind == "f":
        assert np.array_equal(np.isnan(found), np.isnan(wanted))
        found, wanted = (np.where(np.isnan(a), np.float32(0), a) for a in (found, wanted))
    assert np.array_equal(found.view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f8e4m3fn", "s8", "u8"])
@pytest.mark.parametrize("shape", [{}, {"hop": (2, 1), "cell": (2, 2)}])
def test_values_are_those_of_row_order(dtype, shape):
    rng = np.random.default_rng(1)
    numpy, chip = data_type(dtype).numpy, ideal_chip(8, 6, pe_array=shape)
    scale = 100 if numpy.kind in "iu" else 1
    weights = (scale * rng.standard_normal((7, 5))).astype(numpy)
    vectors = (scale * rng.standard_normal((7, 9))).astype(numpy)
    kind = np.float32 if data_type(dtype).accumulator == "f32" else np.int32
    same(product(chip, weights, vectors, dtype), in_row_order(weights, vectors, kind))


def test_the_order_of_addition_shows():
    weights = np.float32([[1e8], [1], [-1e8], [1]])
    found = product(ideal_chip(4, 1), weights, np.ones((4, 1), np.float32), "f32")
    # 1e8 + 1 = 1e8; - 1e8 = 0; + 1 = 1
    assert found == 1


def test_integers_wrap():
    chip = ideal_chip(2, 1, pe_array={"cycles_per_vector": {"s32": 1}})
    weights, vectors = np.int32([[1 << 30], [1 << 30]]), np.int32([[1], [1]])
    assert product(chip, weights, vectors, "s32") == np.int32(-(1 << 31))


def test_subnormals_are_kept_and_minus_zero_becomes_plus_zero():
    weights = np.float32([[1e-45, -0.0]])
    found = product(ideal_chip(1, 2), weights, np.float32([[1]]), "f32")
    assert found.view(np.uint32).tolist() == [[1], [0]]


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_a_wild_value_stays_in_its_column(special):
    weights = np.arange(16, dtype=np.float32).reshape(4, 4)
    weights[1, 2] = special
    found = product(ideal_chip(4, 4), weights, np.eye(4, dtype=np.float32), "f32")
    assert np.array_equal(np.delete(found, 2, axis=0), np.delete(weights.T, 2, axis=0))
    assert not np.isfinite(found[2, 1])
    assert np.isnan(found[2, [0, 2, 3]]).all()  # infinity times 0


@pytest.mark.parametrize("M", [2, 9])
@pytest.mark.parametrize("accumulate", [False, True])
def test_every_nan_is_stored_alike(M, accumulate):
    """Infinity less infinity, and a payload of one's own; also where all columns are written."""
    weights = np.float32([[np.inf, 0], [1, 1]])
    weights.view(np.uint32)[0, 1] = 0xFFC12345
    vectors = np.ones((2, M), np.float32)
    vectors[1] = -np.inf
    stored = np.zeros((2, M), np.float32) if accumulate else None
    found = product(ideal_chip(2, 2), weights, vectors, "f32", accumulate_on=stored)
    assert (found.view(np.uint32) == 0x7FC00000).all()


@pytest.mark.parametrize("buffer", ["double", "single"])
@pytest.mark.parametrize("fused", [False, True])
def test_stale_wild_weights_never_show(buffer, fused):
    chip = ideal_chip(4, 4, pe_array={"weight_buffer": buffer, "fused_multiply_add": fused})
    wild = np.full((4, 4), np.nan, np.float32)
    wild[::2] = np.inf
    tame, vectors = np.float32([[2, 3], [4, 5]]), np.float32([[1, 2], [3, 4]])
    images = [
        Image(state(0, 4, 0, 4), wild),
        Image(state(0, 2, 64, 2), tame),
        Image(state(0, 2, MOVING, 2), vectors),
    ]
    multiply = MatMul(moving=images[2].access, result=psum(0, 2, 4, 2))
    program = Program(
        "stale",
        (
            LoadWeights(weights=images[0].access),
            MatMul(moving=state(0, 4, MOVING, 1), result=psum(0, 4, 0, 1)),
            LoadWeights(weights=images[1].access),
            multiply,
        ),
    )
    memory = simulate(chip, program, images, engine="register").memory
    same(memory.read(multiply.result), in_row_order(tame, vectors, np.float32))


def test_wild_weights_are_forgotten_once_they_are_overwritten():
    wild, tame = np.full((2, 2), np.nan, np.float32), np.float32([[1, 2], [3, 4]])
    vectors = np.ones((2, 300), np.float32)
    images = [
        Image(state(0, 2, 0, 2), wild),
        Image(state(0, 2, 64, 2), tame),
        Image(state(0, 2, MOVING, 300), vectors),
    ]
    multiply = MatMul(moving=images[2].access, result=psum(0, 2, 0, 300))
    loads = [LoadWeights(weights=images[n].access) for n in (0, 1, 1)]
    program = Program("forget", (loads[0], multiply, loads[1], multiply, loads[2], multiply))
    memory = simulate(ideal_chip(2, 2), program, images, engine="register").memory
    same(memory.read(multiply.result), in_row_order(tame, vectors, np.float32))


def test_accumulation_adds_the_finished_sum_once():
    stored = np.float32([[1e8, 3]])
    weights, vectors = np.float32([[3], [3]]), np.float32([[1, 1], [1, 1]])
    found = product(ideal_chip(2, 1), weights, vectors, "f32", accumulate_on=stored)
    # 1e8 + 6 rounds to 100000008; adding 3 twice would give 100000000 + 3 + 3 = 1e8
    assert found.tolist() == [[float(np.float32(1e8) + np.float32(6)), 9]]


def test_integers_accumulate_too():
    stored = np.int32([[(1 << 31) - 1]])
    found = product(ideal_chip(1, 1), np.int8([[2]]), np.int8([[3]]), "s8", accumulate_on=stored)
    assert found == np.int32(-(1 << 31) + 5)


def nearest(exact):
    """Return the float32 nearest to a fraction, ties to even."""
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(s * np.inf)) for s in (-1, 1)]
    return min(
        [near, *around],
        key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(np.uint32)) & 1),
    )


def test_a_fused_multiply_add_rounds_once():
    rng = np.random.default_rng(2)
    x, w, s = (rng.standard_normal(4000).astype(np.float32) for _ in range(3))
    s[1000:2000] = -(x * w)[1000:2000]
    s[2000:3000] *= np.float32(1e-9)
    w[3000:] *= np.float32(1e-40)
    found = fused_multiply_add(x, w, s)
    exact = [
        Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        for a, b, c in zip(x, w, s, strict=True)
    ]
    assert np.array_equal(found, np.array([nearest(value) for value in exact]))


def test_a_fused_multiply_add_does_not_round_twice():
    # (2^12 + 1)(2^24 - 2^12 + 1) = 2^36 + 1: just above half a unit of 1, which float64 cannot see
    x, w = np.float32((2**12 + 1) * 2.0**-30), np.float32((2**24 - 2**12 + 1) * 2.0**-30)
    assert np.float32(np.float64(x) * np.float64(w) + 1.0) == 1
    weights, vectors = np.float32([[1], [w]]), np.float32([[1], [x]])
    chip = ideal_chip(2, 1, pe_array={"fused_multiply_add": True})
    assert product(chip, weights, vectors, "f32") == np.float32(1 + 2.0**-23)
    assert product(ideal_chip(2, 1), weights, vectors, "f32") == 1


def test_a_fused_minus_zero_passes_unused_rows_unchanged():
    chip = ideal_chip(3, 1, pe_array={"fused_multiply_add": True})
    weights, vectors = np.float32([[1e-30]]), np.float32([[-1e-30]])
    assert product(chip, weights, vectors, "f32").view(np.uint32) == 0x80000000


def test_both_accumulators_in_one_grid():
    """Integers follow floats without a gap, so that both are in flight at once."""
    rng = np.random.default_rng(5)
    bf16 = rng.standard_normal((4, 4)).astype(ml_dtypes.bfloat16)
    s8 = rng.integers(-128, 128, (4, 4), dtype=np.int8)
    images = [
        Image(state(0, 4, 0, 4, "bf16"), bf16),
        Image(state(0, 4, 64, 4, "s8"), s8),
        Image(state(0, 4, MOVING, 4, "bf16"), bf16),
        Image(state(0, 4, MOVING + 64, 4, "s8"), s8),
    ]
    results = [psum(0, 4, 0, 4), psum(0, 4, 4, 4, "s32"), psum(0, 4, 8, 4), psum(0, 4, 12, 4)]
    instructions = []
    for turn in (0, 1, 0):
        kind = (0, 1, 2)[len(instructions) // 2]
        instructions += [
            LoadWeights(weights=images[turn].access),
            MatMul(moving=images[2 + turn].access, result=results[kind]),
        ]
    memory = simulate(
        ideal_chip(4, 4), Program("both", tuple(instructions)), images, engine="register"
    ).memory
    floats = in_row_order(bf16, bf16, np.float32)
    same(memory.read(results[0]), floats)
    same(memory.read(results[1]), in_row_order(s8, s8, np.int32))
    same(memory.read(results[2]), floats)
