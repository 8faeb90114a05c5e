"""Rows of HLO opcodes that work element by element."""

from __future__ import annotations

import math

import numpy as np

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.importers.form import ModelForm, ModelValue
from systolic.workload.importers.hlo.attributes import (
    text_of,
)
from systolic.workload.importers.hlo.context import (
    CannotLowerError,
    HloContext,
    HloRow,
    is_integer,
    one_number,
)
from systolic.workload.importers.hlo.module import HloInstruction


def _function(name: str) -> HloRow:
    def row(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
        return at.form.unary(operands[0], "activation", function=name)

    return row


def _negate(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    if is_integer(made.array):
        zero = np.zeros((), made.array.dtype)
        return at.form.binary(
            "subtract", np.broadcast_to(zero, made.array.dims), operands[0], made.array
        )
    return at.form.unary(operands[0], "activation", function="identity", scale=-1.0)


OF_TRUTHS = {
    "and": "and",
    "or": "or",
    "xor": "xor",
    "multiply": "and",
    "add": "or",
    "max": "or",
    "min": "and",
}
"""Operators of two preds, and what they are of 0 and 1."""


def pair(operator: str) -> HloRow:
    """Return the row of an operator of two operands."""

    def row(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
        kind = made.array.element_type
        if made.array.type.is_narrow and (kind != "pred" or operator not in OF_TRUTHS):
            raise CannotLowerError(f"{operator} of {kind}")
        which = OF_TRUTHS.get(operator, operator) if kind == "pred" else operator
        return _simpler(at.form, operator, operands, made.array) or at.form.binary(
            which, operands[0], operands[1], made.array
        )

    return row


def _simpler(form: ModelForm, operator: str, operands: list[ModelValue], out: Shape) -> ModelValue:
    """Return an operation with one number as an instruction of one operand; None if it is none."""
    lhs, rhs = operands
    if is_integer(out):
        return None
    if (single := one_number(rhs)) is not None:
        return _with_number(form, operator, lhs, single)
    if (single := one_number(lhs)) is not None and operator in ("add", "multiply", "max", "min"):
        return _with_number(form, operator, rhs, single)
    if single is not None and operator == "divide" and single == 1:
        return form.unary(rhs, "activation", function="reciprocal")
    return None


def _with_number(form: ModelForm, operator: str, value: ModelValue, single: float) -> ModelValue:
    unary = {
        ("max", -math.inf): "identity",
        ("min", math.inf): "identity",
        ("multiply", 1.0): "identity",
        ("divide", 1.0): "identity",
        ("max", 0.0): "ramp",
        ("power", 2.0): "square",
        ("power", 0.5): "square_root",
        ("power", -0.5): "rsqrt",
        ("power", -1.0): "reciprocal",
    }.get((operator, single))
    if unary == "identity":
        return value
    if unary is not None:
        return form.unary(value, "activation", function=unary)
    if operator in ("add", "subtract") and math.isfinite(single) and single:
        bias = single if operator == "add" else -single
        return form.unary(value, "activation", function="identity", bias=bias)
    if operator == "multiply" and math.isfinite(single):
        return form.unary(value, "activation", function="identity", scale=single)
    if operator == "divide" and single and math.frexp(single)[0] in (0.5, -0.5):
        return form.unary(value, "activation", function="identity", scale=1 / single)
    return None


def _tan(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    sine, cosine = (at.form.unary(operands[0], "activation", function=f) for f in ("sin", "cos"))
    return at.form.binary("divide", sine, cosine, made.array)


def _not(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    """Return the other truth, or all bits of an integer turned over."""
    ones = True if made.array.element_type == "pred" else -1
    other = np.broadcast_to(np.array(ones).astype(made.array.dtype), made.array.dims)
    return at.form.binary("xor", operands[0], other, made.array)


def _is_finite(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    """Return where x - x is 0, and not NaN."""
    shape = at.form.shape(operands[0])
    rest = at.form.binary("subtract", operands[0], operands[0], shape)
    return at.form.binary(
        "equal", rest, np.broadcast_to(np.zeros((), shape.dtype), shape.dims), made.array
    )


def _compare(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    operator = {
        "EQ": "equal", "NE": "not_equal", "LT": "less", "LE": "less_equal", "GT": "greater",
        "GE": "greater_equal",
    }[text_of(made, "direction")]  # fmt: skip
    shape = at.form.shape(operands[0])
    equality = shape.element_type == "pred" and operator in ("equal", "not_equal")
    if shape.type.is_narrow and not equality:
        raise CannotLowerError(f"comparison of {shape.element_type}")
    return at.form.binary(operator, operands[0], operands[1], made.array)


def _select(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    predicate, on_true, on_false = operands
    if isinstance(predicate, np.ndarray) and predicate.size:
        if (single := one_number(predicate.astype(np.uint8))) is not None:
            return on_true if single else on_false
        if (mask := _causal(at.form, predicate, on_true, on_false)) is not None:
            return mask
    return at.form.select(predicate, on_true, on_false, made.array)


def _causal(
    form: ModelForm, predicate: Array, on_true: ModelValue, on_false: ModelValue
) -> ModelValue:
    """Return a causal mask, if the predicate is a triangle and the others one finite number."""
    hidden = one_number(on_false)
    if hidden is None or predicate.ndim < 2 or any(predicate.strides[:-2]):
        return None
    rows, cols = predicate.shape[-2:]
    plane = predicate[(0,) * (predicate.ndim - 2)]
    offset = int(plane[0].sum()) - 1
    if not np.array_equal(plane, np.tri(rows, cols, offset, dtype=bool)):
        return None
    if not math.isfinite(hidden):
        return None
    return form.unary(on_true, "causal_mask", offset=offset, value=hidden)


def _clamp(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    low, middle, high = operands
    if not is_integer(made.array) and (one_number(low), one_number(high)) == (0.0, 6.0):
        return at.form.unary(middle, "activation", function="relu6")
    least = at.form.binary("max", middle, low, made.array)
    return at.form.binary("min", least, high, made.array)


def _convert(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    if at.form.shape(operands[0]).element_type == made.array.element_type:
        return operands[0]
    return at.form.unary(operands[0], "cast", made.array.element_type)


def _copy(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    return operands[0]


ELEMENTWISE: dict[str, HloRow] = {
    "exponential": _function("exponential"),
    "log": _function("log"),
    "logistic": _function("sigmoid"),
    "tanh": _function("tanh"),
    "sqrt": _function("square_root"),
    "rsqrt": _function("rsqrt"),
    "sine": _function("sin"),
    "cosine": _function("cos"),
    "tan": _tan,
    "exponential-minus-one": _function("expm1"),
    "log-plus-one": _function("log1p"),
    "cbrt": _function("cbrt"),
    "erf": _function("erf"),
    "floor": _function("floor"),
    "ceil": _function("ceil"),
    "round-nearest-even": _function("round"),
    "round-nearest-afz": _function("round_away"),
    "abs": _function("abs"),
    "sign": _function("sign"),
    "negate": _negate,
    "add": pair("add"),
    "subtract": pair("subtract"),
    "multiply": pair("multiply"),
    "divide": pair("divide"),
    "power": pair("power"),
    "remainder": pair("remainder"),
    "atan2": pair("arctan2"),
    "not": _not,
    "is-finite": _is_finite,
    "maximum": pair("max"),
    "minimum": pair("min"),
    "and": pair("and"),
    "or": pair("or"),
    "xor": pair("xor"),
    "shift-left": pair("shift_left"),
    "shift-right-arithmetic": pair("shift_right_arithmetic"),
    "shift-right-logical": pair("shift_right_logical"),
    "compare": _compare,
    "select": _select,
    "clamp": _clamp,
    "convert": _convert,
    "copy": _copy,
}
