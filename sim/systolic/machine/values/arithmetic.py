"""Operations on two operands and reductions of a window, one row each, in float32 or int32.

float32: IEEE 754, nearest even, one rounding for each operation. int32: wrapping; a quotient is
truncated, x / 0 = -1 and -2^31 / -1 = -2^31 (as XLA's); a shift by less than 0 or more than 31
leaves nothing but zeros, or copies of the sign. Comparisons give 1 or 0. If two values are equal,
as +0 and -0 are, both their maximum and their minimum are the later of the two. If one of two
values is a NaN, the maximum and the minimum are that NaN.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, get_args

import numpy as np

from systolic import isa
from systolic.arrays import Array
from systolic.isa.opcodes import require_rows

BITS = 32
Binary = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An operation: its function of two float32, and its function of two int32.

    floats None: the operation takes no floats. Without a function of int32, integers are taken to
    float32.
    """

    floats: Binary | None
    integers: Binary | None


def _greater(a: Any, b: Any) -> Any:
    return np.where((a > b) | (a != a), a, b)


def _less(a: Any, b: Any) -> Any:
    return np.where((a < b) | (a != a), a, b)


def _quotient(a: Any, b: Any) -> Any:
    wide, by = a.astype(np.int64), np.where(b == 0, 1, b).astype(np.int64)
    truncated = np.abs(wide) // np.abs(by) * (np.sign(wide) * np.sign(by))
    return np.where(b == 0, -1, truncated).astype(np.int32)


def _power(a: Any, b: Any) -> Any:
    # In float64, rounded once, for the same reasons as the functions of the activation engine.
    # Given one exponent 0.5 for all, numpy takes square roots, which is wrong for -0 and -inf.
    exponents = np.array(np.broadcast_to(b, np.broadcast_shapes(a.shape, b.shape)), np.float64)
    return np.power(a.astype(np.float64), exponents)


def _inside(count: Any) -> Any:
    """Return the count of a shift where it is one of 32 bits (as XLA's: unsigned), else -1."""
    return np.where((count >= 0) & (count < BITS), count, -1)


def _left(a: Any, b: Any) -> Any:
    count = _inside(b)
    return np.where(count < 0, 0, np.left_shift(a, np.maximum(count, 0)))


def _right_logical(a: Any, b: Any) -> Any:
    count = _inside(b)
    bits = np.ascontiguousarray(a).view(np.uint32) >> np.maximum(count, 0).astype(np.uint32)
    return np.where(count < 0, np.uint32(0), bits)


def _right_arithmetic(a: Any, b: Any) -> Any:
    count = _inside(b)
    return np.right_shift(a, np.where(count < 0, BITS - 1, count))


def _larger_size(a: Any, b: Any) -> Any:
    return _greater(np.abs(a), np.abs(b))


def _smaller_size(a: Any, b: Any) -> Any:
    return _less(np.abs(a), np.abs(b))


def _integer_remainder(a: Any, b: Any) -> Any:
    wide, by = a.astype(np.int64), b.astype(np.int64)
    size = np.abs(wide) % np.maximum(np.abs(by), 1)
    return np.where(by == 0, wide, size * np.sign(wide)).astype(np.int32)


def _arctan2(a: Any, b: Any) -> Any:
    return np.arctan2(a.astype(np.float64), b.astype(np.float64))


def _both(a: Any, b: Any) -> Any:
    return (a != 0) & (b != 0)


def _any(a: Any, b: Any) -> Any:
    return (a != 0) | (b != 0)


def _one(a: Any, b: Any) -> Any:
    return (a != 0) ^ (b != 0)


COMPARISONS: dict[str, Binary] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "less": operator.lt,
    "less_equal": operator.le,
}
require_rows("values.COMPARISONS", COMPARISONS, get_args(isa.Relation))
OPERATIONS: dict[str, Arithmetic] = {
    "add": Arithmetic(np.add, np.add),
    "subtract": Arithmetic(np.subtract, np.subtract),
    "multiply": Arithmetic(np.multiply, np.multiply),
    "divide": Arithmetic(np.divide, _quotient),
    "power": Arithmetic(_power, None),
    "max": Arithmetic(_greater, _greater),
    "min": Arithmetic(_less, _less),
    "and": Arithmetic(None, np.bitwise_and),
    "or": Arithmetic(None, np.bitwise_or),
    "xor": Arithmetic(None, np.bitwise_xor),
    "shift_left": Arithmetic(None, _left),
    "shift_right_logical": Arithmetic(None, _right_logical),
    "shift_right_arithmetic": Arithmetic(None, _right_arithmetic),
    **{name: Arithmetic(compare, compare) for name, compare in COMPARISONS.items()},
    "logical_and": Arithmetic(_both, _both),
    "logical_or": Arithmetic(_any, _any),
    "logical_xor": Arithmetic(_one, _one),
    "abs_max": Arithmetic(_larger_size, _larger_size),
    "abs_min": Arithmetic(_smaller_size, _smaller_size),
    "remainder": Arithmetic(np.fmod, _integer_remainder),
    "arctan2": Arithmetic(_arctan2, None),
}
require_rows("values.OPERATIONS", OPERATIONS, get_args(isa.AluOperation))


def operate(name: str, left: Array, right: Array) -> Array:
    """Return ``left op right``: int32 if both are and the operation has integers, else float32."""
    operation = OPERATIONS[name]
    if left.dtype == np.int32 and right.dtype == np.int32 and operation.integers is not None:
        return np.asarray(operation.integers(left, right)).astype(np.int32)
    assert operation.floats is not None, f"{name} of floats: the program was not checked"
    values = operation.floats(left.astype(np.float32), right.astype(np.float32))
    return np.asarray(values).astype(np.float32)


def _accumulate(ufunc: np.ufunc) -> Callable[[Array], Array]:
    def of(windows: Array) -> Array:
        found: Array = ufunc.accumulate(windows, axis=-1, dtype=windows.dtype)[..., -1]
        return found

    return of


def _mean(windows: Array) -> Array:
    total: Array = REDUCTIONS["sum"](windows).astype(np.float32)
    return total / np.float32(windows.shape[-1])


def _median(windows: Array) -> Array:
    ordered = np.sort(windows, axis=-1, kind="stable")
    size = windows.shape[-1]
    below, above = ordered[..., (size - 1) // 2], ordered[..., size // 2]
    middle = (below.astype(np.float64) + above) / 2 if size % 2 == 0 else above
    return np.where((windows != windows).any(axis=-1), np.nan, middle).astype(np.float32)


def _fold(name: str) -> Callable[[Array], Array]:
    def of(windows: Array) -> Array:
        elements = np.moveaxis(windows, -1, 0)
        return reduce(lambda a, b: operate(name, a, b), elements[1:], elements[0])

    return of


REDUCTIONS: dict[str, Callable[[Array], Array]] = {
    "max": _fold("max"),
    "min": _fold("min"),
    "mean": _mean,
    "median": _median,
    "sum": _accumulate(np.add),
    "product": _accumulate(np.multiply),
}
"""Functions of [..., window], float32 or int32; sums and products in the order of the elements."""
require_rows("values.REDUCTIONS", REDUCTIONS, get_args(isa.Reduction))
