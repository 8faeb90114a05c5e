"""A sum so near the middle of two float32 that float64 cannot tell: does a fused step round once?

Of both signs, on both sides of the middle, to even and to odd neighbours; against fractions.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from systolic.machine.event.pe_array.row_order import row_order_product
from systolic.machine.register.pe_array.multiply import fused_multiply_add

HALF = Fraction(1, 1 << 24)
"""Half the distance from 1 to the next float32."""
BEYOND = (2**12 + 1) * 2.0**-30, (2**24 - 2**12 + 1) * 2.0**-30  # HALF + 2^-60
SHORT = (2**18 - 1) * 2.0**-30, (2**18 + 1) * 2.0**-30  # HALF - 2^-60
EXACTLY = 2.0**-12, 2.0**-12
CASES = [
    (sign * base, towards * x, w)
    for sign, base, towards, (x, w) in product(
        (1, -1),
        (1.0, 1 + 2.0**-23, 1 + 2.0**-22, 1.5),
        (1, -1),
        (BEYOND, SHORT, EXACTLY),
    )
]


def nearest(exact: Fraction) -> np.float32:
    """Return the float32 nearest to a fraction between 1/2 and 2 (or its negative), ties to even.

    By whole numbers of a float32's last place alone.
    """
    place = Fraction(1, 1 << 23) if abs(exact) >= 1 else Fraction(1, 1 << 24)
    below, rest = divmod(abs(exact), place)
    up = rest > place / 2 or (rest == place / 2 and below % 2 == 1)
    magnitude = float((below + up) * place)
    return np.float32(magnitude if exact > 0 else -magnitude)


def exact_sum(total, x, w):
    return Fraction(total) + Fraction(x) * Fraction(w)


def test_the_cases_are_what_they_are_for():
    """Each lies within 2^-60 of a middle; rounding twice is wrong for those that miss it."""
    wrong = 0
    for total, x, w in CASES:
        assert abs(abs(Fraction(x) * Fraction(w)) - HALF) <= Fraction(1, 1 << 60)
        twice = np.float32(np.float64(x) * np.float64(w) + np.float64(total))
        wrong += twice != nearest(exact_sum(total, x, w))
    assert wrong >= 12


@pytest.mark.parametrize(("total", "x", "w"), CASES)
def test_event_engine(total, x, w):
    moving, weights = np.float32([[1], [x]]), np.float32([[total], [w]])
    found = row_order_product(moving, weights, "f32", fused=True)[0, 0]
    assert found == nearest(exact_sum(total, x, w))


@pytest.mark.parametrize(("total", "x", "w"), CASES)
def test_register_engine(total, x, w):
    found = fused_multiply_add(*(np.float32([value]) for value in (x, w, total)))
    assert found[0] == nearest(exact_sum(total, x, w))
