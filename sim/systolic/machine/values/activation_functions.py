"""The functions of the activation engine, one row each: what a lane makes of one float32.

Contract: a function is numpy's float64 result for the float32 argument (of erf, the result of
Python's `math`), rounded to float32 once (nearest even). Sums, products, quotients and square roots
are thereby correctly rounded, as IEEE 754 demands; exp, log, sin, tanh, erf, arctan and what is
made of them may differ between platforms only where the float64 results of their mathematical
libraries fall on two sides of a rounding boundary of float32, about once in 2^28 arguments. numpy's
own float32 functions would be neither: its exp misses the nearest float32 for four arguments in
ten, and takes other paths on other processors. A NaN gives a NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from systolic.isa import ActivationFunction
from systolic.isa.opcodes import require_rows

Floats = npt.NDArray[np.float64]
Single = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RealFunction:
    """A function of a float64; outside domain = [low, high] the result is a NaN."""

    of: Callable[[Floats], Any]
    domain: tuple[float, float] = (-math.inf, math.inf)


def _sigmoid(x: Floats) -> Any:
    return 1 / (1 + np.exp(-x))


def _gated(x: Floats, gate: Floats) -> Any:
    """Return x * sigmoid(gate); -0, the limit, for minus infinity."""
    return np.where(x == -math.inf, -0.0, x / (1 + np.exp(-gate)))


def _silu(x: Floats) -> Any:
    return _gated(x, x)


def _gelu(x: Floats) -> Any:
    # (1 + tanh y) / 2 is sigmoid(2 y), which does not cancel.
    return _gated(x, 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))


def _mish(x: Floats) -> Any:
    # tanh(ln(1 + e^x)) by powers of the smaller of e^x and e^-x, which do not overflow.
    small = np.exp(-np.abs(x))
    above = (1 + 2 * small) / (1 + 2 * small + 2 * small * small)
    below = small * (small + 2) / (small * (small + 2) + 2)
    return np.where(x == -math.inf, -0.0, x * np.where(x > 0, above, below))


def _erf(x: Floats) -> Any:
    return np.asarray(_each_erf(x), np.float64)


def _normal(x: Floats) -> Any:
    """Return the part of the normal distribution below x."""
    return np.asarray(_each_erfc(-x / math.sqrt(2)), np.float64) / 2


_each_erf, _each_erfc = np.frompyfunc(math.erf, 1, 1), np.frompyfunc(math.erfc, 1, 1)


def _gelu_erf(x: Floats) -> Any:
    return np.where(x == -math.inf, -0.0, x * _normal(x))


def _gelu_erf_derivative(x: Floats) -> Any:
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    slope = _normal(x) + np.where(np.isinf(x), 0.0, x * density)
    # Far below 0 both parts are 0; what is left of them is less than 0.
    return np.where((slope == 0) & (x < 0), -0.0, slope)


def _silu_derivative(x: Floats) -> Any:
    # As a product, so that what vanishes below 0 keeps its sign.
    inner = np.where(np.isinf(x), np.where(x > 0, 0.0, -2.0), x * _sigmoid(-x))
    return _sigmoid(x) * (1 + inner)


def _round_away(x: Floats) -> Any:
    """Return the nearest whole number, of two the one farther from 0."""
    whole = np.trunc(x)
    return np.copysign(whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0), x)


def _elu(x: Floats) -> Any:
    return np.where(x > 0, x, np.expm1(np.where(x > 0, 0.0, x)))


def _hard_sigmoid(x: Floats) -> Any:
    return np.clip(x / 6 + 0.5, 0.0, 1.0)


SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
"""The constants of selu (Klambauer et al., 2017, "Self-Normalizing Neural Networks")."""
GATE = 1.702
"""The factor in the gate of gelu_sigmoid."""
LEAK = 0.01
"""The slope of leaky_relu below 0."""
POSITIVE = (0.0, math.inf)
FUNCTIONS: dict[str, RealFunction] = {
    "identity": RealFunction(lambda x: x),
    "exponential": RealFunction(np.exp),
    "square": RealFunction(np.square),
    "square_root": RealFunction(np.sqrt, POSITIVE),
    "binary_step": RealFunction(lambda x: np.where(x >= 0, 1, 0)),
    "bipolar_step": RealFunction(lambda x: np.where(x >= 0, 1, -1)),
    "sigmoid": RealFunction(_sigmoid),
    "ramp": RealFunction(lambda x: np.where(x > 0, x, 0)),
    "tanh": RealFunction(np.tanh),
    "gelu": RealFunction(_gelu),
    "silu": RealFunction(_silu),
    "reciprocal": RealFunction(lambda x: 1 / x),
    "rsqrt": RealFunction(lambda x: 1 / np.sqrt(x), POSITIVE),
    "log": RealFunction(np.log, POSITIVE),
    "sin": RealFunction(np.sin),
    "abs": RealFunction(np.abs),
    "sign": RealFunction(np.sign),
    "leaky_relu": RealFunction(lambda x: np.where(x > 0, x, LEAK * x)),
    "relu6": RealFunction(lambda x: np.clip(x, 0.0, 6.0) + 0.0),
    # ln(e^0 + e^x), without overflow.
    "softplus": RealFunction(lambda x: np.logaddexp(0.0, x)),
    "mish": RealFunction(_mish),
    "erf": RealFunction(_erf),
    "erf_derivative": RealFunction(lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x)),
    "arctan": RealFunction(np.arctan),
    "gelu_erf": RealFunction(_gelu_erf),
    "gelu_erf_derivative": RealFunction(_gelu_erf_derivative),
    "gelu_sigmoid": RealFunction(lambda x: _gated(x, GATE * x)),
    "gelu_sigmoid_derivative": RealFunction(lambda x: _silu_derivative(GATE * x)),
    "silu_derivative": RealFunction(_silu_derivative),
    "cos": RealFunction(np.cos),
    "floor": RealFunction(np.floor),
    "ceil": RealFunction(np.ceil),
    "round": RealFunction(np.rint),
    "round_away": RealFunction(_round_away),
    "log1p": RealFunction(np.log1p, (-1.0, math.inf)),
    "expm1": RealFunction(np.expm1),
    "cbrt": RealFunction(np.cbrt),
    "elu": RealFunction(_elu),
    "selu": RealFunction(
        lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.where(x > 0, 0.0, x)))
    ),
    "hard_sigmoid": RealFunction(_hard_sigmoid),
    # Minus infinity times a gate of 0 would be a NaN; -0 is its limit.
    "hard_swish": RealFunction(lambda x: np.where(x <= -3, -0.0, x * _hard_sigmoid(x))),
}
require_rows("values.FUNCTIONS", FUNCTIONS, get_args(ActivationFunction))


def apply(name: str, values: Single) -> Single:
    """Return the function of every value, in the shape of the values."""
    wide = values.astype(np.float64)
    low, high = FUNCTIONS[name].domain
    defined = (wide >= low) & (wide <= high)
    result: Single = np.where(defined, FUNCTIONS[name].of(wide), np.nan).astype(np.float32)
    return result
