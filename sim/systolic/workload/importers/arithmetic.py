"""Operators of two values, comparisons and selects, as every reader makes them.

An operator with one known number becomes a function of the other value; truths have the operators
of logic; a select by a known triangle is a causal mask.
"""

from __future__ import annotations

import math

import numpy as np

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelForm, ModelValue, ModelView


def one_number(value: ModelValue) -> float | None:
    """Return the number that a known value is everywhere; None if there is none."""
    if not isinstance(value, np.ndarray) or not value.size:
        return None
    if any(n > 1 and step for n, step in zip(value.shape, value.strides, strict=True)):
        return None
    return float(value.flat[0])


def is_integer(shape: Shape) -> bool:
    """Return whether elements are integers, pred among them."""
    return shape.type.integer_range is not None


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


def paired(
    form: ModelForm, operator: str, operands: tuple[ModelValue, ModelValue], out: Shape
) -> ModelValue:
    """Return an operator of two values of one type, seen in the dimensions of `out`.

    Raises:
        CannotLowerError: the operator has no meaning for elements of the type.

    """
    kind = out.element_type
    if out.type.is_narrow and (kind != "pred" or operator not in OF_TRUTHS):
        raise CannotLowerError(f"{operator} of {kind}")
    which = OF_TRUTHS.get(operator, operator) if kind == "pred" else operator
    simpler = _simpler(form, operator, operands, out)
    return form.binary(which, *operands, out) if simpler is None else simpler


def _simpler(
    form: ModelForm, operator: str, operands: tuple[ModelValue, ModelValue], out: Shape
) -> ModelValue:
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


def compared(
    form: ModelForm, operator: str, operands: tuple[ModelValue, ModelValue], out: Shape
) -> ModelView:
    """Return a comparison of two values; CannotLowerError if their elements have no order."""
    shape = form.shape(operands[0])
    equality = shape.element_type == "pred" and operator in ("equal", "not_equal")
    if shape.type.is_narrow and not equality:
        raise CannotLowerError(f"comparison of {shape.element_type}")
    return form.binary(operator, *operands, out)


def selected(
    form: ModelForm, predicate: ModelValue, operands: tuple[ModelValue, ModelValue], out: Shape
) -> ModelValue:
    """Return the first value where a predicate is true, the second one elsewhere."""
    on_true, on_false = operands
    if isinstance(predicate, np.ndarray) and predicate.size:
        if (single := one_number(predicate.astype(np.uint8))) is not None:
            return on_true if single else on_false
        if (mask := _causal(form, predicate, on_true, on_false)) is not None:
            return mask
    return form.select(predicate, on_true, on_false, out)


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
