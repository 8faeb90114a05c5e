"""Is the reference the contract's sum, element by element? Held against an explicit loop."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.workload import differing, max_abs_error, numpy_transpose, reference_transpose

Array = npt.NDArray[Any]
FLOATS = (
    np.float32,
    np.float16,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
)
INTEGERS = (np.int8, np.uint8, np.int32)


def explicit(matrix: Array, boundaries: list[int]) -> Array:
    """Return the transpose of [rows, columns] by the contract's sum, one product at a time."""
    integer = matrix.dtype.kind in "iu"
    wide = np.int32 if integer else np.float32
    out = np.zeros(matrix.shape[::-1], matrix.dtype)
    with np.errstate(all="ignore"):
        for first, stop in pairwise(boundaries):
            for c in range(matrix.shape[1]):
                for i in range(first, stop):
                    total = wide(0)
                    for r in range(first, stop):
                        total = wide(total + wide(1 if r == i else 0) * wide(matrix[r, c]))
                    out[c, i] = np.asarray(total).astype(matrix.dtype)
    return out


def random_bits(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return any bits at all: for floats NaN, infinities, -0.0 and subnormals among them."""
    dtype = np.dtype(dtype)
    bits: Array = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    return bits.view(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_any_bits(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    for rows, cols, boundaries in ((1, 1, [0, 1]), (7, 5, [0, 3, 7]), (9, 4, [0, 1, 8, 9])):
        matrix = random_bits(rng, (rows, cols), dtype)
        found = reference_transpose(matrix, row_blocks=boundaries)
        assert found.dtype == matrix.dtype
        assert differing(found, explicit(matrix, boundaries)) == 0


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0, 0.0])
def test_special_values_one_by_one(dtype: Any, special: float) -> None:
    matrix = np.arange(1, 13).reshape(4, 3).astype(dtype)
    matrix[2, 1] = special
    found = reference_transpose(matrix, row_blocks=[0, 2, 4])
    assert differing(found, explicit(matrix, [0, 2, 4])) == 0


def test_minus_zero_becomes_plus_zero() -> None:
    matrix = np.array([[-0.0, 1.0]], np.float32)
    assert not np.signbit(reference_transpose(matrix)).any()
    assert differing(reference_transpose(matrix), numpy_transpose(matrix)) == 1


def test_minus_zero_beside_a_nan() -> None:
    matrix = np.array([[np.nan, -0.0], [1.0, -0.0]], np.float32)
    assert not np.signbit(reference_transpose(matrix)[1]).any()


def test_nan_spreads_over_its_column_of_its_block_only() -> None:
    matrix = np.ones((4, 3), np.float32)
    matrix[3, 1] = np.inf
    found = reference_transpose(matrix, row_blocks=[0, 2, 4])
    assert np.isnan(found[1]).tolist() == [False, False, True, False]
    assert found[1, 3] == np.inf
    assert np.isfinite(found[[0, 2]]).all()


def test_without_blocks_the_rows_are_one() -> None:
    matrix = np.array([[np.nan], [1.0], [2.0]], np.float32)
    assert np.isnan(reference_transpose(matrix)).all()


def test_rows_may_be_several_axes() -> None:
    rng = np.random.default_rng(2)
    tensor = random_bits(rng, (2, 3, 4, 5), np.float16)
    found = reference_transpose(tensor, (0, 3, 1, 2), row_axes=(1, 2), row_blocks=[0, 5, 12])
    for image in range(2):
        expected = explicit(tensor[image].reshape(12, 5), [0, 5, 12])
        assert differing(found[image].reshape(5, 12), expected) == 0


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 6), st.integers(1, 4), st.data())
def test_any_floats_any_blocks(seed: int, rows: int, cols: int, data: st.DataObject) -> None:
    cuts = data.draw(st.sets(st.integers(1, rows - 1)) if rows > 1 else st.just(set()))
    boundaries = [0, *sorted(cuts), rows]
    matrix = random_bits(np.random.default_rng(seed), (rows, cols), np.float16)
    found = reference_transpose(matrix, row_blocks=boundaries)
    assert differing(found, explicit(matrix, boundaries)) == 0


@pytest.mark.parametrize("shape", [(2, 2), (1, 4), (4, 1)])
def test_data_are_left_alone(shape: tuple[int, int]) -> None:
    for values in ([-0.0, 3.0, 1.0, 2.0], [-0.0, np.nan, 1.0, 2.0]):
        matrix = np.array(values, np.float32).reshape(shape)
        before = matrix.copy()
        reference_transpose(matrix)
        numpy_transpose(matrix)[:] = 7
        assert matrix.tobytes() == before.tobytes()


@pytest.mark.parametrize("blocks", [[0, 3], [1, 4], [0, 2, 2, 4], [0, 3, 2, 4]])
def test_boundaries_must_rise_over_all_rows(blocks: list[int]) -> None:
    with pytest.raises(ValueError, match="row_blocks must rise from 0 to 4"):
        reference_transpose(np.full((4, 1), np.nan, np.float32), row_blocks=blocks)


def test_differing_counts_bits() -> None:
    nan = np.array([0x7FC00000, 0xFFC00001], np.uint32).view(np.float32)
    assert differing(nan, nan[::-1].copy()) == 0
    one, other = np.array([0.0, 1.0, 2.0]), np.array([-0.0, 1.0, np.nan])
    assert differing(one, other) == 2
    assert differing(other, one) == 2
    with pytest.raises(ValueError, match="cannot compare"):
        differing(one, other[:2])


def test_differing_and_error_look_at_every_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("systolic.workload.compare.SLICE_ELEMENTS", 3)
    one = np.zeros((4, 4), np.int8)
    other = one.copy()
    other[3, 3], other[0, 0] = -5, 2
    assert differing(one, other) == 2
    assert max_abs_error(one, other) == 5.0


def test_error_is_over_finite_elements() -> None:
    one = np.array([1.0, np.nan, np.inf], np.float32)
    assert max_abs_error(one, np.array([1.25, 1.0, 1.0], np.float32)) == 0.25
    assert max_abs_error(one[1:], one[1:]) == 0.0
