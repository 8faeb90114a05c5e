"""The value of an HLO instruction whose operands are all known: constants are folded by numpy.

Only what is worth folding has a row: element by element, changes of shape, boxes and products.
An instruction without a row is done on the chip, its operands being constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.importers.hlo.attributes import (
    fault,
    number,
    numbers,
    paddings,
    slices,
    text_of,
)
from systolic.workload.importers.hlo.module import HloInstruction
from systolic.workload.operations.cast import to_type

MOST_ELEMENTS = 1 << 27
Known: TypeAlias = Callable[[HloInstruction, Sequence[Array]], Array]


def known_value(made: HloInstruction, operands: Sequence[Array]) -> Array | None:
    """Return an instruction's value from its operands' values; None if it has no row here."""
    row = KNOWN.get(made.opcode)
    if row is None or not isinstance(made.shape, Shape):
        return None
    if made.array.num_elements() > MOST_ELEMENTS and made.opcode not in ("broadcast", "iota"):
        fault(
            f"{made.array} follows from constants, and has more elements than the "
            f"{MOST_ELEMENTS:,} that are calculated when importing"
        )
    with np.errstate(all="ignore"):
        return np.asarray(row(made, operands))  # numpy makes numbers of arrays without dimensions


def _floats(function: Callable[[Any], Any]) -> Known:
    """Return the row of a function of floats, rounded once from float64."""

    def row(made: HloInstruction, operands: Sequence[Array]) -> Array:
        return np.asarray(function(operands[0].astype(np.float64))).astype(made.array.dtype)

    return row


def _pair(function: Callable[[Any, Any], Any]) -> Known:
    """Return the row of a function of two arrays, rounded once to the type of the result."""

    def row(made: HloInstruction, operands: Sequence[Array]) -> Array:
        lhs, rhs = map(_calculable, operands)
        return np.asarray(function(lhs, rhs)).astype(made.array.dtype)

    return row


def _calculable(array: Array) -> Array:
    kind = array.dtype.kind
    return array if kind in "iub" or array.dtype == np.float64 else array.astype(np.float32)


def _divide(lhs: Any, rhs: Any) -> Any:
    if lhs.dtype.kind not in "iu":
        return lhs / rhs
    wide, by = lhs.astype(np.int64), rhs.astype(np.int64)
    whole = np.abs(wide) // np.maximum(np.abs(by), 1) * np.sign(wide) * np.sign(by)
    return np.where(by == 0, -1, whole)


def _remainder(lhs: Any, rhs: Any) -> Any:
    if lhs.dtype.kind not in "iu":
        return np.fmod(lhs, rhs)
    return np.where(rhs == 0, lhs, np.fmod(lhs, np.where(rhs == 0, 1, rhs)))


def _logical_right(lhs: Any, rhs: Any) -> Any:
    bits = lhs.dtype.itemsize * 8
    plain = lhs.view(f"u{lhs.dtype.itemsize}")
    return np.where((rhs >= 0) & (rhs < bits), plain >> rhs.astype(plain.dtype), 0)


_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _compare(made: HloInstruction, operands: Sequence[Array]) -> Array:
    lhs, rhs = map(_calculable, operands)
    if made.attributes.get("type") == "TOTALORDER":
        lhs, rhs = map(_in_total_order, (lhs, rhs))
    return np.asarray(_COMPARED[text_of(made, "direction")](lhs, rhs))


def _in_total_order(array: Array) -> Array:
    """Return whole numbers in the order of floats: -0 is before 0, and NaN behind all numbers."""
    bits = array.astype(np.float64).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _select(made: HloInstruction, operands: Sequence[Array]) -> Array:
    predicate, on_true, on_false = operands
    return np.where(predicate, on_true, on_false)


def _clamp(made: HloInstruction, operands: Sequence[Array]) -> Array:
    low, middle, high = map(_calculable, operands)
    return np.minimum(np.maximum(middle, low), high).astype(made.array.dtype)


def _convert(made: HloInstruction, operands: Sequence[Array]) -> Array:
    from systolic.layout.element_types import element_type_of

    return to_type(operands[0], element_type_of(operands[0].dtype), made.array.type)


def _broadcast(made: HloInstruction, operands: Sequence[Array]) -> Array:
    """Return a view of step 0: its user sees along which dimensions it is one number."""
    dims, (source,) = numbers(made, "dimensions", ()), operands
    order = sorted(range(len(dims)), key=lambda axis: dims[axis])
    sizes = [1] * made.array.rank
    for axis in order:
        sizes[dims[axis]] = source.shape[axis]
    return np.broadcast_to(source.transpose(order).reshape(sizes), made.array.dims)


def _iota(made: HloInstruction, operands: Sequence[Array]) -> Array:
    axis, dims = number(made, "iota_dimension"), made.array.dims
    sizes = [dims[axis] if each == axis else 1 for each in range(len(dims))]
    line = np.arange(dims[axis]).astype(made.array.dtype)
    return np.broadcast_to(line.reshape(sizes), dims)


def _reshape(made: HloInstruction, operands: Sequence[Array]) -> Array:
    return operands[0].reshape(made.array.dims)


def _transpose(made: HloInstruction, operands: Sequence[Array]) -> Array:
    return operands[0].transpose(numbers(made, "dimensions", ()))


def _reverse(made: HloInstruction, operands: Sequence[Array]) -> Array:
    return np.flip(operands[0], numbers(made, "dimensions"))


def _slice(made: HloInstruction, operands: Sequence[Array]) -> Array:
    return operands[0][slices(made)]


def _concatenate(made: HloInstruction, operands: Sequence[Array]) -> Array:
    (axis,) = numbers(made, "dimensions")
    return np.concatenate(list(operands), axis)


def _pad(made: HloInstruction, operands: Sequence[Array]) -> Array:
    source, value = operands
    found = np.full(made.array.dims, value, made.array.dtype)
    target, taken = list[slice](), list[slice]()
    for size, out, (low, _, inner) in zip(source.shape, found.shape, paddings(made), strict=True):
        places = [low + n * (inner + 1) for n in range(size)]
        inside = [n for n, place in enumerate(places) if 0 <= place < out]
        if not inside:
            return found
        taken.append(slice(inside[0], inside[-1] + 1))
        target.append(slice(places[inside[0]], places[inside[-1]] + 1, inner + 1))
    found[tuple(target)] = source[tuple(taken)]
    return found


def _dynamic_slice(made: HloInstruction, operands: Sequence[Array]) -> Array:
    source, *places = operands
    sizes = numbers(made, "dynamic_slice_sizes")
    return source[tuple(map(slice, *_clamped(source, places, sizes)))]


def _dynamic_update_slice(made: HloInstruction, operands: Sequence[Array]) -> Array:
    source, update, *places = operands
    found = source.copy()
    found[tuple(map(slice, *_clamped(source, places, update.shape)))] = update
    return found


def _clamped(
    source: Array, places: Sequence[Array], sizes: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return where a box begins and ends, moved inside as XLA does."""
    starts = [
        min(max(int(place), 0), whole - size)
        for place, whole, size in zip(places, source.shape, sizes, strict=True)
    ]
    return starts, [start + size for start, size in zip(starts, sizes, strict=True)]


