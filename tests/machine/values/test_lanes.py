"""Is the value right? Each instruction of the engines against a loop over single elements.

The loops use Python's floats (float64) and round with `single`, and Python's integers and wrap with
`wrapped`; nothing is taken from `systolic.machine`.
"""

from __future__ import annotations

import math
import operator
import statistics
from typing import get_args

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import scalar_lanes
from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.hw.datatypes import data_type
from systolic.isa import (
    Activate,
    Iota,
    Memset,
    Pool,
    Program,
    Select,
    TensorScalar,
    TensorTensor,
)
from systolic.isa.instruction import ActivationFunction, AluOperation, Reduction, Relation
from systolic.machine import Image, simulate
from systolic.machine.values.activation_functions import FUNCTIONS
from systolic.machine.values.arithmetic import COMPARISONS, OPERATIONS, REDUCTIONS

RIGHT, SCALAR, TARGET = 8192, 16384, 24576
"""Byte addresses, each in a bank of its own; the first operand lies at 0."""

floats = st.floats(width=32, allow_subnormal=True)
ordinary = st.floats(-50, 50, width=32)
bytes_ = st.integers(-128, 127)
words = st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-3, 3)


def single(value: float) -> float:
    """Round to float32, overflow to infinity."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def wrapped(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def run(instruction, *operands, engine="event"):
    """Return what the instruction leaves in its target; operands: (access, values)."""
    images = [Image(a, np.asarray(v, data_type(a.dtype).numpy)) for a, v in operands]
    program = Program("values", (instruction,))
    memory = simulate(ideal_chip(4, 4), program, images, engine=engine).memory
    return memory.read(instruction.target)


def row(start, values, dtype="f32"):
    """Return an operand: one partition of values."""
    return state(0, 1, start, len(values), dtype), [values]


def same(found, expected):
    """Compare exactly: signs of zeros too, any NaN with any NaN."""
    assert [repr(float(x)) for x in np.ravel(found)] == [repr(float(x)) for x in expected]


def test_every_name_has_a_row():
    assert set(get_args(ActivationFunction)) == set(FUNCTIONS)
    assert set(get_args(AluOperation)) == set(OPERATIONS)
    assert set(get_args(Reduction)) == set(REDUCTIONS)
    assert set(get_args(Relation)) == set(COMPARISONS)


# -- Activate -------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


PLAIN = {
    "identity": lambda x: x,
    "exponential": math.exp,
    "square": lambda x: x * x,
    "square_root": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "binary_step": lambda x: 1.0 if x >= 0 else 0.0,
    "bipolar_step": lambda x: 1.0 if x >= 0 else -1.0,
    "sigmoid": sigmoid,
    "ramp": lambda x: max(x, 0.0) + 0.0,
    "tanh": math.tanh,
    "gelu": lambda x: x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
    "silu": lambda x: x * sigmoid(x),
    "reciprocal": lambda x: 1 / x if x else math.copysign(math.inf, x),
    "rsqrt": lambda x: math.nan if x < 0 else 1 / math.sqrt(x) if x else math.copysign(math.inf, x),
    "log": lambda x: math.nan if x < 0 else math.log(x) if x else -math.inf,
    "sin": math.sin,
    "abs": abs,
    "sign": lambda x: float((x > 0) - (x < 0)),
    "leaky_relu": lambda x: x if x > 0 else 0.01 * x,
    "relu6": lambda x: min(max(x, 0.0) + 0.0, 6.0),
    "softplus": lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
}
SECOND_STATEMENT = (
    "mish", "erf", "erf_derivative", "arctan", "gelu_erf", "gelu_erf_derivative", "gelu_sigmoid",
    "gelu_sigmoid_derivative", "silu_derivative", "cos", "floor", "ceil", "round", "round_away",
    "log1p", "expm1", "cbrt", "elu", "selu", "hard_sigmoid", "hard_swish",
)  # fmt: skip
"""No plain line says these: their digits are those of `support.scalar_lanes`."""
PLAIN |= {name: scalar_lanes.FUNCTIONS[name] for name in SECOND_STATEMENT}
EXACT = {"identity", "square", "square_root", "binary_step", "bipolar_step", "ramp", "reciprocal",
         "abs", "sign", "leaky_relu", "floor", "ceil", "round", "round_away"}  # fmt: skip


@given(st.sampled_from(get_args(ActivationFunction)), st.lists(ordinary, min_size=1, max_size=5))
@settings(max_examples=400, deadline=None)
def test_functions(name, values):
    values = [0.0 if x == 0 else x for x in values]
    source = row(0, values)
    activate = Activate(function=name, source=source[0], target=state(0, 1, TARGET, len(values)))
    found = run(activate, source)[0]
    expected = [single(PLAIN[name](x)) for x in values]
    if name in EXACT:
        same(found, expected)
    else:  # two mathematical libraries: the neighbouring float32 at most, and hardly ever
        np.testing.assert_array_max_ulp(found, np.float32(expected), 1)


@pytest.mark.parametrize("name", get_args(ActivationFunction))
def test_functions_of_what_is_not_finite(name):
    special = [math.nan, math.inf, -math.inf, -0.0]
    source = row(0, special)
    target = state(0, 1, TARGET, 4)
    # Adding -0 changes nothing; adding +0, the default, would make +0 of -0.
    activate = Activate(function=name, source=source[0], target=target, bias=-0.0)
    found = run(activate, source)
    expected = {
        "identity": [math.inf, -math.inf, -0.0],
        "exponential": [math.inf, 0.0, 1.0],
        "square": [math.inf, math.inf, 0.0],
        "square_root": [math.inf, math.nan, -0.0],
        "binary_step": [1.0, 0.0, 1.0],
        "bipolar_step": [1.0, -1.0, 1.0],
        "sigmoid": [1.0, 0.0, 0.5],
        "ramp": [math.inf, 0.0, 0.0],
        "tanh": [1.0, -1.0, -0.0],
        "gelu": [math.inf, -0.0, -0.0],
        "silu": [math.inf, -0.0, -0.0],
        "reciprocal": [0.0, -0.0, -math.inf],
        "rsqrt": [0.0, math.nan, -math.inf],
        "log": [math.inf, math.nan, -math.inf],
        "sin": [math.nan, math.nan, -0.0],
        "abs": [math.inf, math.inf, 0.0],
        "sign": [1.0, -1.0, 0.0],
        "leaky_relu": [math.inf, -math.inf, -0.0],
        "relu6": [6.0, 0.0, 0.0],
        "softplus": [math.inf, 0.0, single(math.log(2))],
        "mish": [math.inf, -0.0, -0.0],
        "erf": [1.0, -1.0, -0.0],
        "erf_derivative": [0.0, 0.0, single(2 / math.sqrt(math.pi))],
        "arctan": [single(math.pi / 2), single(-math.pi / 2), -0.0],
        "gelu_erf": [math.inf, -0.0, -0.0],
        "gelu_erf_derivative": [1.0, -0.0, 0.5],
        "gelu_sigmoid": [math.inf, -0.0, -0.0],
        "gelu_sigmoid_derivative": [1.0, -0.0, 0.5],
        "silu_derivative": [1.0, -0.0, 0.5],
        "cos": [math.nan, math.nan, 1.0],
        "floor": [math.inf, -math.inf, -0.0],
        "ceil": [math.inf, -math.inf, -0.0],
        "round": [math.inf, -math.inf, -0.0],
        "round_away": [math.inf, -math.inf, -0.0],
        "log1p": [math.inf, math.nan, -0.0],
        "expm1": [math.inf, -1.0, -0.0],
        "cbrt": [math.inf, -math.inf, -0.0],
        "elu": [math.inf, -1.0, -0.0],
        "selu": [math.inf, single(-1.0507009873554805 * 1.6732632423543772), -0.0],
        "hard_sigmoid": [1.0, 0.0, 0.5],
        "hard_swish": [math.inf, -0.0, -0.0],
    }[name]
    same(found, [math.nan, *expected])
    assert found.view(np.uint32)[0, 0] == 0x7FC00000


@given(st.lists(floats, min_size=1, max_size=4), ordinary, ordinary)
@settings(max_examples=150, deadline=None)
def test_scale_and_bias_round_once_each(values, scale, bias):
    source, lane = row(0, values), row(SCALAR, [bias])
    target = state(0, 1, TARGET, len(values))
    plain = Activate(function="identity", source=source[0], target=target, scale=scale, bias=bias)
    per_lane = Activate(
        function="identity", source=source[0], target=target, scale=scale, bias=lane[0]
    )
    expected = [single(single(x * scale) + bias) for x in values]
    same(run(plain, source), expected)
    same(run(per_lane, source, lane), expected)


@pytest.mark.parametrize("engine", ["event", "register"])
def test_each_lane_has_its_own_bias(engine):
    source, bias = state(0, 3, RIGHT, 2), state(1, 3, SCALAR, 1)
    activate = Activate(function="ramp", source=source, target=state(0, 3, 0, 2), bias=bias)
    values = (source, [[1, 2], [3, 4], [5, 6]]), (bias, [[10], [-3], [-5.5]])
    found = run(activate, *values, engine=engine)
    assert found.tolist() == [[11, 12], [0, 1], [0, 0.5]]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("s8", "f32", [9, 4]),
        ("bf16", "s8", [9, 4]),
        ("f32", "f8e4m3fn", [9, 4]),
        ("s32", "u8", [9, 4]),
        ("u8", "bf16", [9, 4]),
    ],
)
def test_every_type_is_squared_in_float32(source, target, expected):
    operand = row(0, [3, 2], source)
    made = Activate(function="square", source=operand[0], target=state(0, 1, TARGET, 2, target))
    assert run(made, operand).astype(float).tolist() == [expected]


def test_the_result_is_rounded_to_the_type_of_the_target():
    operand = row(0, [1.00390625, 300.7, -3.9])
    bf16 = Activate(function="identity", source=operand[0], target=state(0, 1, TARGET, 3, "bf16"))
    assert run(bf16, operand)[0, 0] == ml_dtypes.bfloat16(1.0)  # a tie, to even
    s8 = Activate(function="identity", source=operand[0], target=state(0, 1, TARGET, 3, "s8"))
    assert run(s8, operand).tolist() == [[1, 127, -3]]


# -- Pool -----------------------------------------------------------------------------------------


def in_order(op, values, finish):
    total = values[0]
    for value in values[1:]:
        total = finish(op(total, value))
    return total


@given(
    st.sampled_from(get_args(Reduction)),
    st.integers(1, 5).flatmap(
        lambda w: st.lists(st.lists(ordinary, min_size=w, max_size=w), min_size=1, max_size=4)
    ),
    st.sampled_from(["event", "register"]),
)
@settings(max_examples=300, deadline=None)
def test_pooling_of_floats(name, windows, engine):
    window = len(windows[0])
    source = row(0, [x for w in windows for x in w])
    target = state(0, 1, TARGET, len(windows))
    found = run(Pool(function=name, window=window, source=source[0], target=target), source,
                engine=engine)  # fmt: skip
    expected = {
        "max": max,
        "min": min,
        "sum": lambda w: in_order(operator.add, w, single),
        "product": lambda w: in_order(operator.mul, w, single),
        "mean": lambda w: single(in_order(operator.add, w, single) / window),
        "median": lambda w: single(statistics.median(w)),
    }[name]
    assert found[0].tolist() == [expected(w) for w in windows]


@given(st.sampled_from(get_args(Reduction)), st.lists(words, min_size=2, max_size=6))
@settings(max_examples=200, deadline=None)
def test_pooling_of_integers(name, values):
    source = row(0, values, "s32")
    dtype = "f32" if name in ("mean", "median") else "s32"
    target = state(0, 1, TARGET, 1, dtype)
    found = run(Pool(function=name, window=len(values), source=source[0], target=target), source)
    expected = {
        "max": max,
        "min": min,
        "sum": lambda w: wrapped(sum(w)),
        "product": lambda w: in_order(operator.mul, w, wrapped),
        "mean": lambda w: single(single(wrapped(sum(w))) / len(w)),
        "median": lambda w: single(statistics.median(w)),
    }[name]
    assert found.tolist() == [[expected(values)]]


def test_sums_are_made_in_the_order_of_the_elements():
    source = row(0, [1e8, 1.0, -1e8, 1.0])
    pool = Pool(function="sum", window=4, source=source[0], target=state(0, 1, TARGET, 1))
    assert run(pool, source).tolist() == [[1.0]]  # in pairs, or sorted, it would be 0 or 2


@pytest.mark.parametrize("name", get_args(Reduction))
def test_a_nan_in_the_window_is_the_result(name):
    for place in range(3):
        values = [1.0, 2.0, 3.0, 1.0, 1.0, 1.0]
        values[place] = math.nan
        source = row(0, values)
        pool = Pool(function=name, window=3, source=source[0], target=state(0, 1, TARGET, 2))
        found = run(pool, source)[0].tolist()
        assert math.isnan(found[0])
        assert found[1] == (3 if name == "sum" else 1)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize(
    "values", [[0.0, -0.0], [-0.0, 0.0], [0.0, -0.0, 0.0], [0.0] * 20 + [-0.0]]
)
def test_of_two_zeros_the_later_one_wins(name, values):
    source = row(0, values)
    pool = Pool(function=name, window=len(values), source=source[0], target=state(0, 1, TARGET, 1))
    same(run(pool, source), values[-1:])


def test_windows_of_two_dimensions_are_the_innermost_pairs():
    """2 x 2 windows, 2 apart, of a 4 x 6 image in each partition."""
    image = np.random.default_rng(3).standard_normal((2, 24)).astype(np.float32)
    whole, target = state(0, 2, 0, 24), state(0, 2, TARGET, 6)
    windows = whole.__class__(whole.buffer, "f32", 0, 2, 0, ((12, 2), (2, 3), (6, 2), (1, 2)))
    pool = Pool(function="max", window=4, source=windows, target=target)
    program = Program("pool", (pool,))
    memory = simulate(ideal_chip(4, 4), program, [Image(whole, image)]).memory
    expected = image.reshape(2, 2, 2, 3, 2).max(axis=(2, 4)).reshape(2, 6)
    assert memory.read(target).tolist() == expected.tolist()


# -- TensorTensor and TensorScalar ----------------------------------------------------------------


def float_operation(name, a, b):
    """Return ``a op b`` of two float32 by Python's floats."""
    with np.errstate(all="ignore"):
        x, y = np.array([a], np.float64), np.array([b], np.float64)
        if name == "max":
            return b if not (a > b or math.isnan(a)) else a
        if name == "min":
            return b if not (a < b or math.isnan(a)) else a
        if name.startswith("abs"):
            return float_operation(name[4:], abs(a), abs(b))
        if name == "remainder":
            return math.nan if math.isinf(a) or b == 0 else math.fmod(a, b)
        if name == "arctan2":
            return single(math.atan2(a, b))
        made = {
            "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
            "divide": np.divide, "power": np.power, **COMPARE, **LOGICAL,
        }  # fmt: skip
        return single(float(made[name](x, y)[0]))


