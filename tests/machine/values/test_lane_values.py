"""Do the engines compute what a second, scalar statement says, for every instruction and type?

Both engines of the simulator compute with one module, so that comparing them says nothing of its
values. `support.scalar_lanes` says all of it again without numpy. The operands are the values at
which arithmetic goes wrong: NaN of all kinds, infinities, both zeros, subnormals, ties, the
largest and the smallest.
"""

from __future__ import annotations

import math
from random import Random
from typing import get_args

import numpy as np
import pytest

from support import exact
from support import scalar_lanes as lanes
from support.chips import ideal_chip
from systolic.hw.datatypes import DATA_TYPES, data_type
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
)
from systolic.isa.instruction import ActivationFunction, AluOperation, Reduction, Relation
from systolic.machine import Image, simulate

ENGINES = ("event", "register")
RIGHT, LANE, OTHER, TARGET = 8192, 16384, 20480, 24576
FLOAT_ONLY = sorted(set(get_args(AluOperation)) & (set(lanes.FLOATS) | set(lanes.COMPARE)))
WORDS = [0, 1, -1, 2, 3, -3, 7, 31, 32, 33, -31, -32, 255, 256, 2**24 + 1, -(2**24) - 1,
         2**30 + 2**22 + 1, 2**31 - 1, -(2**31), -(2**31) + 1]  # fmt: skip


def specials(name: str) -> list[int]:
    """Return patterns of a float type at which arithmetic turns."""
    form = exact.FLOATS[name]
    minus, one = 1 << (form.bits - 1), form.bias << form.mantissa
    last = (
        form.quiet - 1 if not form.has_infinity else ((1 << form.exponent) - 1 << form.mantissa) - 1
    )
    small = 1 << form.mantissa
    found = [0, 1, small - 1, small, small + 1, one, one + 1, one - 1, one + (small >> 1),
             one + 2 * small, last, last - 1, form.quiet]  # fmt: skip
    if form.has_infinity:
        found += [last + 1, last + 2]  # infinity, and a signalling NaN
    return [pattern | side for pattern in found for side in (0, minus)]


