"""Activation: function(x * scale + bias) of every element, as `activate` computes it.

The contract (docs/instruction_set.md, "Values"): the product and the sum are rounded to float32,
one after the other; the function is numpy's float64 result for that float32, rounded to float32
once; the result is then cast. The functions stand twice on purpose: the machine has its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.operations.cast import convert
from systolic.workload.operations.row import (
    ONE_SHAPE,
    Attributes,
    Row,
    Rules,
    check_gives,
    first_shape,
)

FunctionName = Literal[
    "identity", "exponential", "square", "square_root", "binary_step", "bipolar_step", "sigmoid",
    "ramp", "tanh", "gelu", "silu", "reciprocal", "rsqrt", "log", "sin", "abs", "sign",
    "leaky_relu", "softplus", "relu6", "mish", "erf", "arctan", "gelu_erf", "cos", "floor", "ceil",
    "round", "round_away", "log1p", "expm1", "cbrt", "elu", "selu", "hard_sigmoid", "hard_swish",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ActivationAttributes(Attributes):
    """The function, and the numbers that lead to its argument.

    The default bias is -0.0: it changes no argument, while +0.0 would make +0.0 of -0.0.
    """

    function: Annotated[
        FunctionName, Field(description="function of the engines, such as ramp (relu) or gelu")
    ]
    scale: Annotated[float, Field(description="factor of every element (default: 1)")] = 1.0
    bias: Annotated[float, Field(description="added behind the factor (default: nothing)")] = -0.0


def _gated(x: Any, gate: Any) -> Any:
    """Return x / (1 + e^-gate); its limit at minus infinity is -0."""
    return np.where(np.isneginf(x), -0.0, x / (1 + np.exp(-gate)))


def _gelu(x: Any) -> Any:
    return _gated(x, 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))


def _from_zero(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function with NaN below 0."""
    return lambda x: np.where(x < 0, np.nan, function(x))


_erf, _erfc = np.vectorize(math.erf, [np.float64]), np.vectorize(math.erfc, [np.float64])


def _gelu_erf(x: Any) -> Any:
    return np.where(np.isneginf(x), -0.0, x * (_erfc(-x / math.sqrt(2)) / 2))


def _mish(x: Any) -> Any:
    return np.where(np.isneginf(x), -0.0, x * np.tanh(np.logaddexp(0.0, x)))


def _hard_sigmoid(x: Any) -> Any:
    return np.minimum(np.maximum(x / 6 + 0.5, 0.0), 1.0)


def _elu(x: Any) -> Any:
    return np.where(x > 0, x, np.expm1(np.where(x > 0, 0.0, x)))


def _away(x: Any) -> Any:
    whole = np.trunc(x)
    return np.copysign(whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0), x)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "identity": lambda x: x,
    "exponential": np.exp,
    "square": lambda x: x * x,
    "square_root": _from_zero(np.sqrt),
    "binary_step": lambda x: np.where(np.isnan(x), x, x >= 0),
    "bipolar_step": lambda x: np.where(np.isnan(x), x, np.where(x < 0, -1.0, 1.0)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "ramp": lambda x: np.where(x <= 0, 0.0, x),
    "tanh": np.tanh,
    "gelu": _gelu,
    "silu": lambda x: _gated(x, x),
    "reciprocal": lambda x: 1 / x,
    "rsqrt": _from_zero(lambda x: 1 / np.sqrt(x)),
    "log": _from_zero(np.log),
    "sin": np.sin,
    "abs": np.abs,
    "sign": np.sign,
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "softplus": lambda x: np.logaddexp(0.0, x),
    "relu6": lambda x: np.where(x <= 0, 0.0, np.where(x > 6, 6.0, x)),
    "mish": _mish,
    "erf": _erf,
    "arctan": np.arctan,
    "gelu_erf": _gelu_erf,
    "cos": np.cos,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "round_away": _away,
    "log1p": lambda x: np.where(x < -1, np.nan, np.log1p(x)),
    "expm1": np.expm1,
    "cbrt": np.cbrt,
    "elu": _elu,
    "selu": lambda x: (
        1.0507009873554805
        * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.where(x > 0, 0.0, x)))
    ),
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": lambda x: np.where(x <= -3, -0.0, x * _hard_sigmoid(x)),
}
"""Functions of a float64 array, NaN where they are not defined."""
if FUNCTIONS.keys() != {*get_args(FunctionName)}:
    raise TypeError("activation: FUNCTIONS and FunctionName differ")


def _check(shapes: Sequence[Shape], out: Shape, attributes: ActivationAttributes) -> None:
    (source,) = shapes
    check_gives(source, out.element_type, source.dims, out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: ActivationAttributes) -> Array:
    with np.errstate(all="ignore"):
        argument = arrays[0].astype(np.float64) * attributes.scale + attributes.bias
        return np.asarray(FUNCTIONS[attributes.function](argument))


def _reference(
    arrays: Sequence[Array], out: Shape, attributes: ActivationAttributes, rules: Rules
) -> Array:
    with np.errstate(all="ignore"):
        scaled = arrays[0].astype(np.float32) * np.float32(attributes.scale)
        argument = scaled + np.float32(attributes.bias)
        found = FUNCTIONS[attributes.function](argument.astype(np.float64))
        return convert(np.asarray(found).astype(np.float32), out.dtype)


ACTIVATION = Row(
    operands=ONE_SHAPE,
    attributes=ActivationAttributes,
    check=_check,
    default_out=first_shape,
    reference=_reference,
    exact=_exact,
    computes=True,
)
