"""The functions of the activation engine, one row each: what a lane makes of one float32.

Contract: a function is numpy's float64 result for the float32 argument, rounded to float32 once
(nearest even). Sums, products, quotients and square roots are thereby correctly rounded, as IEEE
754 demands; exp, log, sin, tanh and what is made of them may differ between platforms only where
the float64 results of their mathematical libraries fall on two sides of a rounding boundary of
float32, about once in 2^28 arguments. numpy's own float32 functions would be neither: its exp
misses the nearest float32 for four arguments in ten, and takes other paths on other processors.
A NaN gives a NaN.
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
    # ln(e^0 + e^x), without overflow.
    "softplus": RealFunction(lambda x: np.logaddexp(0.0, x)),
}
require_rows("values.FUNCTIONS", FUNCTIONS, get_args(ActivationFunction))


def apply(name: str, values: Single) -> Single:
    """Return the function of every value, in the shape of the values."""
    wide = values.astype(np.float64)
    low, high = FUNCTIONS[name].domain
    defined = (wide >= low) & (wide <= high)
    result: Single = np.where(defined, FUNCTIONS[name].of(wide), np.nan).astype(np.float32)
    return result
