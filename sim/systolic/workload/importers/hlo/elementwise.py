"""Rows of HLO opcodes that work element by element."""

from __future__ import annotations

import numpy as np

from systolic.workload.importers.arithmetic import (
    compared,
    is_integer,
    one_number,
    paired,
    selected,
)
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelValue
from systolic.workload.importers.hlo.attributes import (
    text_of,
)
from systolic.workload.importers.hlo.context import HloContext, HloRow
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


def pair(operator: str) -> HloRow:
    """Return the row of an operator of two operands."""

    def row(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
        return paired(at.form, operator, (operands[0], operands[1]), made.array)

    return row


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
    if made.attributes.get("type") == "TOTALORDER":
        raise CannotLowerError("a comparison in an order that has places for NaN")
    operator = {
        "EQ": "equal", "NE": "not_equal", "LT": "less", "LE": "less_equal", "GT": "greater",
        "GE": "greater_equal",
    }[text_of(made, "direction")]  # fmt: skip
    return compared(at.form, operator, (operands[0], operands[1]), made.array)


def _select(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    predicate, on_true, on_false = operands
    return selected(at.form, predicate, (on_true, on_false), made.array)


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


def _popcount(at: HloContext, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
    return at.form.unary(operands[0], "popcount")


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
    "popcnt": _popcount,
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
