"""Comparing results: equality of bits (every NaN counts as the same), and the largest error.

Arrays are compared slice by slice, so that comparing two large ones takes little more memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from systolic.layout import element_type_of

SLICE_ELEMENTS = 1 << 20


def differing(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> int:
    """Return how many elements differ in any bit; a NaN equals any NaN, +0.0 is not -0.0.

    Both arrays have the same shape and dtype (else ValueError).
    """
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise ValueError(
            f"cannot compare {found.dtype}{list(found.shape)} "
            f"with {expected.dtype}{list(expected.shape)}"
        )
    unsigned = f"u{found.dtype.itemsize}"
    count = 0
    for one, other in _slices(found, expected):
        unequal = one.view(unsigned) != other.view(unsigned)
        if unequal.any():
            a, b = one[unequal], other[unequal]
            count += len(a) - int(np.count_nonzero(np.isnan(a) & np.isnan(b)))
    return count


def first_differing(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> tuple[int, ...] | None:
    """Return the index of the first element, in row-major order, that `differing` counts."""
    if not differing(found, expected):
        return None
    for number, (one, other) in enumerate(_slices(found, expected)):
        unequal = one.view(f"u{one.itemsize}") != other.view(f"u{one.itemsize}")
        unequal &= ~(np.isnan(one) & np.isnan(other))
        if unequal.any():
            place = number * SLICE_ELEMENTS + int(np.argmax(unequal))
            return tuple(int(i) for i in np.unravel_index(place, found.shape))
    raise AssertionError("differing counted an element that is not there")


def max_abs_error(found: npt.NDArray[Any], exact: npt.NDArray[Any]) -> float:
    """Return the largest |found - exact| in float64 over the elements that are finite in both."""
    worst = 0.0
    for one, other in _slices(_as_numbers(found), _as_numbers(exact)):
        with np.errstate(invalid="ignore"):  # of a signalling NaN
            unequal = one != other  # elsewhere the error is 0
            a, b = one[unequal].astype(np.float64), other[unequal].astype(np.float64)
        finite = np.isfinite(a) & np.isfinite(b)
        worst = max(worst, float(np.abs(a[finite] - b[finite]).max(initial=0.0)))
    return worst


def _as_numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return truth values, and integers of less than a byte, as int8: numpy compares these."""
    return values.astype(np.int8) if element_type_of(values.dtype).is_narrow else values


def _slices(
    one: npt.NDArray[Any], other: npt.NDArray[Any]
) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    flat, flat_other = np.ravel(one), np.ravel(other)
    for first in range(0, flat.size, SLICE_ELEMENTS):
        part = slice(first, first + SLICE_ELEMENTS)
        yield flat[part], flat_other[part]
