"""Is the value right? Scales, numbers that share them, and their making, against other arithmetic.

Oracles: ml_dtypes for every pattern of a type, and Python's fractions bit by bit (support.exact).
"""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from support.exact import pattern_of, value_of
from systolic.hw.datatypes import DATA_TYPES, KNOWN_TYPES, MX_ELEMENTS, MX_TYPES, SCALE_TYPES
from systolic.machine.memory import cast
from systolic.machine.values.microscaling import factors, quantised, scaled, scales_for, unscaled

BYTES = np.arange(256, dtype=np.uint8)
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
LARGEST = {"f8e4m3fn": 448.0, "f8e5m2": 57344.0}
POWER = {"f8e4m3fn": 8, "f8e5m2": 15}


def test_every_scale_is_worth_what_ml_dtypes_says() -> None:
    expected = BYTES.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    for scales in (BYTES, BYTES.view(ml_dtypes.float8_e8m0fnu)):
        found = factors(scales)
        assert found.dtype == np.float32
        assert np.array_equal(found, expected, equal_nan=True)
    assert (factors(BYTES)[[0, 127, 254]] == [2.0**-127, 1, 2.0**127]).all()
    assert math.isnan(factors(BYTES)[255])


@pytest.mark.parametrize("dtype", ["f8e4m3fn", "f8e5m2"])
def test_every_element_of_eight_bits(dtype: str) -> None:
    found = unscaled(BYTES.view(KNOWN_TYPES[dtype].numpy), dtype)
    expected = np.array([value_of(pattern, dtype) for pattern in range(256)], np.float32)
    assert np.array_equal(found, expected, equal_nan=True)


def test_every_four_elements_of_four_bits() -> None:
    """The first lies in the lowest bits; ml_dtypes has the same sixteen numbers."""
    words = np.arange(1 << 16, dtype=np.uint16)
    found = unscaled(words, "f4e2m1fn_x4").reshape(-1, 4)
    sixteen = np.array([*E2M1, *(-n for n in E2M1)], np.float32)
    by_library = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn)
    assert np.array_equal(by_library.astype(np.float32), sixteen)
    for place in range(4):
        digit = words // 16**place % 16
        assert np.array_equal(found[:, place], sixteen[digit])
        assert np.array_equal(np.signbit(found[:, place]), digit >= 8)


def test_types_stand_once() -> None:
    assert not DATA_TYPES.keys() & MX_TYPES.keys()
    assert KNOWN_TYPES.keys() >= {*MX_ELEMENTS, *SCALE_TYPES}
    assert [(t.size_bytes, t.packed) for t in MX_TYPES.values()] == [(1, 1), (2, 4)]


@pytest.mark.parametrize("dtype", MX_ELEMENTS)
def test_numbers_times_the_scales_of_their_groups(dtype: str) -> None:
    """[16, 8]: two groups below each other, two beside each other; one product is infinite."""
    rng = np.random.default_rng(4)
    packed = KNOWN_TYPES[dtype].packed
    raw = rng.integers(0, 1 << 16, (16, 2)) if packed > 1 else rng.integers(0, 120, (16, 8))
    elements = raw.astype(np.uint16 if packed > 1 else np.uint8)
    scales = np.array([[127, 120], [0, 254]], np.uint8)
    found = scaled(elements.view(KNOWN_TYPES[dtype].numpy), scales, dtype)
    assert found.shape == (16, 8)
    for row in range(16):
        for place in range(8):
            if packed > 1:
                digit = int(raw[row, place // 4]) >> 4 * (place % 4) & 15
                value = E2M1[digit % 8] * (-1 if digit >= 8 else 1)
            else:
                value = value_of(int(raw[row, place]), dtype)
            power = int(scales[row // 8, place // 4]) - 127
            with np.errstate(over="ignore"):
                expected = np.float32(math.ldexp(value, power))
            assert found[row, place] == expected, (row, place)
    if dtype == "f8e4m3fn":
        assert np.isinf(found).any()


def byte_of(largest: float, dtype: str, headroom: int) -> int:
    """Return the scale of a group, by Python's own numbers."""
    if largest == 0:
        return 0
    if not math.isfinite(largest):
        return 255
    power = math.frexp(largest)[1] - 1
    return min(254, max(0, power - POWER[dtype] + headroom + 127))


@pytest.mark.parametrize("headroom", [0, 1])
@pytest.mark.parametrize("dtype", ["f8e4m3fn", "f8e5m2"])
@pytest.mark.parametrize("source", [ml_dtypes.bfloat16, np.float16])
def test_every_number_as_the_largest_of_its_group(source, dtype, headroom) -> None:
    """All patterns of bf16 and f16, each alone with zeros: scale, element, and what they make."""
    values = np.arange(1 << 16, dtype=np.uint16).view(source)
    groups = np.zeros((8, 4 << 16), source)
    groups[3, 2::4] = values
    scales = scales_for(groups, dtype, headroom)
    with np.errstate(invalid="ignore"):
        numbers = values.astype(np.float64)
    known = np.array([byte_of(abs(number), dtype, headroom) for number in numbers.tolist()])
    assert np.array_equal(scales[0], known)
    found = cast(quantised(groups, scales, dtype), dtype)[3, 2::4].astype(np.float64)
    finite = np.isfinite(numbers)
    assert np.isnan(found[~finite]).all()
    divided = np.ldexp(numbers[finite], 127 - known[finite])
    kept = np.clip(divided, -LARGEST[dtype], LARGEST[dtype])
    expected = kept.astype(KNOWN_TYPES[dtype].numpy).astype(np.float64)
    assert np.array_equal(found[finite], expected)
    beyond = np.abs(divided) > LARGEST[dtype]
    assert beyond.any() == (headroom == 0)  # with one power to spare nothing saturates


@pytest.mark.parametrize("headroom", [0, 1])
@pytest.mark.parametrize("dtype", ["f8e4m3fn", "f8e5m2"])
def test_groups_by_exact_fractions(dtype: str, headroom: int) -> None:
    """Of random numbers: rounded to nearest even by fractions, not by the library."""
    rng = np.random.default_rng(9)
    values = (rng.standard_normal((16, 8)) * 2.0 ** rng.integers(-9, 9, (16, 8))).astype(np.float16)
    scales = scales_for(values, dtype, headroom)
    found = cast(quantised(values, scales, dtype), dtype).view(np.uint8)
    for (row, place), value in np.ndenumerate(values):
        group = values[row // 8 * 8 :][:8, place // 4 * 4 :][:, :4]
        byte = byte_of(max(abs(float(v)) for v in group.flat), dtype, headroom)
        assert scales[row // 8, place // 4] == byte
        exact = Fraction(float(value)) / Fraction(2) ** (byte - 127)
        most = Fraction(LARGEST[dtype])
        kept = max(-most, min(most, exact))
        expected = pattern_of(kept, dtype) if kept else int(np.signbit(value)) << 7
        assert value_of(int(found[row, place]), dtype) == value_of(expected, dtype), (row, place)


def test_a_group_with_a_nan_or_an_infinity_is_none() -> None:
    values = np.ones((16, 8), np.float16)
    values[1, 5], values[9, 0] = np.nan, -np.inf
    scales = scales_for(values, "f8e4m3fn", 1)
    assert scales.tolist() == [[120, 255], [255, 120]]
    found = np.isnan(quantised(values, scales, "f8e4m3fn"))
    assert found[:8, 4:].all()
    assert found[8:, :4].all()
    assert found.sum() == 64
