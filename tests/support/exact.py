"""Twin of numpy and ml_dtypes: element types bit by bit, in exact arithmetic.

Scalar and plain, Python's integers and fractions only: nothing of numpy, ml_dtypes or the machine.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple


class Format(NamedTuple):
    """A float type: bits of exponent and mantissa; whether its largest exponent is for infinity."""

    exponent: int
    mantissa: int
    has_infinity: bool = True

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def quiet(self) -> int:
        """Return the pattern of the NaN that arithmetic and casts make."""
        if not self.has_infinity:
            return (1 << (self.bits - 1)) - 1
        return ((1 << self.exponent) - 1 << self.mantissa) | 1 << (self.mantissa - 1)


FLOATS = {
    "f32": Format(8, 23),
    "bf16": Format(8, 7),
    "f16": Format(5, 10),
    "f8e4m3fn": Format(4, 3, has_infinity=False),
    "f8e5m2": Format(5, 2),
}
INTEGERS = {"s8": (8, True), "u8": (8, False), "s32": (32, True)}


def value_of(pattern: int, name: str) -> float:
    """Return what a pattern of a float type is worth; every such value is a float64."""
    form = FLOATS[name]
    sign = -1.0 if pattern >> (form.bits - 1) else 1.0
    exponent = pattern >> form.mantissa & ((1 << form.exponent) - 1)
    fraction = pattern & ((1 << form.mantissa) - 1)
    if exponent == (1 << form.exponent) - 1:
        if form.has_infinity:
            return math.nan if fraction else sign * math.inf
        if fraction == (1 << form.mantissa) - 1:
            return math.nan
    if exponent == 0:
        return sign * math.ldexp(fraction, 1 - form.bias - form.mantissa)
    return sign * math.ldexp(fraction + (1 << form.mantissa), exponent - form.bias - form.mantissa)


def pattern_of(number: Fraction | float, name: str) -> int:
    """Return the pattern of the nearest value of a float type, of two the even one.

    Numbers that would round beyond the largest finite one are infinite, or the NaN of a type
    without infinity. A fraction that is 0 is +0.
    """
    form = FLOATS[name]
    if isinstance(number, float) and math.isnan(number):
        return form.quiet
    negative = math.copysign(1, number) < 0 if isinstance(number, float) else number < 0
    sign = int(negative) << (form.bits - 1)
    top = ((1 << form.exponent) - 1) << form.mantissa
    beyond = sign | top if form.has_infinity else form.quiet
    if isinstance(number, float) and math.isinf(number):
        return beyond
    size = abs(Fraction(number))
    least = 1 - form.bias
    exponent = max(_binary_exponent(size), least) if size else least
    steps = _nearest(size / Fraction(2) ** (exponent - form.mantissa))
    # counted in steps of the smallest distance, patterns go on across the powers of two
    pattern = steps + ((exponent - least) << form.mantissa)
    last = top - 1 if form.has_infinity else form.quiet - 1
    return sign | pattern if pattern <= last else beyond


def _binary_exponent(size: Fraction) -> int:
    """Return e with 2^e <= size < 2^(e + 1)."""
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= size else exponent - 1


def _nearest(number: Fraction) -> int:
    whole, rest = divmod(number.numerator, number.denominator)
    twice = 2 * rest
    up = twice > number.denominator or (twice == number.denominator and whole % 2 == 1)
    return whole + up


def rounded(number: Fraction | float, name: str = "f32") -> float:
    """Return a number rounded once to a float type."""
    return value_of(pattern_of(number, name), name)


def wrapped(number: int, name: str = "s32") -> int:
    """Return an integer modulo 2^bits, in the range of the type."""
    bits, signed = INTEGERS[name]
    low = -(1 << (bits - 1)) if signed else 0
    return (number - low) % (1 << bits) + low


def saturated(number: float, name: str) -> int:
    """Return a float truncated to an integer type: the nearest end if it is beyond, NaN is 0."""
    bits, signed = INTEGERS[name]
    low = -(1 << (bits - 1)) if signed else 0
    high = low + (1 << bits) - 1
    if math.isnan(number):
        return 0
    if math.isinf(number):
        return high if number > 0 else low
    return min(max(int(number), low), high)


def cast(value: int | float, source: str, target: str) -> int | float:
    """Return a value of type `source` in type `target` (a NaN as a NaN: see `pattern_of`)."""
    if target in INTEGERS:
        return wrapped(int(value), target) if source in INTEGERS else saturated(value, target)
    return rounded(Fraction(value) if source in INTEGERS else value, target)
