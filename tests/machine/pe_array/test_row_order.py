"""Is the value right? The row-order product against scalar loops and exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.machine.event.pe_array import row_order_numba as kernel_numba
from systolic.machine.event.pe_array.row_order import row_order_product

SIZES = [(1, 1, 1), (3, 4, 5), (8, 7, 9), (13, 126, 64), (16, 128, 64)]


def _loops(moving: np.ndarray, weights: np.ndarray, dtype: type) -> np.ndarray:
    """Return [N, M], accumulated scalar by scalar: one rounding for product, one for the sum."""
    K, M = moving.shape
    sums = np.zeros((weights.shape[1], M), dtype)
    with np.errstate(all="ignore"):
        for m in range(M):
            for c in range(weights.shape[1]):
                total = dtype(0)
                for r in range(K):
                    total = dtype(total + dtype(dtype(moving[r, m]) * dtype(weights[r, c])))
                sums[c, m] = total
    return sums


@pytest.mark.parametrize(("M", "K", "N"), SIZES[:3])
def test_float32_equals_scalar_loops(M, K, N):
    rng = np.random.default_rng(M)
    x = rng.standard_normal((K, M)).astype(np.float32) * np.float32(1e3)
    w = rng.standard_normal((K, N)).astype(np.float32)
    assert np.array_equal(
        row_order_product(x, w, "f32").view(np.uint32), _loops(x, w, np.float32).view(np.uint32)
    )


@pytest.mark.parametrize(("M", "K", "N"), SIZES)
def test_compiled_form_has_the_same_bits(M, K, N):
    rng = np.random.default_rng(M)
    x = rng.standard_normal((K, M)).astype(np.float32)
    w = rng.standard_normal((K, N)).astype(np.float32)
    w[0, 0], x[-1, -1] = 1e-42, -1e-42
    sums = np.zeros((N, M), np.float32)
    kernel_numba.product(np.ascontiguousarray(w.T), x, sums)
    assert np.array_equal(sums.view(np.uint32), row_order_product(x, w, "f32").view(np.uint32))


def test_order_is_the_rows():
    """2^24 + 1 + 1 is 2^24 in float32 from the left, 2^24 + 2 from the right."""
    x = np.ones((3, 1), np.float32)
    w = np.array([[2**24], [1], [1]], np.float32)
    assert row_order_product(x, w, "f32")[0, 0] == 2**24
    assert row_order_product(x, w[::-1], "f32")[0, 0] == 2**24 + 2


@pytest.mark.parametrize("compiled", [False, True])
def test_int32_wraps(compiled):
    x = np.full((3, 2), 2**20, np.int32)
    w = np.full((3, 1), 2**12 - 1, np.int32)
    expected = (3 * 2**20 * (2**12 - 1) + 2**31) % 2**32 - 2**31
    sums = np.zeros((1, 2), np.int32)
    if compiled:
        kernel_numba.product(np.ascontiguousarray(w.T), x, sums)
    else:
        sums = row_order_product(x, w, "s32")
    assert sums.tolist() == [[expected, expected]]


@pytest.mark.parametrize("K", [128, 256, 258, 300])
def test_bytes_in_float32_lose_nothing(K):
    """The largest sums there can be, at the edge of what float32 holds and beyond."""
    x = np.full((K, 3), 255, np.uint8)
    w = np.full((K, 2), 255, np.uint8)
    w[0] = 254
    assert (row_order_product(x, w, "s32") == (K - 1) * 255 * 255 + 255 * 254).all()
    signed = row_order_product(np.full((K, 3), -128, np.int8), w, "s32")
    assert (signed == -128 * (255 * (K - 1) + 254)).all()


def _nearest_float32(value: Fraction) -> np.float32:
    """Return the float32 nearest to an exact value, ties to even."""
    guess = np.float32(float(value))
    candidates = [np.nextafter(guess, np.float32(d)) for d in (-np.inf, np.inf)] + [guess]
    return min(
        candidates,
        key=lambda c: (abs(Fraction(float(c)) - value), int(np.float32(c).view(np.uint32)) & 1),
    )


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(*[st.floats(-1e6, 1e6, width=32)] * 2), min_size=1, max_size=6))
def test_fused_rounds_once(pairs):
    x = np.array([[a] for a, _ in pairs], np.float32)
    w = np.array([[b] for _, b in pairs], np.float32)
    total = np.float32(0)
    for a, b in zip(x[:, 0], w[:, 0], strict=True):
        total = _nearest_float32(Fraction(float(total)) + Fraction(float(a)) * Fraction(float(b)))
    assert row_order_product(x, w, "f32", fused=True)[0, 0] == total


def test_fused_differs_where_it_should():
    """(1 + 2^-12)^2 - (1 + 2^-11): two roundings lose the 2^-24 that one rounding keeps."""
    a = np.float32(1 + 2**-12)
    x = np.array([[1], [a]], np.float32)
    w = np.array([[-(1 + 2**-11)], [a]], np.float32)
    assert row_order_product(x, w, "f32")[0, 0] == 0
    assert row_order_product(x, w, "f32", fused=True)[0, 0] == np.float32(2**-24)
