"""Element-wise operations between arrays that XLA would broadcast: their names and their meaning.

Not here: the rules of broadcasting (``broadcast``), precision and timing of the engines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.errors import perhaps, shortened
from systolic.layout.broadcasting.broadcast import operands
from systolic.layout.element_types import element_type_of
from systolic.layout.errors import LayoutError


def binary(op: str, lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()) -> Array:
    """Return ``op`` of two arrays of one element type, broadcast as XLA does.

    ``op`` is an XLA name or its short form (``add``, ``subtract``/``sub``, ...: ``OPERATIONS``).
    The result has the operands' dtype, or bool for comparisons. Integer division truncates towards
    zero, as in XLA.
    """
    name, function = _operation(op)
    left, right = operands(name, np.asarray(lhs), np.asarray(rhs), broadcast_dimensions)
    try:
        # As on an accelerator, overflow and division by zero give results instead of warnings.
        with np.errstate(all="ignore"):
            return np.asarray(function(left, right))
    except (TypeError, ValueError) as refused:
        kind = element_type_of(left.dtype)
        raise LayoutError(f"{name} is not defined on these {kind} operands: {refused}") from None


def _divide(left: Array, right: Array) -> Array:
    if left.dtype.kind not in "iu":
        return np.asarray(np.divide(left, right))
    return _truncated(left, right)


def _truncated(left: Array, right: Array) -> Array:
    """Integer quotient towards zero; division by zero gives all ones, overflow the dividend."""
    # Only one quotient does not fit the type, the least number / -1. In XLA it wraps.
    wraps = (right == -1) if left.dtype.kind == "i" else np.zeros(right.shape, bool)
    safe = np.where((right == 0) | wraps, right.dtype.type(1), right)
    quotient = left // safe
    if left.dtype.kind == "i":
        inexact = (quotient * safe != left) & ((left < 0) != (safe < 0))
        quotient = quotient + inexact.astype(left.dtype)
    quotient = np.where(wraps, np.negative(left), quotient)
    ones = ~np.zeros((), left.dtype)
    return np.where(right == 0, ones, quotient)


BinaryFunction = Callable[[Array, Array], Any]

OPERATIONS: MappingProxyType[str, BinaryFunction] = MappingProxyType(
    {
        "add": np.add,
        "subtract": np.subtract,
        "multiply": np.multiply,
        "divide": _divide,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "power": np.power,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
)
"""The element-wise operations by XLA's names."""

SHORT_NAMES = MappingProxyType(
    {
        "sub": "subtract",
        "mul": "multiply",
        "div": "divide",
        "max": "maximum",
        "min": "minimum",
        "pow": "power",
    }
)


def _operation(op: str) -> tuple[str, BinaryFunction]:
    name = SHORT_NAMES.get(op.lower(), op.lower())
    if name not in OPERATIONS:
        hint = perhaps(op.lower(), [*OPERATIONS, *SHORT_NAMES])
        known = ", ".join([*OPERATIONS, *SHORT_NAMES])
        raise LayoutError(
            f'unknown element-wise operation "{shortened(op)}" (known: {known}){hint}'
        )
    return name, OPERATIONS[name]
