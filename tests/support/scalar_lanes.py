"""Twin of `machine.values.lanes`: the engines' instructions one element after another, by hand.

Python's integers, fractions and `math` only, and `support.exact` for the types. A number is what
an operand holds: an int of an integer type, a float of a float type. Nothing of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from support.exact import rounded, wrapped

Number = int | float


def single(value: Number) -> float:
    """Return a number as a float32."""
    return rounded(Fraction(value) if isinstance(value, int) else value)


def sign(value: float) -> float:
    return math.copysign(1.0, value)


# -- two float32 ----------------------------------------------------------------------------------


def add(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b) or (math.isinf(a) and math.isinf(b) and a != b):
        return math.nan
    if math.isinf(a) or math.isinf(b):
        return a if math.isinf(a) else b
    total = Fraction(a) + Fraction(b)
    if total == 0:  # +0, but of two -0
        return -0.0 if a == 0 and sign(a) < 0 and sign(b) < 0 else 0.0
    return rounded(total)


def multiply(a: float, b: float) -> float:
    both = sign(a) * sign(b)
    if math.isnan(a) or math.isnan(b) or {0.0, math.inf} == {abs(a), abs(b)}:
        return math.nan
    if math.isinf(a) or math.isinf(b):
        return both * math.inf
    return rounded(Fraction(a) * Fraction(b)) if a and b else both * 0.0


def divide(a: float, b: float) -> float:
    both = sign(a) * sign(b)
    if math.isnan(a) or math.isnan(b) or (math.isinf(a) and math.isinf(b)) or a == b == 0:
        return math.nan
    if math.isinf(a) or b == 0:
        return both * math.inf
    return rounded(Fraction(a) / Fraction(b)) if a and not math.isinf(b) else both * 0.0


def power(a: float, b: float) -> float:
    """Return C's pow: math.pow is it, but for the errors it raises."""
    odd = math.isfinite(b) and b == int(b) and int(b) % 2 == 1
    try:
        return rounded(math.pow(a, b))
    except OverflowError:
        return -math.inf if a < 0 and odd else math.inf
    except ValueError:
        if a == 0:
            return sign(a) * math.inf if odd else math.inf
        return math.nan


def remainder(a: float, b: float) -> float:
    """Return what is left of a, with its sign, after whole multiples of b."""
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return math.nan
    if math.isinf(b):
        return a
    return math.copysign(float(abs(Fraction(a)) % abs(Fraction(b))), a)


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
}
FLOATS: dict[str, Callable[[float, float], float]] = {
    "add": add,
    "subtract": lambda a, b: add(a, -b),
    "multiply": multiply,
    "divide": divide,
    "power": power,
    "max": lambda a, b: a if math.isnan(a) or a > b else b,
    "min": lambda a, b: a if math.isnan(a) or a < b else b,
    "logical_and": lambda a, b: float(a != 0 and b != 0),
    "logical_or": lambda a, b: float(a != 0 or b != 0),
    "logical_xor": lambda a, b: float((a != 0) != (b != 0)),
    "abs_max": lambda a, b: abs(a) if math.isnan(a) or abs(a) > abs(b) else abs(b),
    "abs_min": lambda a, b: abs(a) if math.isnan(a) or abs(a) < abs(b) else abs(b),
    "remainder": remainder,
    "arctan2": lambda a, b: rounded(math.atan2(a, b)),
}


# -- two int32 ------------------------------------------------------------------------------------


def quotient(a: int, b: int) -> int:
    if b == 0:
        return -1
    whole = abs(a) // abs(b)
    return wrapped(whole if (a < 0) == (b < 0) else -whole)


def rest(a: int, b: int) -> int:
    """Return what is left of a, with its sign, after whole multiples of b; of 0, a itself."""
    left = abs(a) % abs(b) if b else abs(a)
    return wrapped(-left if a < 0 else left)


def shift_right_arithmetic(a: int, b: int) -> int:
    return a >> b if 0 <= b < 32 else (-1 if a < 0 else 0)


INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: wrapped(a + b),
    "subtract": lambda a, b: wrapped(a - b),
    "multiply": lambda a, b: wrapped(a * b),
    "divide": quotient,
    "remainder": rest,
    "max": lambda a, b: a if a > b else b,
    "min": lambda a, b: a if a < b else b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shift_left": lambda a, b: wrapped(a << b) if 0 <= b < 32 else 0,
    "shift_right_logical": lambda a, b: wrapped((a % 2**32) >> b) if 0 <= b < 32 else 0,
    "shift_right_arithmetic": shift_right_arithmetic,
    "logical_and": lambda a, b: int(a != 0 and b != 0),
    "logical_or": lambda a, b: int(a != 0 or b != 0),
    "logical_xor": lambda a, b: int((a != 0) != (b != 0)),
    "abs_max": lambda a, b: max(wrapped(abs(a)), wrapped(abs(b))),
    "abs_min": lambda a, b: min(wrapped(abs(a)), wrapped(abs(b))),
}