def int_operation(name, a, b):
    if name == "divide":
        return -1 if b == 0 else wrapped(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))
    if name == "remainder":
        return a if b == 0 else (abs(a) % abs(b)) * (-1 if a < 0 else 1)
    if name.startswith("abs"):
        return int_operation(name[4:], wrapped(abs(a)), wrapped(abs(b)))
    if name.startswith("shift"):  # Python's integers have no width: shift as far as is asked
        count = b if 0 <= b < 32 else 99
        left_out = a if name == "shift_right_arithmetic" else a % 2**32
        return wrapped(left_out << count if name == "shift_left" else left_out >> count)
    made = {
        "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "max": max,
        "min": min, "and": operator.and_, "or": operator.or_, "xor": operator.xor, **COMPARE,
        **LOGICAL,
    }  # fmt: skip
    return wrapped(int(made[name](a, b)))


COMPARE = {
    "equal": operator.eq, "not_equal": operator.ne, "greater": operator.gt,
    "greater_equal": operator.ge, "less": operator.lt, "less_equal": operator.le,
}  # fmt: skip
LOGICAL = {
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip
BITS = ("and", "or", "xor", "shift_left", "shift_right_logical", "shift_right_arithmetic")
FLOAT_OPS = [name for name in get_args(AluOperation) if name not in BITS]
INT_OPS = [name for name in get_args(AluOperation) if name not in ("power", "arctan2")]
pairs = st.lists(st.tuples(floats, floats), min_size=1, max_size=4)
int_pairs = st.lists(st.tuples(words, words), min_size=1, max_size=4)


@given(st.sampled_from(FLOAT_OPS), pairs)
@settings(max_examples=400, deadline=None)
def test_two_tensors_of_floats(name, values):
    left, right = row(0, [a for a, _ in values]), row(RIGHT, [b for _, b in values])
    target = state(0, 1, TARGET, len(values))
    made = TensorTensor(engine="pooling", op=name, left=left[0], right=right[0], target=target)
    same(run(made, left, right), [float_operation(name, a, b) for a, b in values])


def test_power_one_half_is_no_square_root():
    """IEEE 754 pow(-0, 0.5) is +0 and pow(-inf, 0.5) is +inf; the square roots are -0 and NaN."""
    source, target = row(0, [-0.0, -math.inf, 4.0]), state(0, 1, TARGET, 3)
    made = TensorScalar(engine="pooling", op="power", source=source[0], scalar=0.5, target=target)
    same(run(made, source), [0.0, math.inf, 2.0])


@given(st.sampled_from(INT_OPS), int_pairs)
@settings(max_examples=400, deadline=None)
def test_two_tensors_of_integers(name, values):
    left, right = row(0, [a for a, _ in values], "s32"), row(RIGHT, [b for _, b in values], "s32")
    target = state(0, 1, TARGET, len(values), "s32")
    made = TensorTensor(engine="activation", op=name, left=left[0], right=right[0], target=target)
    assert run(made, left, right)[0].tolist() == [int_operation(name, a, b) for a, b in values]


def test_a_nan_that_was_computed_is_the_plain_one():
    """Processors make others: inf - inf is 0xFFC00000 on some, a NaN passed on keeps its bits."""
    left = state(0, 1, 0, 3)
    odd = np.uint32([[0x7F800000, 0xFFC12345, 0x7F812345]]).view(np.float32)
    made = TensorTensor(
        engine="pooling", op="subtract", left=left, right=left, target=state(0, 1, TARGET, 3)
    )
    most = Pool(function="max", window=1, source=left, target=state(0, 1, TARGET, 3))
    assert (run(made, (left, odd)).view(np.uint32) == 0x7FC00000).all()
    assert (run(most, (left, odd)).view(np.uint32)[0, 1:] == 0x7FC00000).all()


def test_an_integer_and_a_float_meet_in_float32():
    left, right = row(0, [16777217, 3], "s32"), row(RIGHT, [0.0, 0.5])
    made = TensorTensor(
        engine="activation", op="add", left=left[0], right=right[0], target=state(0, 1, TARGET, 2)
    )
    assert run(made, left, right).tolist() == [[16777216, 3.5]]


@given(
    st.sampled_from(FLOAT_OPS), st.sampled_from(FLOAT_OPS), ordinary, ordinary, ordinary,
    st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_two_operations_with_scalars(op, then, x, a, b, reverse, then_reverse, per_lane):
    source, first, second = row(0, [x]), row(RIGHT, [a]), row(SCALAR, [b])
    made = TensorScalar(
        engine="pooling", op=op, source=source[0], scalar=first[0] if per_lane else a,
        reverse=reverse, then=then, other=second[0] if per_lane else b, then_reverse=then_reverse,
        target=state(0, 1, TARGET, 1),
    )  # fmt: skip
    middle = float_operation(op, *((a, x) if reverse else (x, a)))
    same(
        run(made, source, first, second),
        [float_operation(then, *((b, middle) if then_reverse else (middle, b)))],
    )


@given(st.sampled_from(INT_OPS), words, words, st.booleans())
@settings(max_examples=200, deadline=None)
def test_an_integer_and_a_whole_number(name, x, number, reverse):
    source = row(0, [x], "s32")
    made = TensorScalar(
        engine="pooling", op=name, source=source[0], scalar=number, reverse=reverse,
        target=state(0, 1, TARGET, 1, "s32"),
    )  # fmt: skip
    operands = (number, x) if reverse else (x, number)
    assert run(made, source).tolist() == [[int_operation(name, *operands)]]


SHIFTS = {
    "shift_left": np.left_shift,
    "shift_right_logical": lambda a, n: np.right_shift(a.view(np.uint32), n.astype(np.uint32)),
    "shift_right_arithmetic": np.right_shift,
}


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("name", SHIFTS)
def test_shifts_equal_numpy_where_numpy_defines_them(name, engine):
    """By 0 to 31; beyond, a shift empties the word (as XLA's), where C and numpy leave it open."""
    word = np.array([[-(2**31), -1, 0, 1, 0x12345678, 2**31 - 1, -0x12345679]], np.int32)
    for count in (-(2**31), -1, *range(32), 32, 33, 2**31 - 1):
        left = state(0, 1, 0, 7, "s32"), word
        right = state(0, 1, RIGHT, 7, "s32"), np.full((1, 7), count, np.int32)
        made = TensorTensor(
            engine="pooling", op=name, left=left[0], right=right[0],
            target=state(0, 1, TARGET, 7, "s32"),
        )  # fmt: skip
        images = [Image(*left), Image(*right)]
        memory = simulate(ideal_chip(4, 4), Program("p", (made,)), images, engine=engine).memory
        empty = np.where(word < 0, -1, 0) if name == "shift_right_arithmetic" else 0 * word
        defined = 0 <= count < 32
        expected = SHIFTS[name](*(x[1] for x in (left, right))) if defined else empty
        assert np.array_equal(memory.read(made.target).view(np.uint32), expected.astype("u4"))


@given(words)
def test_not_is_xor_with_minus_one(x):
    """... as docs/instruction_set.md says; and of bytes, the bits that are there."""
    for dtype, value in (("s32", x), ("u8", x % 256), ("s8", x % 256 - 128)):
        source, target = row(0, [value], dtype), state(0, 1, TARGET, 1, dtype)
        made = TensorScalar(
            engine="activation", op="xor", source=source[0], scalar=-1, target=target
        )
        expected = np.invert(np.array([[value]], data_type(dtype).numpy))
        assert run(made, source).tolist() == expected.tolist()


def test_an_integer_and_a_number_with_a_point_meet_in_float32():
    source = row(0, [7], "s8")
    for scalar, expected in ((2, 3), (2.0, 3.5)):
        made = TensorScalar(
            engine="activation", op="divide", source=source[0], scalar=scalar,
            target=state(0, 1, TARGET, 1),
        )  # fmt: skip
        assert run(made, source).tolist() == [[expected]]


def test_a_step_of_zero_broadcasts():
    """A row of 3 against a column of 2: 6 elements in each of 2 partitions."""
    left, right = state(0, 2, 0, 3), state(0, 2, RIGHT, 2)
    wide = left.__class__(left.buffer, "f32", 0, 2, 0, ((0, 2), (1, 3)))
    tall = left.__class__(left.buffer, "f32", 0, 2, RIGHT, ((1, 2), (0, 3)))
    target = state(0, 2, TARGET, 6)
    made = TensorTensor(engine="activation", op="multiply", left=wide, right=tall, target=target)
    a, b = np.float32([[1, 2, 3], [4, 5, 6]]), np.float32([[10, 100], [-1, 0]])
    images = [Image(left, a), Image(right, b)]
    memory = simulate(ideal_chip(4, 4), Program("broadcast", (made,)), images).memory
    assert memory.read(target).tolist() == (a[:, None, :] * b[:, :, None]).reshape(2, 6).tolist()


# -- generators -----------------------------------------------------------------------------------


@given(words, words, words, st.sampled_from(["event", "register"]))
@settings(max_examples=100, deadline=None)
def test_iota(base, per_partition, per_element, engine):
    target = state(1, 3, TARGET, 5, "s32")
    iota = Iota(
        engine="pooling", target=target, base=base, per_partition=per_partition,
        per_element=per_element,
    )  # fmt: skip
    assert run(iota, engine=engine).tolist() == [
        [wrapped(base + per_partition * lane + per_element * i) for i in range(5)]
        for lane in range(3)
    ]


@given(
    st.sampled_from(get_args(Relation)), st.integers(-4, 4), st.integers(-2, 2),
    st.integers(-2, 2), st.booleans(), st.sampled_from(["event", "register"]),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_select(compare, base, per_partition, per_element, copies, engine):
    target, source = state(0, 3, TARGET, 5, "bf16"), state(1, 3, 0, 5, "s8")
    values = np.arange(15).reshape(3, 5)
    select = Select(
        engine="activation", compare=compare, value=source if copies else 2, target=target,
        base=base, per_partition=per_partition, per_element=per_element, other=-1.5,
    )  # fmt: skip
    found = run(select, (source, values), engine=engine)
    assert found.astype(float).tolist() == [
        [
            float(values[lane, i] if copies else 2)
            if COMPARE[compare](base + per_partition * lane + per_element * i, 0)
            else -1.5
            for i in range(5)
        ]
        for lane in range(3)
    ]


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f8e4m3fn", "s8"])
def test_one_select_makes_an_identity_in_as_many_cycles_as_it_has_columns(engine, dtype):
    size = 4
    target = state(0, size, TARGET, size, dtype)
    select = Select(
        engine="pooling", compare="equal", value=1, target=target, per_partition=1, per_element=-1
    )
    outcome = simulate(ideal_chip(size, size), Program("eye", (select,)), engine=engine)
    assert (outcome.memory.read(target).astype(float) == np.eye(size)).all()
    (times,) = outcome.trace.times
    assert (times.first, times.last, times.done) == (0, size - 1, size)


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (300, "s8", 44),
        (2.9, "s8", 2),
        (-300.0, "s8", -128),
        (0.1, "bf16", 0.10009765625),
        (3, "f16", 3),
    ],
)
def test_a_constant_is_cast_like_any_value(engine, value, dtype, expected):
    memset = Memset(engine="pooling", target=state(0, 2, TARGET, 3, dtype), value=value)
    assert (run(memset, engine=engine).astype(float) == expected).all()


def test_words_of_the_result_buffer_are_operands_and_targets():
    left, target = psum(0, 2, 0, 3), psum(0, 2, 8, 3)
    made = TensorScalar(engine="activation", op="add", source=left, scalar=0.5, target=target)
    assert run(made, (left, [[1, 2, 3], [4, 5, 6]])).tolist() == [[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]]
