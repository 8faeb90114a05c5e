"""The verdict on a run's values in sentences, for the table and for error messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from systolic.report.summary.wording import number, plural


def values_text(values: Mapping[str, Any]) -> tuple[str, bool]:
    """Return one sentence on the values, and whether they are right by the hardware's rules."""
    if not values.get("checked"):
        return "result not checked", True
    error = values.get("max_abs_error")
    if not values.get("equal"):
        text = f"result equals the reference: NO (largest absolute error {error})"
        return f"{text}; {wrong_text(values)}" if values.get("wrong") else text, False
    text = f"result equals numpy: {_numpy_text(values.get('differs_from_numpy', 0))}"
    if values.get("out_of_range"):
        text += f", but {range_text(values)} (largest absolute error {error})"
    elif error:
        text += f"; from float64 it is at most {error:.2g} away"
    return text, True


def _numpy_text(differs: int) -> str:
    if not differs:
        return "yes"
    return (
        f"in all but {plural(differs, 'element')}, as on a real array: a multiplication by the "
        "zeros of an identity, or between weights, turns -0.0 into +0.0 and spreads a NaN or an "
        "infinity to its neighbours"
    )


def wrong_text(values: Mapping[str, Any]) -> str:
    """Return, for each wrong output, how many elements differ, and the first with both values."""
    return "; ".join(
        f"{wrong['output']}: {number(wrong['elements'])} of {plural(wrong['of'], 'element')} "
        f"differ, the first at {wrong['first']}: found {wrong['found']}, "
        f"expected {wrong['expected']}"
        for wrong in values.get("wrong", ())
    )


def range_text(values: Mapping[str, Any]) -> str:
    """Return, for each tensor, how many elements left the range of its type, and how they ended."""
    return " and ".join(
        f"{number(lost['elements'])} of {plural(lost['of'], 'element')} of {lost['tensor']} "
        f"left the range of {lost['type']} and {lost['how']}"
        for lost in values.get("out_of_range", ())
    )
