"""The words for what engines calculate, said once: functions, reductions, relations, operations.

What they mean is in `systolic.machine.values`; which instruction takes which, in
`systolic.isa.instruction`.
"""

from __future__ import annotations

from typing import Literal, get_args

from systolic.errors import perhaps, shortened

ActivationFunction = Literal[
    "identity", "exponential", "square", "square_root", "binary_step", "bipolar_step", "sigmoid",
    "ramp", "tanh", "gelu", "silu", "reciprocal", "rsqrt", "log", "sin", "abs", "sign",
    "leaky_relu", "softplus", "mish", "erf", "erf_derivative", "arctan", "gelu_erf",
    "gelu_erf_derivative", "gelu_sigmoid", "gelu_sigmoid_derivative", "silu_derivative", "relu6",
    "cos", "floor", "ceil", "round", "round_away", "log1p", "expm1", "cbrt", "elu", "selu",
    "hard_sigmoid", "hard_swish",
]  # fmt: skip
Reduction = Literal["max", "min", "mean", "median", "sum", "product"]
Fold = Literal["max", "min", "sum", "product"]
"""The reductions that need one number per lane, whatever the number of elements."""
Relation = Literal["equal", "not_equal", "greater", "greater_equal", "less", "less_equal"]
AluOperation = Literal[
    "add", "subtract", "multiply", "divide", "power", "max", "min", "and", "or", "xor",
    "shift_left", "shift_right_logical", "shift_right_arithmetic",
    "equal", "not_equal", "greater", "greater_equal", "less", "less_equal",
    "logical_and", "logical_or", "logical_xor", "abs_max", "abs_min",
    "remainder", "arctan2",
]  # fmt: skip
FUNCTIONS = tuple(
    dict.fromkeys(
        word
        for words in (ActivationFunction, Reduction, AluOperation, Relation)
        for word in get_args(words)
    )
)
"""Every word that chip files may use for what an instruction calculates."""
THEN = " then "
"""Stands between the words of an instruction that makes two steps: `subtract then multiply`."""


def require_known(functions: tuple[str, ...]) -> tuple[str, ...]:
    """Return the functions; raise ValueError for one with a word that means nothing."""
    for function in functions:
        for word in function.split(THEN):
            if word not in FUNCTIONS:
                raise ValueError(
                    f'there is no function "{shortened(word)}"'
                    f"{perhaps(word, FUNCTIONS) or ' (known: ' + ', '.join(FUNCTIONS) + ')'}"
                )
    return functions
