"""Numbers and times as people write them, for tables and pictures alike."""

from __future__ import annotations

from typing import Any

from systolic.trace.words import decimal

UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (0.0, "ns"))


def number(value: int) -> str:
    """Return an integer with its thousands set apart: 12,345."""
    return f"{value:,}"


def plural(count: int, noun: str) -> str:
    """Return "1 block", "2 blocks"."""
    return f"{number(count)} {noun}" + ("" if count == 1 else "s")


def percent(part: float, whole: float) -> str:
    """Return a share in percent with one digit after the point.

    Only a share of nothing is "0.0 %", and only the whole "100.0 %": 1 of 10,000 is "<0.1 %".
    """
    share = 100 * part / whole if whole else 0.0
    if 0 < share < 0.1:
        return "<0.1 %"
    if 99.9 < share < 100:
        return ">99.9 %"
    return f"{share:.1f} %"


def time_text(time_ns: float) -> str:
    """Return a time in the unit that leaves one to three digits before the point."""
    for scale, unit in UNITS:
        if time_ns >= scale:
            return f"{time_ns / (scale or 1.0):.4g} {unit}"
    raise ValueError(time_ns)


def ratio_text(ratio: float) -> str:
    """Return a factor with fewer decimals the larger it is: 0.87x, 3.2x, 41x."""
    digits = 0 if ratio >= 10 else 1 if ratio >= 2 else 2
    return f"{ratio:,.{digits}f}x"


def value_text(value: Any, width: int = 5) -> str:
    """Return a value in at most about `width` characters: exact if that fits, else rounded."""
    return shorten(decimal(value), width)


def shorten(text: str, width: int = 5) -> str:
    """Return a number's decimal text as it is if it fits, else rounded until it does."""
    if len(text) <= width:
        return text
    for digits in range(width - 1, 0, -1):
        rounded = f"{float(text):.{digits}g}".replace("e+0", "e").replace("e-0", "e-")
        if len(rounded) <= width:
            break
    return rounded
