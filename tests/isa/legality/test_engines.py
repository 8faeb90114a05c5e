"""Does every illegal instruction of the engines get its clear line?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.errors import ProgramError
from systolic.isa import (
    Access,
    Activate,
    Buffer,
    Copy,
    Iota,
    Memset,
    Pool,
    Program,
    Requantise,
    Select,
    TensorScalar,
    TensorTensor,
    check_program,
)

A, B, TARGET, LANE = state(0, 4, 0, 8), state(0, 4, 64, 8), state(0, 4, 128, 8), state(0, 4, 256, 1)
BYTES = state(0, 4, 0, 8, "s8")
DRAM = Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, 8),))
ACTIVATE = Activate(function="ramp", source=A, target=TARGET)
POOL = Pool(function="max", window=4, source=A, target=state(0, 4, 128, 2))
PAIR = TensorTensor(engine="pooling", op="add", left=A, right=B, target=TARGET)
SCALAR = TensorScalar(engine="activation", op="add", source=A, scalar=LANE, target=TARGET)
SELECT = Select(engine="pooling", compare="equal", value=A, target=TARGET)
IOTA = Iota(engine="pooling", target=TARGET)
WHOLE = replace(TARGET, dtype="s8")
REQUANTISE = Requantise(engine="pooling", source=A, scale=LANE, target=WHOLE)
COPY = Copy(engine="pooling", source=A, target=TARGET)
MEMSET = Memset(engine="pooling", target=TARGET, value=0)


def check(instruction):
    check_program(Program("p", (instruction,)), ideal_chip(4, 4))


def test_halves_of_words_are_copied_and_nothing_is_calculated_with_them():
    halves = state(0, 4, 0, 8, "u16")
    for ends in ((halves, TARGET), (A, replace(TARGET, dtype="u16")), (psum(0, 4, 0, 8), halves)):
        check(replace(COPY, source=ends[0], target=ends[1]))
    with pytest.raises(ProgramError) as caught:
        check(replace(ACTIVATE, source=halves))
    assert str(caught.value) == (
        "p: instruction 0 (Activate): source: engines calculate with f32, bf16, f16, f8e4m3fn, "
        "f8e5m2, s8, u8, s32, not with u16"
    )


def test_an_element_must_pass_a_port():
    types = {"cycles_per_vector": {"s8": 1}}
    chip = ideal_chip(4, 4, pe_array=types, state_buffer={"port_bytes": 2})
    check_program(Program("p", (replace(COPY, source=psum(0, 4, 0, 8), target=BYTES),)), chip)
    with pytest.raises(ProgramError) as caught:
        check_program(Program("p", (COPY,)), chip)
    assert str(caught.value) == (
        "p: instruction 0 (Copy): source: an element of f32 has 4 bytes, more than "
        "state_buffer.port_bytes (2)"
    )


@pytest.mark.parametrize(
    "instruction",
    [
        *(ACTIVATE, POOL, PAIR, SCALAR, SELECT, IOTA, COPY, MEMSET, REQUANTISE),
        replace(ACTIVATE, bias=LANE, source=psum(0, 4, 0, 8), target=psum(0, 4, 8, 8)),
        replace(PAIR, op="xor", left=BYTES, right=state(0, 4, 32, 8, "s32")),
        replace(SCALAR, op="and", source=BYTES, scalar=7, then="xor", other=1),
        replace(
            SCALAR, source=state(0, 2, 0, 8), scalar=state(2, 2, 0, 1), target=state(1, 2, 64, 8)
        ),
        replace(SELECT, value=1),
        replace(IOTA, base=-(1 << 31)),
    ],
    ids=lambda i: type(i).__name__,
)
def test_legal(instruction):
    check(instruction)


LISTED = ideal_chip(4, 4, engines={
    "vector": {"does": ["copy", "tensor_tensor"]},
    "scalar": {"does": ["copy", "activate"], "reads": ["result_buffer"],
               "functions": {"activate": ["ramp", "gelu"]}},
    "gpsimd": {"does": ["copy", "iota"], "reads": ["state_buffer"], "writes": ["state_buffer"]},
})  # fmt: skip
SUMS = psum(0, 4, 0, 8)
LISTED_CASES = {
    "unknown": (replace(COPY, engine="vectr"),
                "engine: needed vector or scalar or gpsimd, found vectr; "
                'perhaps "vector" was meant'),
    "the patent's": (COPY, "engine: needed vector or scalar or gpsimd, found pooling"),
    "unable": (replace(PAIR, engine="scalar"),
               "engine: needed vector, found scalar, which does not do tensor_tensor"),
    "none able": (POOL, "engine: no engine of test 4 x 4 does pool (vector does copy, "
                        "tensor_tensor; scalar does copy, activate; gpsimd does copy, iota)"),
    "unable of a function": (replace(ACTIVATE, engine="scalar", source=SUMS, function="sin"),
                             "engine: no engine of test 4 x 4 does activate of sin (scalar does "
                             "activate of ramp, gelu)"),
    "operand out of reach": (replace(COPY, engine="gpsimd", source=SUMS),
                             "source: gpsimd reads state_buffer, found result_buffer"),
    "scale out of reach": (replace(ACTIVATE, engine="scalar", source=SUMS, bias=LANE),
                           "bias: scalar reads result_buffer, found state_buffer"),
    "target out of reach": (replace(IOTA, engine="gpsimd", target=SUMS),
                            "target: gpsimd writes state_buffer, found result_buffer"),
}  # fmt: skip


@pytest.mark.parametrize("case", LISTED_CASES)
def test_illegal_on_a_chip_that_lists_its_engines(case):
    instruction, text = LISTED_CASES[case]
    with pytest.raises(ProgramError) as caught:
        check_program(Program("p", (instruction,)), LISTED)
    assert str(caught.value) == f"p: instruction 0 ({type(instruction).__name__}): {text}"


def test_legal_on_a_chip_that_lists_its_engines():
    able = (
        replace(COPY, engine="vector", source=SUMS), replace(PAIR, engine="vector"),
        replace(ACTIVATE, engine="scalar", source=SUMS, target=SUMS),
        replace(IOTA, engine="gpsimd"),
    )  # fmt: skip
    check_program(Program("p", able), LISTED)


CASES = {
    "engine": (
        replace(POOL, engine="activation"),
        "engine: needed pooling, found activation, which does not do pool",
    ),
    "engine 2": (
        replace(ACTIVATE, engine="pooling"),
        "engine: needed activation, found pooling, which does not do activate",
    ),
    "engine 3": (replace(PAIR, engine="dma"), "engine: needed activation or pooling, found dma"),
    "function": (
        replace(ACTIVATE, function="sigmiod"),
        'function: there is no "sigmiod" (there are: identity, exponential, square, square_root, '
        "binary_step, bipolar_step, sigmoid, ramp, tanh, gelu, silu, reciprocal, rsqrt, log, sin, "
        "abs, sign, leaky_relu, softplus, mish, erf, erf_derivative, arctan, gelu_erf, "
        "gelu_erf_derivative, gelu_sigmoid, gelu_sigmoid_derivative, silu_derivative, relu6, "
        "cos, floor, ceil, round, round_away, log1p, expm1, cbrt, elu, selu, hard_sigmoid, "
        "hard_swish); "
        'perhaps "sigmoid" was meant',
    ),
    "reduction": (
        replace(POOL, function="maximum"),
        'function: there is no "maximum" (there are: max, min, mean, median, sum, product); '
        'perhaps "max" was meant',
    ),
    "window": (replace(POOL, window=0), "window: needed at least 1 element, found 0"),
    "windows": (
        replace(POOL, window=3),
        "source has 4 x 8 elements, target 4 x 2 of 3 each",
    ),
    "pool lanes": (
        replace(POOL, target=state(0, 3, 128, 2)),
        "source has 4 x 8 elements, target 3 x 2 of 4 each",
    ),
    "source": (
        replace(ACTIVATE, source=state(0, 4, 0, 7)),
        "source has 4 x 7 elements, target 4 x 8",
    ),
    "left": (replace(PAIR, left=state(0, 3, 0, 8)), "left has 3 x 8 elements, target 4 x 8"),
    "right": (replace(PAIR, right=LANE), "right has 4 x 1 elements, target 4 x 8"),
    "scalar source": (
        replace(SCALAR, source=LANE),
        "source has 4 x 1 elements, target 4 x 8",
    ),
    "value": (replace(SELECT, value=LANE), "value has 4 x 1 elements, target 4 x 8"),
    "copy": (replace(COPY, source=LANE), "source has 4 x 1 elements, target 4 x 8"),
    "bias": (
        replace(ACTIVATE, bias=A),
        "bias: needed one element in each of 4 partitions, found 4 x 8",
    ),
    "scalar": (
        replace(SCALAR, scalar=state(0, 1, 0, 1)),
        "scalar: needed one element in each of 4 partitions, found 1 x 1",
    ),
    "other": (
        replace(SCALAR, then="add", other=A),
        "other: needed one element in each of 4 partitions, found 4 x 8",
    ),
    "then": (
        replace(SCALAR, other=2.0),
        "other and then_reverse mean nothing without then",
    ),
    "then_reverse": (
        replace(SCALAR, then_reverse=True),
        "other and then_reverse mean nothing without then",
    ),
    "op": (
        replace(PAIR, op="plus"),
        'op: there is no "plus" (there are: add, subtract, multiply, divide, power, max, min, and, '
        "or, xor, shift_left, shift_right_logical, shift_right_arithmetic, "
        "equal, not_equal, greater, greater_equal, less, less_equal, "
        "logical_and, logical_or, logical_xor, abs_max, abs_min, remainder, arctan2)",
    ),
    "bits": (replace(PAIR, op="and"), "op: and takes integers, but left is floating-point"),
    "bits of right": (
        replace(PAIR, op="or", left=BYTES),
        "op: or takes integers, but right is floating-point",
    ),
    "bits of a number": (
        replace(SCALAR, op="xor", source=BYTES, scalar=1.0),
        "op: xor takes integers, but scalar is floating-point",
    ),
    "bits of a shift": (
        replace(SCALAR, op="shift_left", source=BYTES, scalar=1.0),
        "op: shift_left takes integers, but scalar is floating-point",
    ),
    "bits of a result": (
        replace(SCALAR, op="power", source=BYTES, scalar=2, then="and", other=1),
        "then: and takes integers, but the result of power is floating-point",
    ),
    "then op": (
        replace(SCALAR, then="nand"),
        'then: there is no "nand" (there are: add, subtract, multiply, divide, power, max, min, '
        "and, or, xor, shift_left, shift_right_logical, shift_right_arithmetic, "
        "equal, not_equal, greater, greater_equal, less, less_equal, "
        "logical_and, logical_or, logical_xor, abs_max, abs_min, remainder, arctan2); "
        'perhaps "and" was meant',
    ),
    "requantise to floats": (
        replace(REQUANTISE, target=TARGET),
        "target: requantise gives integers, found f32",
    ),
    "requantise by integers": (
        replace(REQUANTISE, scale=replace(LANE, dtype="s32")),
        "scale: needs floating-point numbers, found s32",
    ),
    "nothing in between": (
        replace(REQUANTISE, lowest=3, highest=2),
        "lowest is 3, but highest is 2",
    ),
    "scale of a requantise": (
        replace(REQUANTISE, scale=A),
        "scale: needed one element in each of 4 partitions, found 4 x 8",
    ),
    "compare": (
        replace(SELECT, compare="equals"),
        'compare: there is no "equals" (there are: equal, not_equal, greater, greater_equal, less, '
        'less_equal); perhaps "equal" was meant',
    ),
    "number": (
        replace(MEMSET, value=1 << 31),
        "value: a whole number has 32 bits here, found 2147483648",
    ),
    "base": (
        replace(IOTA, base=-(1 << 31) - 1),
        "base: a whole number has 32 bits here, found -2147483649",
    ),
    "place": (replace(IOTA, target=DRAM), "target: must lie on chip, found dram"),
    "place of a bias": (replace(ACTIVATE, bias=DRAM), "bias: must lie on chip, found dram"),
    "outside": (
        replace(ACTIVATE, bias=state(2, 4, 0, 1)),
        "bias: partitions 2 to 5 of state_buffer, which has 4",
    ),
}


@pytest.mark.parametrize(("instruction", "text"), CASES.values(), ids=CASES)
def test_illegal(instruction, text):
    kind = type(instruction).__name__
    with pytest.raises(ProgramError) as caught:
        check(instruction)
    assert str(caught.value) == f"p: instruction 0 ({kind}): {text}"