def operate(name: str, a: Number, b: Number) -> Number:
    """Return ``a op b``: an int of two ints (but for power), else a float32."""
    whole = isinstance(a, int) and isinstance(b, int)
    if name in COMPARE:
        x, y = (a, b) if whole else (single(a), single(b))
        return int(COMPARE[name](x, y)) if whole else float(COMPARE[name](x, y))
    if whole and name in INTEGERS:
        return INTEGERS[name](int(a), int(b))
    return FLOATS[name](single(a), single(b))


# -- reductions -----------------------------------------------------------------------------------


def reduce(name: str, window: Sequence[Number]) -> Number:
    """Return what a Pool makes of one window, in the order of its elements."""
    if name == "median":
        return _median(window)
    step = {"mean": "add", "sum": "add", "product": "multiply"}.get(name, name)
    total = window[0]
    for value in window[1:]:
        total = operate(step, total, value)
    return divide(single(total), float(len(window))) if name == "mean" else total


def _median(window: Sequence[Number]) -> float:
    if any(math.isnan(value) for value in window):
        return math.nan
    ordered, half = sorted(window), len(window) // 2
    if len(window) % 2:
        return single(ordered[half])
    below, above = ordered[half - 1], ordered[half]
    if math.isinf(below) or math.isinf(above):
        return float(below + above)
    middle = (Fraction(below) + Fraction(above)) / 2
    if middle == 0 and all(isinstance(v, float) and sign(v) < 0 for v in (below, above)):
        return -0.0
    return rounded(middle)


# -- functions of one float32 ---------------------------------------------------------------------


def _exponential(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _sigmoid(x: float) -> float:
    small = _exponential(-abs(x))
    return 1 / (1 + small) if x >= 0 else small / (1 + small)


def _gated(x: float, gate: float) -> float:
    if math.isinf(x):
        return x if x > 0 else -0.0
    return x * _sigmoid(gate)


def _gelu(x: float) -> float:
    return _gated(x, 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))


def _root(x: float) -> float:
    """Return the square root: rounding the float64 of it to float32 is rounding once."""
    return math.nan if x < 0 else math.sqrt(x)


def _inverse(x: float) -> float:
    return sign(x) * math.inf if x == 0 else 1 / x


def _precise(x: float) -> Decimal:
    return Decimal(0) if x == 0 else Decimal(x)


def _erf(x: Decimal) -> Decimal:
    """Return erf by its series, in 300 digits; beyond 16 it is 1 to that many."""
    if abs(x) > 16:
        return Decimal(1).copy_sign(x)
    term, total, n = x, x, 0
    while abs(term) > Decimal(10) ** -280:
        n += 1
        term = -term * x * x / n
        total += term / (2 * n + 1)
    return 2 * total / PI.sqrt()


def _gelu_erf(x: float) -> float:
    if x in (0, math.inf) or x > 60:
        return x
    if x < -60:
        return -0.0
    with localcontext(prec=300):
        return float(Decimal(x) * _below(Decimal(x)))


def _below(x: Decimal) -> Decimal:
    """Return the part of the normal distribution below x."""
    return (1 + _erf(x / Decimal(2).sqrt())) / 2


def _gelu_erf_derivative(x: float) -> float:
    if x == 0:
        return 0.5
    if abs(x) > 20:
        return 1.0 if x > 0 else -0.0
    with localcontext(prec=300):
        precise = Decimal(x)
        density = (-precise * precise / 2).exp() / (2 * PI).sqrt()
        return float(_below(precise) + precise * density)


def _gate_derivative(x: float) -> float:
    """Return the derivative of x sigmoid(x)."""
    if abs(x) > 800:
        return 1.0 if x > 0 else -0.0
    with localcontext(prec=900):
        precise = _precise(x)
        gate = 1 / (1 + (-precise).exp())
        return float(gate + precise * gate * (1 - gate))


def _mish(x: float) -> float:
    if x > 60 or x == 0:
        return x
    if x < -800:
        return -0.0
    with localcontext(prec=900):
        square = (1 + Decimal(x).exp()) ** 2
        return float(Decimal(x) * (square - 1) / (square + 1))


def _whole_erf(x: float) -> float:
    if x == 0 or math.isinf(x):
        return x if x == 0 else sign(x)
    with localcontext(prec=300):
        return float(_erf(Decimal(x)))


def _bell(x: float) -> float:
    if abs(x) > 60:
        return 0.0
    with localcontext(prec=60):
        return float(2 * (-_precise(x) * _precise(x)).exp() / PI.sqrt())


def _cube_root(x: float) -> float:
    if x == 0 or math.isinf(x):
        return x
    with localcontext(prec=60):
        return math.copysign(float(Decimal(abs(x)) ** (Decimal(1) / 3)), x)


def _less_one(x: float) -> float:
    """Return exp(x) - 1."""
    try:
        return math.expm1(x)
    except OverflowError:
        return math.inf


