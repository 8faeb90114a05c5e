"""Does every cast round once, to nearest even, and is every NaN the type's own?

Against `support.exact`, which knows integers and fractions only. All patterns of the types of 8
and 16 bits; of float32 and int32 those around every place where a rounding could turn.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from support import exact
from support.blocks import state
from support.chips import ideal_chip
from systolic.hw.datatypes import DATA_TYPES, data_type
from systolic.isa import Copy, Program
from systolic.machine import Image, simulate
from systolic.machine.memory import cast
from systolic.workload.operations.cast import convert

SHORT = ("bf16", "f16", "f8e4m3fn", "f8e5m2")


def patterns(values) -> list[int]:
    return values.view(f"u{values.itemsize}").tolist()


def whole_type(name: str):
    """Return every value of a type of 8 or 16 bits."""
    dtype = data_type(name).numpy
    return np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)


def expected(value, source: str, target: str) -> int:
    """Return the pattern, or the integer, that a cast of a Python number must give."""
    if target in exact.INTEGERS:
        return exact.cast(value, source, target)
    return exact.pattern_of(Fraction(value) if source in exact.INTEGERS else value, target)


def check(values, source: str, target: str) -> None:
    found = cast(values, target)
    assert found.dtype == data_type(target).numpy
    numbers = values.tolist()
    if source in exact.FLOATS:
        numbers = [exact.value_of(bits, source) for bits in patterns(values)]
    got = found.tolist() if target in exact.INTEGERS else patterns(found)
    wanted = [expected(number, source, target) for number in numbers]
    if got != wanted:
        wrong = next(n for n in range(len(got)) if got[n] != wanted[n])
        raise AssertionError(
            f"{source} {numbers[wrong]} to {target}: {got[wrong]}, not {wanted[wrong]}"
        )


@pytest.mark.parametrize("target", DATA_TYPES)
@pytest.mark.parametrize("source", [*SHORT, "s8", "u8"])
def test_every_value_of_a_short_type(source, target):
    if source != target:
        check(whole_type(source), source, target)


@pytest.mark.parametrize("name", DATA_TYPES)
def test_values_of_the_same_type_keep_their_bits(name):
    values = np.array([0x7FA00001, 0xFFFFFFFF, 1, 0x80000000], np.uint32).view(
        data_type(name).numpy
    )
    assert patterns(cast(values, name)) == patterns(values)


def edges(name: str) -> list[Fraction]:
    """Return numbers on, and just beside, values of a type and the middles between them."""
    step = 97 if data_type(name).size_bytes == 2 else 1
    whole = [Fraction(v) for v in map(float, whole_type(name)[::step]) if abs(v) < float("inf")]
    ordered = sorted(set(whole))
    middles = [(a + b) / 2 for a, b in pairwise(ordered)]
    return ordered + middles


@pytest.mark.parametrize("target", SHORT)
def test_float32_around_every_edge_of_a_shorter_type(target):
    values = np.array([float(edge) for edge in edges(target)], np.float32)
    beside = [np.nextafter(values, np.float32(side)) for side in (-np.inf, np.inf)]
    special = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x7F800000, 0xFF800000,
                        0x80000000, 1, 0x80000001, 0x7F7FFFFF, 0xFF7FFFFF], np.uint32)  # fmt: skip
    check(np.concatenate([values, *beside, special.view(np.float32)]), "f32", target)


@pytest.mark.parametrize("target", DATA_TYPES)
def test_integers_around_every_power_of_two_and_every_tie(target):
    rng = Random(1)
    numbers = {2**31 - 1, -(2**31), 0}
    for bit in range(31):
        for other in range(bit + 1):
            for more in (-1, 0, 1):
                numbers.add((1 << bit) + (1 << other) + more)
                numbers.add((1 << bit) + (1 << other) + (1 << other // 2) + more)
    numbers |= {rng.getrandbits(31) >> rng.randrange(31) for _ in range(5000)}
    inside = [n for n in numbers | {-n for n in numbers} if -(2**31) <= n < 2**31]
    if target != "s32":
        check(np.array(sorted(inside), np.int32), "s32", target)


@pytest.mark.parametrize("target", ["s8", "u8", "s32"])
def test_float32_to_integers(target):
    rng = Random(2)
    numbers = [0.0, -0.0, 0.5, -0.99, 127.5, 128.0, -128.9, -129.0, 255.9, 256.0,
               2.0**31, -(2.0**31), 2.0**31 - 128, -(2.0**31) - 256, 3e38, -3e38,
               float("inf"), float("-inf"), float("nan"), 1e-45]  # fmt: skip
    numbers += [rng.uniform(-300, 300) for _ in range(500)]
    numbers += [rng.uniform(-(2.0**32), 2.0**32) for _ in range(500)]
    check(np.array(numbers, np.float32), "f32", target)


@pytest.mark.parametrize("engine", ["event", "register"])
def test_an_integer_is_rounded_once_by_a_copy(engine):
    """By way of float32 it would be 2^30."""
    source, target = state(0, 1, 0, 1, "s32"), state(0, 1, 8192, 1, "bf16")
    copy = Copy(engine="activation", source=source, target=target)
    image = Image(source, np.array([[2**30 + 2**22 + 1]], np.int32))
    memory = simulate(ideal_chip(2, 2), Program("cast", (copy,)), [image], engine=engine).memory
    assert int(memory.read(target)[0, 0]) == 2**30 + 2**23


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3, 1)])
@pytest.mark.parametrize("source", ["f32", "s32"])
def test_any_shape(shape, source):
    values = np.full(shape, 3, data_type(source).numpy)
    assert cast(values, "f8e5m2").shape == shape


@pytest.mark.parametrize("number", [2**30 + 2**22 + 1, 2**30 + 2**22, -(2**31) + 1, 16777217, 3])
def test_what_a_graph_expects_of_a_cast_is_rounded_once_too(number):
    found = convert(np.array([number], np.int32), data_type("bf16").numpy)
    assert patterns(found) == [exact.pattern_of(Fraction(number), "bf16")]