def values(name: str) -> np.ndarray:
    """Return the special values of a type, [count]."""
    dtype = data_type(name).numpy
    if name in exact.FLOATS:
        return np.array(specials(name), f"u{dtype.itemsize}").view(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.array([word for word in {*WORDS, low, high, high - 1} if low <= word <= high], dtype)


def numbers(row: np.ndarray, name: str) -> list:
    """Return what the patterns of a row are worth, by `support.exact`."""
    if name in exact.INTEGERS:
        return row.tolist()
    return [exact.value_of(bits, name) for bits in row.view(f"u{row.itemsize}").tolist()]


def pairs(left: str, right: str) -> tuple[np.ndarray, np.ndarray]:
    a, b = values(left), values(right)
    return np.repeat(a, len(b)), np.tile(b, len(a))


def row(start: int, dtype: str, count: int) -> Access:
    return Access(Buffer.STATE, dtype, 0, 1, start, ((1, count),))


def run(instruction, images, engine: str) -> np.ndarray:
    """Return the row that the instruction leaves in its target."""
    chip = ideal_chip(2, 2, state_buffer={"bytes_per_partition": 65536, "banks": 8})
    loaded = [Image(access, data.reshape(1, -1)) for access, data in images]
    memory = simulate(chip, Program("lanes", (instruction,)), loaded, engine=engine).memory
    return memory.read(instruction.target)[0]


def patterns(found: np.ndarray) -> list[int]:
    return found.view(f"u{found.itemsize}").tolist()


def stored(value, dtype: str) -> int:
    """Return the bits of a computed number, cast to a type."""
    source = "s32" if isinstance(value, int) else "f32"
    if dtype in exact.INTEGERS:
        bits, _ = exact.INTEGERS[dtype]
        return exact.cast(value, source, dtype) % (1 << bits)
    number = exact.Fraction(value) if isinstance(value, int) else value
    return exact.pattern_of(number, dtype)


def check(found: np.ndarray, wanted: list, dtype: str, say, *, ulps: int = 0) -> None:
    """Compare bit by bit; `ulps`: how far apart two float32 may be."""
    got, expected = patterns(found), [stored(value, dtype) for value in wanted]
    for place, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
        if mine != theirs and abs(mine - theirs) > ulps:
            raise AssertionError(f"{say(place)}: {mine:#x}, by hand {theirs:#x} ({wanted[place]})")


# -- two operands ---------------------------------------------------------------------------------

MIXED = [("f32", "s32"), ("s32", "f32"), ("bf16", "s8"), ("s8", "s32"), ("u8", "f8e4m3fn")]


@pytest.mark.slow
@pytest.mark.parametrize(("left", "right"), [*((t, t) for t in DATA_TYPES), *MIXED])
def test_every_operation_on_two_tensors(left, right):
    whole = left in exact.INTEGERS and right in exact.INTEGERS
    target = "s32" if whole else "f32"
    a, b = pairs(left, right)
    one, other = row(0, left, len(a)), row(RIGHT, right, len(a))
    for place, name in enumerate(get_args(AluOperation) if whole else FLOAT_ONLY):
        tensors = TensorTensor(
            engine="pooling", op=name, left=one, right=other, target=row(TARGET, target, len(a))
        )
        found = run(tensors, [(one, a), (other, b)], ENGINES[place % 2])
        x, y = numbers(a, left), numbers(b, right)
        wanted = [lanes.operate(name, p, q) for p, q in zip(x, y, strict=True)]
        check(
            found, wanted, target, lambda i, n=name, x=x, y=y: f"{x[i]} {n} {y[i]}",
            ulps=name == "power",
        )  # fmt: skip


SCALARS = [0, 3, -7, 2**31 - 1, 0.5, -1.25, math.inf, math.nan, -0.0, 1e-45, 3.4e38]


@pytest.mark.parametrize("source", DATA_TYPES)
def test_operations_one_after_another_on_numbers_and_lanes(source):
    rng, data = Random(source), values(source)
    operand, lane = row(0, source, len(data)), row(LANE, "f32", 1)
    for turn in range(60):
        scalar, other = rng.choice(SCALARS), rng.choice(SCALARS)
        whole = source in exact.INTEGERS and isinstance(scalar, int)
        op = rng.choice(
            [n for n in (get_args(AluOperation) if whole else FLOAT_ONLY) if n != "power"]
        )
        then = rng.choice([None, *(n for n in FLOAT_ONLY if n != "power")])
        flip, in_lane = rng.random() < 0.5, rng.random() < 0.3
        flip_then = then is not None and rng.random() < 0.5
        target = rng.choice(list(DATA_TYPES))
        if in_lane:
            other = float(np.float32(rng.choice(SCALARS)))
        instruction = TensorScalar(
            engine="activation", op=op, source=operand, scalar=scalar, reverse=flip, then=then,
            other=lane if in_lane and then else other if then else 0.0, then_reverse=flip_then,
            target=row(TARGET, target, len(data)),
        )  # fmt: skip
        images = [(operand, data), (lane, np.array([other], np.float32))]
        found = run(instruction, images, ENGINES[turn % 2])
        wanted = []
        for value in numbers(data, source):
            number = scalar if isinstance(scalar, int) else lanes.single(scalar)
            made = lanes.operate(op, *((number, value) if flip else (value, number)))
            if then:
                number = other if isinstance(other, int) else lanes.single(other)
                made = lanes.operate(then, *((number, made) if flip_then else (made, number)))
            wanted.append(made)
        check(found, wanted, target, lambda i, s=instruction: f"element {i} of {s}")


# -- functions ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("source", DATA_TYPES)
def test_every_function(source):
    data = values(source)
    operand = row(0, source, len(data))
    cases = [(1.0, -0.0), (1.0, 0.0), (-0.25, 1.5), (3.0, -math.inf), (math.nan, 0.0), (0.0, 0.0)]
    x = numbers(data, source)
    for place, name in enumerate(get_args(ActivationFunction)):
        for scale, bias in {cases[0], cases[place % len(cases)], cases[-1 - place % len(cases)]}:
            instruction = Activate(
                function=name, source=operand, target=row(TARGET, "f32", len(data)),
                scale=scale, bias=bias,
            )  # fmt: skip
            found = run(instruction, [(operand, data)], ENGINES[place % 2])
            wanted = [lanes.activate(name, value, scale, bias) for value in x]
            say = f"{name} with scale {scale} and bias {bias} of"
            near = name not in lanes.EXACT
            check(found, wanted, "f32", lambda i, say=say: f"{say} {x[i]}", ulps=near)


@pytest.mark.parametrize("target", DATA_TYPES)
def test_what_is_exact_in_every_type_of_the_target(target):
    data = values("f32")
    operand = row(0, "f32", len(data))
    for name in sorted(lanes.EXACT):
        instruction = Activate(function=name, source=operand, target=row(TARGET, target, len(data)))
        found = run(instruction, [(operand, data)], "event")
        x = numbers(data, "f32")
        wanted = [lanes.activate(name, value, 1.0, 0.0) for value in x]
        check(found, wanted, target, lambda i, n=name, x=x: f"{n}({x[i]})")


# -- pooling --------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", DATA_TYPES)
@pytest.mark.parametrize("window", [1, 2, 3, 4])
def test_every_reduction(source, window):
    rng, all_values = np.random.default_rng(window), values(source)
    data = all_values[rng.integers(0, len(all_values), 120 * window)]
    operand = row(0, source, len(data))
    for place, name in enumerate(get_args(Reduction)):
        floats = source in exact.FLOATS or name in ("mean", "median")
        target = "f32" if floats else "s32"
        pool = Pool(function=name, window=window, source=operand, target=row(TARGET, target, 120))
        found = run(pool, [(operand, data)], ENGINES[place % 2])
        x = numbers(data, source)
        windows = [x[n : n + window] for n in range(0, len(x), window)]
        wanted = [lanes.reduce(name, w) for w in windows]
        wanted = [lanes.single(w) if floats else w for w in wanted]
        check(found, wanted, target, lambda i, n=name, w=windows: f"{n} of {w[i]}")


# -- copies, constants, numbers by place ----------------------------------------------------------


@pytest.mark.parametrize("source", DATA_TYPES)
@pytest.mark.parametrize("target", DATA_TYPES)
def test_copy_and_select_keep_bits_or_cast(source, target):
    data = values(source)
    operand = row(0, source, len(data))
    there = row(TARGET, target, len(data))
    copy = Copy(engine="activation", source=operand, target=there)
    every = Select(engine="pooling", compare="equal", value=operand, target=there)
    x = numbers(data, source)
    width = 8 * data_type(target).size_bytes
    wanted = patterns(data)
    if source != target:
        as_float = source in exact.FLOATS
        wanted = [
            exact.cast(v, source, target) % (1 << width) if target in exact.INTEGERS
            else exact.pattern_of(v if as_float else exact.Fraction(v), target)
            for v in x
        ]  # fmt: skip
    for instruction, engine in ((copy, "event"), (every, "register")):
        assert patterns(run(instruction, [(operand, data)], engine)) == wanted


@pytest.mark.parametrize("target", DATA_TYPES)
@pytest.mark.parametrize("value", [0, -1, 300, 2**30 + 2**22 + 1, -(2**31), 0.1, -0.0, 1e30, -1e30,
                                   math.inf, -math.inf, math.nan])  # fmt: skip
def test_constants(target, value):
    memset = Memset(engine="pooling", target=row(TARGET, target, 3), value=value)
    number = value if isinstance(value, int) else lanes.single(value)
    check(run(memset, [], "event"), [number] * 3, target, lambda _: f"memset {value}")


@pytest.mark.parametrize("target", DATA_TYPES)
@pytest.mark.parametrize(
    "steps", [(0, 0, 1), (-3, 2, -1), (2**31 - 2, 1, 1), (-(2**31), -1, 2**24)]
)
def test_iota_wraps(target, steps):
    there = Access(Buffer.STATE, target, 0, 2, TARGET, ((1, 9),))
    base, per_partition, per_element = steps
    iota = Iota(
        engine="activation", target=there, base=base, per_partition=per_partition,
        per_element=per_element,
    )  # fmt: skip
    memory = simulate(ideal_chip(2, 2), Program("iota", (iota,))).memory
    wanted = [exact.wrapped(lanes.affine(p, i, *steps)) for p in range(2) for i in range(9)]
    check(memory.read(there).ravel(), wanted, target, lambda i: f"element {i}")


@pytest.mark.parametrize("compare", get_args(Relation))
@pytest.mark.parametrize("target", DATA_TYPES)
def test_select_by_place(compare, target):
    there = Access(Buffer.STATE, target, 0, 2, TARGET, ((1, 9),))
    select = Select(
        engine="pooling", compare=compare, value=2**30 + 2**22 + 1, target=there, base=-3,
        per_partition=1, per_element=1, other=math.nan,
    )  # fmt: skip
    memory = simulate(ideal_chip(2, 2), Program("select", (select,))).memory
    places = [lanes.affine(p, i, -3, 1, 1) for p in range(2) for i in range(9)]
    wanted = [2**30 + 2**22 + 1 if lanes.COMPARE[compare](n, 0) else math.nan for n in places]
    check(memory.read(there).ravel(), wanted, target, lambda i: f"place {places[i]}")


# -- requantisation -------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["s8", "u8", "s32"])
@pytest.mark.parametrize(("source", "bias"), [("s32", "s32"), ("s8", "s8"), ("s32", "f32"),
                                              ("f32", "s32"), ("bf16", "f32")])  # fmt: skip
@pytest.mark.parametrize("ends", [(-(2**31), 2**31 - 1), (-5, 5), (3, 9)])
def test_requantise(source, bias, target, ends):
    """Each special number with each special bias in a lane, by scales that round and overflow."""
    data, offsets = values(source), values(bias)
    low, high = np.iinfo(data_type(target).numpy).min, np.iinfo(data_type(target).numpy).max
    ends = max(ends[0], low), min(ends[1], high)
    for place, offset in enumerate(numbers(offsets, bias)):
        scale = (0.5, -0.25, 1.0, 3e-9, 1e30)[place % 5]
        instruction = Requantise(
            engine=("activation", "pooling")[place % 2], source=row(0, source, len(data)),
            target=row(TARGET, target, len(data)), scale=row(OTHER, "f32", 1),
            bias=row(LANE, bias, 1), lowest=ends[0], highest=ends[1],
        )  # fmt: skip
        loaded = [(instruction.source, data), (instruction.bias, offsets[place : place + 1]),
                  (instruction.scale, np.array([scale], np.float32))]  # fmt: skip
        found = run(instruction, loaded, ENGINES[place % 2])
        wanted = [lanes.requantise(x, offset, scale, *ends) for x in numbers(data, source)]
        check(found, wanted, target, lambda i, o=offset, s=scale: f"({data[i]} + {o}) * {s}")


def test_requantise_rounds_to_even_and_saturates():
    """By hand: halves go to the even number, 127.5 is beyond s8, a sum wraps before the scale."""
    sums = np.array([1, 3, 5, -1, -3, 253, 255, -257, 2**31 - 1], np.int32)
    instruction = Requantise(
        engine="pooling", source=row(0, "s32", 9), target=row(TARGET, "s8", 9), scale=0.5
    )
    assert run(instruction, [(instruction.source, sums)], "event").tolist() == [
        0, 2, 2, 0, -2, 126, 127, -128, 127
    ]  # fmt: skip
    wrapping = Requantise(
        engine="pooling", source=row(0, "s32", 9), target=row(TARGET, "s8", 9), scale=1.0, bias=1
    )
    assert run(wrapping, [(wrapping.source, sums)], "register").tolist()[-1] == -128
