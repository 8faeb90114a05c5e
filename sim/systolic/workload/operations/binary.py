"""Binary: one operator on two tensors element by element, broadcast by XLA's rules (seed 003).

The contract (docs/instruction_set.md, "Values"): two integers are taken to int32 and wrap, floats
are taken to float32 and rounded once, a power once from float64; the result is then cast. A
comparison gives 1 or 0. The operators stand twice on purpose: the machine has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import Field

from systolic import layout  # its rules of broadcasting load when they are used
from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import LayoutError, Shape
from systolic.workload.operations.cast import convert
from systolic.workload.operations.row import (
    Attributes,
    Operand,
    Row,
    Rules,
    check_gives,
    counted,
    is_integer,
    of_first_type,
    plain,
)

OperatorName = Literal[
    "add", "subtract", "multiply", "divide", "power", "max", "min", "and", "or", "xor",
    "shift_left", "shift_right_logical", "shift_right_arithmetic",
    "equal", "not_equal", "greater", "greater_equal", "less", "less_equal",
    "remainder", "arctan2",
]  # fmt: skip


Dimensions = Annotated[tuple[int, ...], Field(strict=False)]


@dataclass(frozen=True, slots=True)
class BinaryAttributes(Attributes):
    """The operator, and the dimensions that the lower-rank operand's are matched with."""

    operator: Annotated[
        OperatorName, Field(description="operator of the engines, such as add or greater")
    ]
    broadcast_dimensions: Annotated[
        Dimensions | None,
        Field(
            description="for each dimension of the lower-rank operand, that of the other operand "
            "with which it is matched (needed between different ranks, but not by a scalar)",
        ),
    ] = None

    @property
    def matched(self) -> tuple[int, ...]:
        """Return the dimensions given, none if they were left out."""
        return self.broadcast_dimensions or ()


def _maximum(a: Any, b: Any) -> Any:
    """Return the larger, of equal values (+0 and -0) the later; a NaN if there is one."""
    return np.where(np.isnan(a), a, np.where(a > b, a, b))


def _minimum(a: Any, b: Any) -> Any:
    return np.where(np.isnan(a), a, np.where(a < b, a, b))


def _power(a: Any, b: Any) -> Any:
    # An array of exponents: for a lone 0.5 numpy takes square roots, wrong for -0 and -infinity.
    exponents = np.array(np.broadcast_to(b, np.broadcast_shapes(np.shape(a), np.shape(b))))
    return np.power(a.astype(np.float64), exponents.astype(np.float64))


def _quotient(a: Any, b: Any) -> Any:
    """Return the quotient of integers towards zero; x / 0 is -1, -2^31 / -1 wraps."""
    wide, by = a.astype(np.int64), b.astype(np.int64)
    whole = np.fix(wide / np.where(by == 0, 1, by)).astype(np.int64)  # 32 bits: float64 is exact
    return np.where(by == 0, -1, whole)


def _remainder(a: Any, b: Any) -> Any:
    """Return what is left of a quotient of integers towards zero; x % 0 is x."""
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, 1, b)))


def _arctan2(a: Any, b: Any) -> Any:
    return np.arctan2(a.astype(np.float64), b.astype(np.float64))


def _bits(values: Any) -> Any:
    return values.astype(np.int64) & 0xFFFFFFFF


def _shift_left(a: Any, b: Any) -> Any:
    inside = (b >= 0) & (b < 32)
    return np.where(inside, _bits(a) << np.where(inside, b, 0), 0)


def _shift_right_logical(a: Any, b: Any) -> Any:
    inside = (b >= 0) & (b < 32)
    return np.where(inside, _bits(a) >> np.where(inside, b, 0), 0)


def _shift_right_arithmetic(a: Any, b: Any) -> Any:
    return a.astype(np.int64) >> np.where((b >= 0) & (b < 32), b, 31)


@dataclass(frozen=True, slots=True)
class _Operator:
    """What it makes of two float32 (None: nothing) and of two int32 (None: as of floats)."""

    floats: Callable[[Any, Any], Any] | None
    integers: Callable[[Any, Any], Any] | None
    compares: bool = False


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
}
OPERATORS: dict[str, _Operator] = {
    "add": _Operator(np.add, np.add),
    "subtract": _Operator(np.subtract, np.subtract),
    "multiply": _Operator(np.multiply, np.multiply),
    "divide": _Operator(np.divide, _quotient),
    "power": _Operator(_power, None),
    "max": _Operator(_maximum, _maximum),
    "min": _Operator(_minimum, _minimum),
    "and": _Operator(None, np.bitwise_and),
    "or": _Operator(None, np.bitwise_or),
    "xor": _Operator(None, np.bitwise_xor),
    "shift_left": _Operator(None, _shift_left),
    "shift_right_logical": _Operator(None, _shift_right_logical),
    "shift_right_arithmetic": _Operator(None, _shift_right_arithmetic),
    "remainder": _Operator(np.fmod, _remainder),
    "arctan2": _Operator(_arctan2, None),
    **{name: _Operator(of, of, compares=True) for name, of in COMPARISONS.items()},
}
if OPERATORS.keys() != {*get_args(OperatorName)}:
    raise TypeError("binary: OPERATORS and OperatorName differ")


