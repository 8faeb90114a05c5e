"""Rows of ONNX operators that work element by element."""

from __future__ import annotations

import math

import numpy as np

from systolic.workload.importers.arithmetic import is_integer, one_number
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelValue
from systolic.workload.importers.onnx.context import NodeOperands, OnnxContext, OnnxRow
from systolic.workload.importers.onnx.kinds import element_type
from systolic.workload.importers.onnx.model import OnnxNode


def _function(name: str) -> OnnxRow:
    def row(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
        if is_integer(at.shape(given[0])):
            raise CannotLowerError(f"of {at.kind(given[0])}")
        return at.unary(given[0], name)

    return row


def _identity(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    return given[0]


def pair(operator: str) -> OnnxRow:
    """Return the row of an operator of two operands."""

    def row(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
        return at.binary(operator, given[0], given[1])

    return row


def _several(operator: str, *, mean: bool = False) -> OnnxRow:
    """Return the row of an operator of any number of operands."""

    def row(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
        found, *others = [at.plain(each) for each in given if each is not None]
        for each in others:
            found = at.binary(operator, found, each)
        if mean and others:
            count = len(others) + 1
            found = at.binary("divide", found, at.like(count, found))
        return found

    return row


def _comparison(operator: str) -> OnnxRow:
    def row(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
        return at.compared(operator, given[0], given[1])

    return row


def _power(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """The exponent may be of another type; the result has the base's type."""
    base, exponent = at.plain(given[0]), at.plain(given[1])
    kind = at.kind(base)
    if is_integer(at.shape(base)):
        found = at.binary("power", at.cast(base, "f32"), at.cast(exponent, "f32"))
        return at.cast(found, kind)
    if isinstance(exponent, np.ndarray):
        return at.binary("power", base, exponent.astype(at.shape(base).dtype))
    return at.binary("power", base, at.cast(exponent, kind))


def _negative(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    if is_integer(at.shape(given[0])):
        return at.binary("subtract", at.like(0, given[0]), given[0])
    return at.scaled(given[0], -1.0)


def _absolute(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    shape = at.shape(given[0])
    if shape.element_type == "u8":
        return at.plain(given[0])
    if is_integer(shape):
        return at.binary("max", given[0], _negative(at, node, given))
    return at.unary(given[0], "abs")


def _sign(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    if is_integer(at.shape(given[0])):
        above = at.binary("min", given[0], at.like(1, given[0]))
        return at.binary("max", above, at.like(-1, given[0]))
    return at.unary(given[0], "sign")


def _not(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    return at.binary("xor", given[0], at.like(1, given[0]))


def _xor(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    return at.binary("xor", given[0], given[1])


def _remainder(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """fmod has the sign of what is divided; without it the result has the divisor's sign."""
    found = at.binary("remainder", given[0], given[1])
    if node.number("fmod"):
        return found
    dims = at.common(*given[:2])
    divisor = at.spread(given[1], dims)
    zero = at.like(0, divisor)
    differs = at.binary("xor", at.compared("less", found, zero), at.compared("less", divisor, zero))
    some = at.compared("not_equal", found, zero)
    return at.select(at.binary("and", differs, some), at.binary("add", found, divisor), found)


def _where(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    return at.select(given[0], given[1], given[2])


def _clip(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    found, low, high = at.plain(given[0]), given[1], given[2]
    dtype = at.shape(found).dtype
    if node.version < 11:
        low, high = (
            np.array(node.attributes[key], dtype) if key in node.attributes else None
            for key in ("min", "max")
        )
    ends = one_number(low), one_number(high)
    if ends == (0.0, 6.0) and not is_integer(at.shape(found)):
        return at.unary(found, "relu6")
    if low is not None:
        found = at.binary("max", found, low)
    return found if high is None else at.binary("min", found, high)


def _cast(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    wanted = element_type(node.number("to"))
    shape = at.shape(given[0])
    if wanted.startswith("f8") and not node.number("saturate", 1):
        raise CannotLowerError("without saturation")
    if shape.element_type == "pred" and wanted not in ("pred", "f32", "s32"):
        return at.cast(at.cast(given[0], "f32"), wanted)
    return at.cast(given[0], wanted)


def _cast_like(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    return at.cast(given[0], at.kind(given[1]))


def _leaky(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    alpha = node.real("alpha", 0.01)
    if np.float32(alpha) == np.float32(0.01):
        return at.unary(given[0], "leaky_relu")
    return _with_slope(at, given[0], np.array(alpha, np.float32))


def _with_slope(at: OnnxContext, value: ModelValue, slope: ModelValue) -> ModelValue:
    """Return max(x, 0) + slope * min(x, 0)."""
    above, below = at.unary(value, "ramp"), at.binary("min", value, at.like(0, value))
    if isinstance(slope, np.ndarray):
        slope = slope.astype(at.shape(value).dtype)
    return at.binary("add", above, at.binary("multiply", below, slope))


def _prelu(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    return _with_slope(at, given[0], at.plain(given[1]))


def _elu(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """x above 0, alpha * (e^x - 1) below."""
    alpha = node.real("alpha", 1.0)
    if alpha == 1.0:
        return at.unary(given[0], "elu")
    below = at.unary(at.binary("min", given[0], at.like(0, given[0])), "expm1")
    return at.binary("add", at.unary(given[0], "ramp"), at.scaled(below, alpha))


def _selu(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    alpha, gamma = node.real("alpha"), node.real("gamma")
    below = at.unary(at.binary("min", given[0], at.like(0, given[0])), "expm1")
    above = at.scaled(at.unary(given[0], "ramp"), gamma)
    return at.binary("add", above, at.scaled(below, alpha * gamma))


def _celu(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """x above 0, alpha * (e^(x / alpha) - 1) below."""
    alpha = node.real("alpha", 1.0)
    low = at.binary("min", given[0], at.like(0, given[0]))
    below = at.unary(low, "expm1", scale=1 / alpha)
    return at.binary("add", at.unary(given[0], "ramp"), at.scaled(below, alpha))


def _hard_sigmoid(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    alpha, beta = node.real("alpha", 0.2), node.real("beta", 0.5)
    line = at.unary(given[0], "ramp", scale=alpha, bias=beta)
    return at.binary("min", line, at.like(1, line))


def _gelu(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    return at.unary(given[0], "gelu" if node.text("approximate", "none") == "tanh" else "gelu_erf")


def _swish(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    alpha = node.real("alpha", 1.0)
    if alpha == 1.0:
        return at.unary(given[0], "silu")
    return at.binary("multiply", given[0], at.unary(given[0], "sigmoid", scale=alpha))


def _softsign(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    return at.binary("divide", given[0], at.scaled(at.unary(given[0], "abs"), 1.0, 1.0))


def _thresholded(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    above = at.compared("greater", given[0], at.like(node.real("alpha", 1.0), given[0]))
    return at.select(above, given[0], at.like(0, given[0]))


def _relu(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    if is_integer(at.shape(given[0])):
        return at.binary("max", given[0], at.like(0, given[0]))
    return at.unary(given[0], "ramp")


def _is_nan(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    return at.compared("not_equal", given[0], given[0])


def _is_infinite(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    ends = [
        at.compared("equal", given[0], at.like(end, given[0]))
        for key, end in (("detect_positive", math.inf), ("detect_negative", -math.inf))
        if node.number(key, 1)
    ]
    if not ends:
        return np.broadcast_to(np.array(False), at.dims(given[0]))
    return ends[0] if len(ends) == 1 else at.binary("or", *ends)


def _dropout(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    """Nothing is dropped outside training; the mask says that everything is kept."""
    if given[2] is not None and bool(at.known(given[2], "whether it is training").any()):
        raise CannotLowerError("for training")
    return at.plain(given[0]), np.broadcast_to(np.array(True), at.dims(given[0]))


ELEMENTWISE: dict[str, OnnxRow] = {
    "Add": pair("add"),
    "Sub": pair("subtract"),
    "Mul": pair("multiply"),
    "Div": pair("divide"),
    "Pow": _power,
    "Mod": _remainder,
    "And": pair("and"),
    "Or": pair("or"),
    "Xor": _xor,
    "Not": _not,
    "BitwiseAnd": pair("and"),
    "BitwiseOr": pair("or"),
    "BitwiseXor": pair("xor"),
    "Max": _several("max"),
    "Min": _several("min"),
    "Sum": _several("add"),
    "Mean": _several("add", mean=True),
    "Greater": _comparison("greater"),
    "GreaterOrEqual": _comparison("greater_equal"),
    "Less": _comparison("less"),
    "LessOrEqual": _comparison("less_equal"),
    "Equal": _comparison("equal"),
    "Where": _where,
    "Identity": _identity,
    "Clip": _clip,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Relu": _relu,
    "LeakyRelu": _leaky,
    "PRelu": _prelu,
    "Elu": _elu,
    "Selu": _selu,
    "Celu": _celu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _function("hard_swish"),
    "Gelu": _gelu,
    "Mish": _function("mish"),
    "Swish": _swish,
    "ThresholdedRelu": _thresholded,
    "Sigmoid": _function("sigmoid"),
    "Tanh": _function("tanh"),
    "Softplus": _function("softplus"),
    "Softsign": _softsign,
    "Erf": _function("erf"),
    "Exp": _function("exponential"),
    "Log": _function("log"),
    "Sqrt": _function("square_root"),
    "Reciprocal": _function("reciprocal"),
    "Neg": _negative,
    "Abs": _absolute,
    "Sign": _sign,
    "Floor": _function("floor"),
    "Ceil": _function("ceil"),
    "Round": _function("round"),
    "Sin": _function("sin"),
    "Cos": _function("cos"),
    "Atan": _function("arctan"),
    "IsNaN": _is_nan,
    "IsInf": _is_infinite,
    "Dropout": _dropout,
}