def _dot(made: HloInstruction, operands: Sequence[Array]) -> Array:
    lhs, rhs = (_calculable(each).astype(np.float64) for each in operands)
    batch = numbers(made, "lhs_batch_dims", ()), numbers(made, "rhs_batch_dims", ())
    inner = numbers(made, "lhs_contracting_dims", ()), numbers(made, "rhs_contracting_dims", ())
    letters = iter(range(lhs.ndim + rhs.ndim))
    left = [next(letters) for _ in range(lhs.ndim)]
    right = [next(letters) for _ in range(rhs.ndim)]
    for one, other in zip((*batch[0], *inner[0]), (*batch[1], *inner[1]), strict=True):
        right[other] = left[one]
    shared = [left[axis] for axis in batch[0]]
    free = [left[n] for n in range(lhs.ndim) if n not in (*batch[0], *inner[0])]
    free += [right[n] for n in range(rhs.ndim) if n not in (*batch[1], *inner[1])]
    product: Any = np.einsum  # its stubs know no lists of indices
    return np.asarray(product(lhs, left, rhs, right, [*shared, *free])).astype(made.array.dtype)


KNOWN: dict[str, Known] = {
    "exponential": _floats(np.exp),
    "exponential-minus-one": _floats(np.expm1),
    "log": _floats(np.log),
    "log-plus-one": _floats(np.log1p),
    "logistic": _floats(lambda x: 1 / (1 + np.exp(-x))),
    "tanh": _floats(np.tanh),
    "sqrt": _floats(np.sqrt),
    "rsqrt": _floats(lambda x: 1 / np.sqrt(x)),
    "cbrt": _floats(np.cbrt),
    "sine": _floats(np.sin),
    "cosine": _floats(np.cos),
    "tan": _floats(np.tan),
    "floor": _floats(np.floor),
    "ceil": _floats(np.ceil),
    "round-nearest-even": _floats(np.rint),
    "round-nearest-afz": _floats(lambda x: np.trunc(x + np.copysign(0.5, x))),
    "erf": _floats(np.vectorize(math.erf, otypes=[np.float64])),
    "negate": lambda made, operands: -operands[0],
    "abs": lambda made, operands: np.abs(operands[0]),
    "sign": lambda made, operands: np.sign(operands[0]),
    "bitcast-convert": lambda made, operands: operands[0].view(made.array.dtype),
    "copy": lambda made, operands: operands[0],
    "optimization-barrier": lambda made, operands: operands[0],
    "not": lambda made, operands: ~operands[0],
    "popcnt": lambda made, operands: np.bitwise_count(
        operands[0].view(f"u{operands[0].dtype.itemsize}")
    ).astype(operands[0].dtype),
    "is-finite": lambda made, operands: np.isfinite(operands[0]),
    "add": _pair(np.add),
    "subtract": _pair(np.subtract),
    "multiply": _pair(np.multiply),
    "divide": _pair(_divide),
    "remainder": _pair(_remainder),
    "power": _pair(np.power),
    "maximum": _pair(np.maximum),
    "minimum": _pair(np.minimum),
    "and": _pair(np.bitwise_and),
    "or": _pair(np.bitwise_or),
    "xor": _pair(np.bitwise_xor),
    "shift-left": _pair(np.left_shift),
    "shift-right-arithmetic": _pair(np.right_shift),
    "shift-right-logical": _pair(_logical_right),
    "atan2": _pair(np.arctan2),
    "compare": _compare,
    "select": _select,
    "clamp": _clamp,
    "convert": _convert,
    "broadcast": _broadcast,
    "iota": _iota,
    "reshape": _reshape,
    "transpose": _transpose,
    "reverse": _reverse,
    "slice": _slice,
    "concatenate": _concatenate,
    "pad": _pad,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "dot": _dot,
}