def _whole(x: float, towards: Callable[[float], int]) -> float:
    """Return a whole number beside x, which has the sign of x when it is 0."""
    return x if math.isinf(x) else math.copysign(float(abs(towards(x))), x)


def _from_half_up(x: float) -> int:
    """Return the nearest whole number, of two the one away from 0."""
    return math.floor(abs(Fraction(x)) + Fraction(1, 2))


def _slope(x: float) -> float:
    """Return x / 6 + 1 / 2 between 0 and 1."""
    return 1.0 if x >= 3 else 0.0 if x <= -3 else float(Fraction(x) / 6 + Fraction(1, 2))


PI = Decimal(
    "3.141592653589793238462643383279502884197169399375105820974944592307816406286208"
    "99862803482534211706798214808651328230664709384460955058223172535940812848111745"
    "02841027019385211055596446229489549303819644288109756659334461284756482337867831"
    "65271201909145648566923460348610454326648213393607260249141273724587006606315588"
    "17488152"
)
FUNCTIONS: dict[str, Callable[[float], float]] = {
    "identity": lambda x: x,
    "exponential": _exponential,
    "square": lambda x: x * x,
    "square_root": _root,
    "binary_step": lambda x: 1.0 if x >= 0 else 0.0,
    "bipolar_step": lambda x: 1.0 if x >= 0 else -1.0,
    "sigmoid": _sigmoid,
    "ramp": lambda x: x if x > 0 else 0.0,
    "tanh": math.tanh,
    "gelu": _gelu,
    "silu": lambda x: _gated(x, x),
    "reciprocal": _inverse,
    "rsqrt": lambda x: math.nan if x < 0 else _inverse(math.sqrt(x)),
    "log": lambda x: math.nan if x < 0 else -math.inf if x == 0 else math.log(x),
    "sin": lambda x: math.nan if math.isinf(x) else math.sin(x),
    "abs": abs,
    "sign": lambda x: 0.0 if x == 0 else sign(x),
    "leaky_relu": lambda x: x if x > 0 else 0.01 * x,
    "relu6": lambda x: min(x, 6.0) if x > 0 else 0.0,
    "softplus": lambda x: max(x, 0.0) + math.log1p(_exponential(-abs(x))),
    "mish": _mish,
    "erf": _whole_erf,
    "erf_derivative": _bell,
    "arctan": math.atan,
    "gelu_erf": _gelu_erf,
    "gelu_erf_derivative": _gelu_erf_derivative,
    "gelu_sigmoid": lambda x: _gated(x, 1.702 * x),
    "gelu_sigmoid_derivative": lambda x: _gate_derivative(1.702 * x),
    "silu_derivative": _gate_derivative,
    "cos": lambda x: math.nan if math.isinf(x) else math.cos(x),
    "floor": lambda x: _whole(x, math.floor),
    "ceil": lambda x: _whole(x, math.ceil),
    "round": lambda x: _whole(x, round),
    "round_away": lambda x: _whole(x, _from_half_up),
    "log1p": lambda x: math.nan if x < -1 else -math.inf if x == -1 else math.log1p(x),
    "expm1": _less_one,
    "cbrt": _cube_root,
    "elu": lambda x: x if x > 0 else math.expm1(x),
    "selu": lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * math.expm1(x)),
    "hard_sigmoid": _slope,
    "hard_swish": lambda x: -0.0 if x <= -3 else x if x >= 3 else x * _slope(x),
}
EXACT = frozenset(FUNCTIONS) - {
    "exponential", "sigmoid", "tanh", "gelu", "silu", "rsqrt", "log", "sin", "softplus", "mish",
    "erf", "erf_derivative", "arctan", "gelu_erf", "gelu_erf_derivative", "gelu_sigmoid",
    "gelu_sigmoid_derivative", "silu_derivative", "cos", "log1p", "expm1", "cbrt", "elu", "selu",
    "hard_sigmoid", "hard_swish",
}  # fmt: skip
"""The others rest on a mathematical library: two of them may give neighbouring float32."""


def activate(name: str, x: Number, scale: float, bias: Number) -> float:
    """Return function(x * scale + bias), one rounding for each of the three."""
    value = add(multiply(single(x), single(scale)), single(bias))
    return math.nan if math.isnan(value) else rounded(FUNCTIONS[name](value))


def requantise(x: Number, bias: Number, scale: Number, lowest: int, highest: int) -> int:
    """Return (x + bias) * scale as the nearest whole number, of two the even one, in a range."""
    value = multiply(single(operate("add", x, bias)), single(scale))
    if math.isnan(value):
        return min(max(0, lowest), highest)
    if math.isinf(value):
        return highest if value > 0 else lowest
    return min(max(round(Fraction(value)), lowest), highest)


# -- numbers by place -----------------------------------------------------------------------------


def affine(lane: int, element: int, base: int, per_partition: int, per_element: int) -> int:
    return base + per_partition * lane + per_element * element