def result_dims(shapes: Sequence[Shape], attributes: BinaryAttributes) -> tuple[int, ...]:
    """Return the dimensions of the result; WorkloadError names the rule and both shapes."""
    lhs, rhs = shapes
    if lhs.element_type != rhs.element_type:
        raise WorkloadError(
            f"Binary op {attributes.operator} with different element types: "
            f"{plain(lhs)} and {plain(rhs)}."
        )
    given = attributes.matched
    try:
        return layout.broadcast_shapes(lhs.dims, rhs.dims, given, lhs.element_type)
    except LayoutError as error:
        dims = f", broadcast_dimensions {list(given)}" if given else ""
        raise WorkloadError(f"{error} (lhs {plain(lhs)}, rhs {plain(rhs)}{dims})") from None


def placed_dims(
    dims: Sequence[int], out: Sequence[int], given: Sequence[int]
) -> tuple[int | None, ...]:
    """Return, for each dimension of the result, the dimension of an operand of `dims`, or None."""
    if len(dims) == len(out):
        return tuple(range(len(out)))
    places = {number: place for place, number in enumerate(given)}
    return tuple(places.get(number) for number in range(len(out)))


def _check(shapes: Sequence[Shape], out: Shape, attributes: BinaryAttributes) -> None:
    dims, (lhs, _) = result_dims(shapes, attributes), shapes
    check_gives(lhs, out.element_type, dims, out)
    operator, integer = OPERATORS[attributes.operator], is_integer(lhs)
    if operator.floats is None and not integer:
        raise WorkloadError(f"{attributes.operator} takes integers, found {plain(lhs)}")
    if operator.compares:
        return
    makes_integers = integer and operator.integers is not None
    if makes_integers != is_integer(out):
        kind = "integers" if makes_integers else "floats"
        raise WorkloadError(
            f"{attributes.operator} of {plain(lhs)} gives {kind}, but out is {plain(out)}"
        )


def _spread(arrays: Sequence[Array], out: Shape, attributes: BinaryAttributes) -> list[Array]:
    """Return both operands as views of the result's dimensions."""
    given = attributes.matched
    return [_in_dims(counted(array), out.dims, given) for array in arrays]


def _in_dims(array: Array, out: tuple[int, ...], given: Sequence[int]) -> Array:
    return layout.broadcast_in_dim(array, out, range(len(out)) if array.ndim == len(out) else given)


def _exact(arrays: Sequence[Array], out: Shape, attributes: BinaryAttributes) -> Array:
    operator = OPERATORS[attributes.operator]
    lhs, rhs = _spread(arrays, out, attributes)
    if operator.floats is None:  # of bits: the only result is of 32
        bits = [convert(array, np.dtype(np.int32)) for array in (lhs, rhs)]
        return _computed(operator, bits, np.int32).astype(np.int64)
    integer = lhs.dtype.kind in "iu" and rhs.dtype.kind in "iu" and operator.integers is not None
    return _computed(operator, (lhs, rhs), np.int64 if integer else np.float64)


def _computed(operator: _Operator, operands: Sequence[Array], wanted: type[np.generic]) -> Array:
    """Return the result of operands that are taken to a type, in that type."""
    function = operator.integers if issubclass(wanted, np.integer) else operator.floats
    assert function is not None
    lhs, rhs = (operand.astype(wanted) for operand in operands)
    with np.errstate(all="ignore"):
        return np.asarray(function(lhs, rhs)).astype(wanted)


def _reference(
    arrays: Sequence[Array], out: Shape, attributes: BinaryAttributes, rules: Rules
) -> Array:
    operator = OPERATORS[attributes.operator]
    lhs, rhs = _spread(arrays, out, attributes)
    integer = lhs.dtype.kind in "iu" and operator.integers is not None
    found = _computed(operator, (lhs, rhs), np.int32 if integer else np.float32)
    with np.errstate(all="ignore"):
        return convert(found, out.dtype)


BINARY = Row(
    operands=(
        Operand("lhs", "XLA shape of a binary's left"),
        Operand("rhs", "XLA shape of a binary's right"),
    ),
    attributes=BinaryAttributes,
    check=_check,
    default_out=of_first_type(result_dims),
    reference=_reference,
    exact=_exact,
    computes=True,
)
