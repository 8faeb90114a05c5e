"""Do PEs with four rows of numbers that share scales (MX) give their sums, in the time of one row?

Both engines. The values' oracle is arithmetic of Python, number by number, in the stated order;
times are worked out by hand and by what was published. Random programs hold the engines against
one another.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import able_chip, ideal_chip
from support.compare_traces import assert_same
from support.exact import value_of
from support.tiers import quick_first
from systolic.critical_path.causes import Causes
from systolic.critical_path.points import Lives
from systolic.errors import ConfigError, ProgramError
from systolic.hw.datatypes import KNOWN_TYPES
from systolic.hw.spec import Chip
from systolic.isa import (
    Access,
    Copy,
    LoadDoubleRow,
    LoadMx,
    LoadWeights,
    MatMul,
    MatMulDoubleRow,
    MatMulMx,
    Memset,
    Post,
    Program,
    QuantizeMx,
    Wait,
    check_program,
    decode,
    encode,
    format_text,
    lint,
    parse_text,
)
from systolic.isa.effects import reads
from systolic.isa.formats.module import Module
from systolic.isa.scales import scale_parts, scale_span
from systolic.machine import Image, Memory, simulate
from systolic.machine.register.machine import run_register
from systolic.run.busy import busy_cycles
from systolic.trace.recorder import Recorder
from systolic.trace.words import KINDS

both = pytest.mark.parametrize("engine", ["event", "register"])
E4, E5, F4 = "f8e4m3fn", "f8e5m2", "f4e2m1fn_x4"
MX = {"mx": {E4: 1, E5: 2, F4: 1}}
ROWS, K, N, M = 16, 16, 3, 5
MOVING, SCALES = 16384, 32768
SIXTEEN = [sign * n for sign in (1, -1) for n in (0, 0.5, 1, 1.5, 2, 3, 4, 6)]


def chip(**array: Any) -> Chip:
    return ideal_chip(ROWS, 4, pe_array={**MX, **array})


def data(start: int, columns: int, dtype: str = E4, rows: int = K, first: int = 0) -> Access:
    each = 4 // KNOWN_TYPES[dtype].packed
    return state(first, rows, start, each * columns, dtype)


def shared(start: int, columns: int, rows: int = K, first: int = 0) -> Access:
    return state(first, scale_span(rows), start, columns, "u8")


LOAD = LoadMx(weights=data(0, N), scales=shared(SCALES, N))
MULTIPLY = MatMulMx(
    moving=data(MOVING, M), result=psum(0, N, 0, M), scales=shared(SCALES + MOVING, M)
)


def contents(access: Access, scales: Access, rng: Any) -> list[Image]:
    """Return random elements and scales; of 8 bits no NaN, and scales from 2^-9 to 2^9."""
    dtype = KNOWN_TYPES[access.dtype].numpy
    shape = access.partitions, access.elements
    if dtype.itemsize == 2:
        raw = rng.integers(0, 1 << 16, shape).astype(np.uint16)
    else:
        raw = (rng.integers(0, 120, shape) + 128 * rng.integers(0, 2, shape)).astype(np.uint8)
    parts = scale_parts(scales)
    sizes = [(part.partitions, part.elements) for part in parts]
    scaling = [rng.integers(118, 137, size).astype(np.uint8) for size in sizes]
    return [Image(access, raw.view(dtype)), *map(Image, parts, scaling)]


def values(images: list[Image]) -> list[list[float]]:
    """Return the number in each row of the contraction, [4 K][columns], by Python alone."""
    elements, *scales = images
    name = elements.access.dtype
    bits = elements.values.view(np.uint16 if name == F4 else np.uint8)
    factors = np.concatenate([image.values for image in scales])
    rows = []
    for partition in range(elements.access.partitions):
        for place in range(4):
            row = []
            for column in range(factors.shape[1]):
                if name == F4:
                    digit = int(bits[partition, column]) >> 4 * place & 15
                    value = float(SIXTEEN[digit])
                else:
                    value = value_of(int(bits[partition, 4 * column + place]), name)
                row.append(math.ldexp(value, int(factors[partition // 8, column]) - 127))
            rows.append(row)
    return rows


def sums(weights: list[list[float]], moving: list[list[float]]) -> Any:
    """Return [N, M]: products of rows 0, 1, ..., 4 K - 1 added one after another, each rounded."""
    found = np.zeros((len(weights[0]), len(moving[0])), np.float32)
    for weight, vector in zip(weights, moving, strict=True):
        product = np.float32(weight)[:, None] * np.float32(vector)[None, :]
        found = found + product
    return found


def run(engine: Any, *instructions: Any, on: Any = None, images: Any = (), **keys: Any) -> Any:
    program = Program("mx", instructions, ("s0", "s1"))
    return simulate(on or chip(), program, list(images), engine=engine, **keys)


@both
@pytest.mark.parametrize(("weights", "moving"), [(E4, E4), (E5, E4), (F4, E5), (E4, F4), (F4, F4)])
@pytest.mark.parametrize("keys", [{}, {"cell": (2, 2), "hop": (2, 1)}])
def test_a_pe_adds_its_four_rows_one_after_another(engine, weights, moving, keys):
    """Bit for bit, also onto what lies there; types may differ, as was published."""
    rng = np.random.default_rng(5)
    load = LoadMx(weights=data(0, N, weights), scales=LOAD.scales)
    first = replace(MULTIPLY, moving=data(MOVING, M, moving))
    one, other = contents(load.weights, load.scales, rng), contents(first.moving, first.scales, rng)
    expected = sums(values(one), values(other))
    on, images = chip(**keys), [*one, *other]
    found = run(engine, load, first, images=images, on=on).memory.read(first.result)
    assert (found == expected).all()
    again = replace(first, accumulate=True)
    found = run(engine, load, first, again, images=images, on=on).memory.read(first.result)
    assert (found == expected + expected).all()


def test_the_order_of_the_four_rows_shows() -> None:
    """Of other orders the same numbers have other sums, so the test before sees the order."""
    rng = np.random.default_rng(5)
    weights = values(contents(LOAD.weights, LOAD.scales, rng))
    moving = values(contents(MULTIPLY.moving, MULTIPLY.scales, rng))
    planes = [n for place in range(4) for n in range(place, 4 * K, 4)]
    other = sums([weights[n] for n in planes], [moving[n] for n in planes])
    assert (other != sums(weights, moving)).any()


@both
def test_a_scale_that_is_no_number_makes_its_sums_nan(engine):
    """Byte 255 of E8M0: every sum of the vector, no other. What overflows float32 is infinite."""
    rng = np.random.default_rng(6)
    images = contents(LOAD.weights, LOAD.scales, rng)
    images += contents(MULTIPLY.moving, MULTIPLY.scales, rng)
    images[-1].values[1, 2] = 255
    found = run(engine, LOAD, MULTIPLY, images=images).memory.read(MULTIPLY.result)
    assert np.isnan(found[:, 2]).all()
    assert not np.isnan(np.delete(found, 2, axis=1)).any()
    images[-1].values[1, 2] = 254
    found = run(engine, LOAD, MULTIPLY, images=images).memory.read(MULTIPLY.result)
    assert not np.isfinite(found[:, 2]).any()


@both
def test_rows_that_a_vector_has_not_take_no_part(engine):
    """Weights of MX that are no numbers stay in the third and fourth rows; double rows add two."""
    images = contents(LOAD.weights, LOAD.scales, np.random.default_rng(2))
    images[-1].values[:] = 255
    load = LoadDoubleRow(weights=state(0, K, 4096, 2 * N, E4))
    multiply = MatMulDoubleRow(moving=state(0, K, MOVING, 2 * M, E4), result=psum(0, N, 64, M))
    ones = np.ones((K, 2 * M), KNOWN_TYPES[E4].numpy)
    images += [Image(load.weights, ones[:, : 2 * N]), Image(multiply.moving, ones)]
    on = chip(double_row={E4: 1})
    outcome = run(engine, LOAD, MULTIPLY, load, multiply, images=images, on=on)
    assert (outcome.memory.read(multiply.result) == 2 * K).all()
    assert np.isnan(outcome.memory.read(MULTIPLY.result)).all()


@both
def test_it_takes_the_time_of_one_row(engine):
    """Load of 3 columns in 0 to 2, five vectors in 3 to 7, the last sum 15 + 2 cycles later.

    So does a plain multiply of as many rows. Types have a pace: f8e5m2 every second cycle here.
    """
    times = [(each.start, each.last, each.done) for each in run(engine, LOAD, MULTIPLY).trace.times]
    assert times == [(0, 2, 2), (3, 7, 7 + 15 + 2)]
    single = MatMul(moving=state(0, K, MOVING, M, E4), result=MULTIPLY.result)
    plain = run(engine, LoadWeights(weights=state(0, K, 0, N, E4)), single)
    assert [(each.start, each.last, each.done) for each in plain.trace.times][1:] == [
        (3, 7, 7 + 15 + 2)
    ]
    slow = replace(MULTIPLY, moving=data(MOVING, M, E5))
    assert [each.last for each in run(engine, LOAD, slow).trace.times] == [2, 3 + 2 * 4]


@both
def test_scales_take_the_port_of_their_bank(engine):
    """A copy reads in 0, 1 and 2, then waits for the vectors of 3 to 7 if their scales lie there.

    Scales in the bank of their elements come with them, through one port.
    """
    for start, last in ((SCALES + MOVING, 12), (MOVING, 12), (MOVING - 8192, 7)):
        copy = Copy(engine="pooling", source=state(0, 4, start + 1024, 8), target=COPIED)
        outcome = run(engine, LOAD, MULTIPLY, copy)
        times = {each.instruction: each.last for each in outcome.trace.times}
        assert times == {0: 2, 1: 7, 2: last}
    beside = replace(MULTIPLY, scales=shared(MOVING + 4 * M, M))
    assert [each.last for each in run(engine, LOAD, beside).trace.times] == [2, 7]


@both
def test_what_is_seen_of_the_grid(engine):
    """Operands of a PE's first row, times their scales, and the sum of its four rows."""
    rng = np.random.default_rng(7)
    one, other = contents(LOAD.weights, LOAD.scales, rng), None
    other = contents(MULTIPLY.moving, MULTIPLY.scales, rng)
    weights, moving = values(one), values(other)
    grid = run(engine, LOAD, MULTIPLY, images=[*one, *other], grid=True).trace.grid
    seen = grid.at(3 + 1)
    assert (seen.moving[0, 1], seen.weight[0, 1]) == (moving[0][0], weights[0][1])
    assert seen.sum[0, 1] == sums(weights[:4], moving[:4])[1, 0]
    assert (grid.results(0) == sums(weights, moving).T).all()


def test_what_is_read_of_scales() -> None:
    """Of 128 partitions four in each quadrant, and nothing between."""
    starts = {"start": [{"partitions": 128, "starts": [0]}]}  # of all accesses but scales
    far = ideal_chip(128, 4, pe_array=MX, access=starts)
    load = LoadMx(weights=data(0, N, rows=128), scales=shared(SCALES, N, 128, 8))
    check_program(Program("p", (load,)), far)
    found = [(a.partition, a.partitions) for a in reads(load)[1:]]
    assert found == [(8, 4), (40, 4), (72, 4), (104, 4)]
    assert [scale_span(n) for n in (8, 24, 32, 40, 64, 128)] == [1, 3, 4, 33, 36, 100]


@both
def test_from_bf16_to_the_product(engine):
    """quantize_mx, then load_mx and matmul_mx; near the product of the numbers themselves."""
    on = able_chip(64, 4, pe_array=MX, state_buffer={"partitions": 64})
    rng = np.random.default_rng(8)
    work, images, numbers = [], [], []
    for place, columns in ((0, N), (1, M)):
        source = state(0, 64, 2048 * place, 4 * columns, "bf16")
        exact = rng.standard_normal((64, 4 * columns)).astype(KNOWN_TYPES["bf16"].numpy)
        target = data((8192 + 4096 * place), columns, rows=64)
        work.append(
            QuantizeMx(engine="pooling", source=source, target=target,
                       scales=shared(SCALES + MOVING * place, columns, 64), posts=(Post(place),))
        )  # fmt: skip
        images.append(Image(source, exact))
        numbers.append(exact.astype(np.float64).reshape(64, columns, 4).transpose(0, 2, 1))
    load = LoadMx(weights=work[0].target, scales=work[0].scales, waits=(Wait(0, 1),))
    multiply = MatMulMx(moving=work[1].target, scales=work[1].scales, result=psum(0, N, 0, M),
                        waits=(Wait(1, 1),))  # fmt: skip
    found = run(engine, *work, load, multiply, on=on, images=images)
    assert lint(Program("p", (*work, load, multiply), ("s0", "s1")), on) == []
    exact = np.einsum("kpn,kpm->nm", *numbers)
    most = np.einsum("kpn,kpm->nm", *(abs(each) for each in numbers))
    error = abs(found.memory.read(multiply.result) - exact)
    assert (error <= 2 * 2.0**-4 * most).all()  # two roundings of elements to 4 bits
    assert error.max() > 0


RACE = ["write-after-write"]


def test_lint_sees_scales() -> None:
    """A copy into a partition of the scales races; one between the quadrants does not."""
    on = able_chip(64, 4, pe_array=MX, state_buffer={"partitions": 64})
    quantise = QuantizeMx(
        engine="pooling", source=state(0, 64, 0, 8, "bf16"), target=data(8192, 2, rows=64),
        scales=shared(SCALES, 2, 64),
    )  # fmt: skip

    for partition, found in ((0, RACE), (4, []), (16, []), (35, RACE), (36, [])):
        clear = Memset(engine="activation", target=state(partition, 1, SCALES, 2, "u8"), value=0)
        codes = [each.code for each in lint(Program("p", (quantise, clear)), on)]
        assert codes == found, partition
    onto = replace(quantise, scales=replace(quantise.scales, start=8192))
    assert "self-overlap" in {each.code for each in lint(Program("p", (onto,)), on)}


@pytest.mark.parametrize(("start", "found"), [(8, []), (10, ["self-overlap"])])
def test_lint_knows_when_scales_are_written(start: int, found: list[str]) -> None:
    """Over their own source, one element a cycle: scale i is written behind the step 4 i + 3.

    From byte 8 on, four bytes apart, they lie over elements 4, 6, 8 and 10, which are read by then.
    """
    source = state(0, 16, 0, 16, "f16")
    scales = replace(state(0, 2, start, 4, "u8"), pattern=((4, 4),))
    over = replace(QUANTISE, source=source, target=state(0, 16, 8192, 16, E4), scales=scales)
    assert [each.code for each in lint(Program("p", (over,)), able_chip(16, 4))] == found


TILED = {"tile_size": (16, 4), "tile_position": (16, 0)}


@both
def test_tiles_of_whole_rows_multiply_side_by_side(engine):
    """Two products of 16 rows in the cycles of one; each has scales in its own partitions."""
    on = ideal_chip(
        32, 4, pe_array={**MX, "tile_sizes": [[16, 4], [16, 2]], "cycles_per_vector": {E4: 1}}
    )
    rng, work, images, expected = np.random.default_rng(3), [], [], []
    for tile in (0, 1):
        place = {"tile_size": (16, 4), "tile_position": (16 * tile, 0)}
        access = [data(start, n, first=16 * tile) for start, n in ((0, N), (MOVING, M))]
        scales = [shared(at, n, first=16 * tile) for at, n in ((SCALES, N), (SCALES + MOVING, M))]
        load = LoadMx(weights=access[0], scales=scales[0], **place)
        result = psum(0, N, 2048 * tile, M)
        work += [load, MatMulMx(moving=access[1], scales=scales[1], result=result, **place)]
        both_of = [contents(a, s, rng) for a, s in zip(access, scales, strict=True)]
        images += [image for each in both_of for image in each]
        expected.append((result, sums(*map(values, both_of))))
    loads_first = [work[0], work[2], work[1], work[3]]
    outcome = run(engine, *loads_first, images=images, on=on)
    for result, found in expected:
        assert (outcome.memory.read(result) == found).all()
    times = {each.instruction: (each.first, each.last) for each in outcome.trace.times}
    assert times == {0: (0, 2), 1: (0, 2), 2: (3, 7), 3: (3, 7)}


@pytest.mark.parametrize(
    ("instructions", "array", "text"),
    [
        ((LOAD,), {"mx": {}}, "0 (LoadMx): weights: the array of test 16 x 4 takes four rows in a "
         f"PE, with scales, of no type (pe_array.mx), not of {E4}"),
        ((replace(LOAD, weights=state(0, K, 0, 12, "bf16")),), {}, "0 (LoadMx): weights: the array "
         f"of test 16 x 4 takes four rows in a PE, with scales, of {E4}, {E5}, {F4} (pe_array.mx), "
         "not of bf16"),
        ((replace(LOAD, weights=state(0, K, 0, 10, E4)),), {}, "0 (LoadMx): weights: needed four "
         "elements for each PE, a multiple of 4 in each partition, found 10"),
        ((replace(LOAD, weights=data(0, 5), scales=shared(SCALES, 5)),), {}, "0 (LoadMx): weights: "
         "elements per partition (N) is 5, but there are 4 array columns"),
        ((replace(LOAD, scales=state(0, 2, SCALES, 4, "u8")),), {}, "0 (LoadMx): scales: needed "
         "2 x 3 for data in 16 partitions, found 2 x 4"),
        ((replace(LOAD, scales=state(0, 2, SCALES, 3, "s8")),), {}, "0 (LoadMx): scales: a scale "
         "is a byte, f8e8m0fnu or u8, found s8"),
        ((replace(LOAD, scales=psum(0, 2, 0, 3)),), {}, "0 (LoadMx): scales: must lie in the state "
         "buffer, found result_buffer"),
        ((replace(LOAD, scales=state(15, 1, SCALES, 3, "u8"), weights=data(0, N, rows=8)),), {},
         "0 (LoadMx): scales: lie among the first 16 partitions of the data that they are for, so "
         "the first must be 0 to 7, found 15"),
        ((replace(LOAD, weights=data(0, N, rows=12)),), {}, "0 (LoadMx): scales: a group has 8 "
         "partitions, so the data need a multiple of 8, found 12"),
        ((replace(LOAD, **TILED),), {}, "0 (LoadMx): tile_size: the array of test 16 x 4 has tiles "
         "of whole rows, for MX, of no size (pe_array.tile_sizes), not of 16 x 4"),
        ((replace(LOAD, tile_size=(8, 2), tile_position=(0, 0)),),
         {"tile_sizes": [[8, 2], [8, 4]]}, "0 (LoadMx): tile_size: the array of test 16 x 4 has "
         "tiles of whole rows, for MX, of 8 x 4 (pe_array.tile_sizes), not of 8 x 2"),
        ((LOAD, MatMul(moving=state(0, K, MOVING, M, E4), result=MULTIPLY.result)), {},
         "1 (MatMul): moving has 1 elements for a PE, but the weights before it were loaded with "
         "4"),
        ((LOAD, replace(MULTIPLY, result=psum(0, N, 0, 2 * M))), {},
         "1 (MatMulMx): result: needed a word in each partition for each of 5 vectors, found 10"),
        ((LoadWeights(weights=state(0, K, 0, 3, F4)),), {}, "0 (LoadWeights): weights: the array "
         f"of test 16 x 4 takes f32, bf16, f16, {E4}, {E5}, s8, u8, not {F4}"),
    ],
)  # fmt: skip
def test_refused(instructions: Any, array: Any, text: str) -> None:
    with pytest.raises(ProgramError) as caught:
        check_program(Program("p", instructions), chip(**array))
    assert str(caught.value) == f"p: instruction {text}"


COPIED = state(0, 4, 57344, 8)
QUANTISE = QuantizeMx(
    engine="pooling", source=state(0, 16, 0, 8, "f16"), target=state(0, 16, 8192, 8, E4),
    scales=shared(SCALES, 2),
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"source": state(0, 16, 0, 8)}, "source: needed bf16 or f16, found f32"),
        ({"target": state(0, 16, 8192, 8, "bf16")}, f"target: needed {E4} or {E5}, found bf16"),
        ({"source": state(0, 16, 0, 6, "f16"), "target": state(0, 16, 8192, 6, E4)},
         "source: a group has 4 elements of each partition, so needed a multiple of 4, found 6"),
        ({"target": state(0, 16, 8192, 4, E4)}, "source has 16 x 8 elements, target 16 x 4"),
        ({"headroom": 2}, "headroom: needed 0 or 1, found 2"),
        ({"source": state(8, 8, 0, 8, "f16"), "target": state(0, 8, 8192, 8, E4),
          "scales": shared(SCALES, 2, 8, 8)}, "scales: lie among the first 16 partitions of the "
         "data that they are for, so the first must be 0 to 7, found 8"),
        ({"scales": shared(SCALES, 3)},
         "scales: needed 2 x 2 for data in 16 partitions, found 2 x 3"),
        ({"target": state(0, 16, 8192, 2, F4)},
         f"target: engines calculate with f32, bf16, f16, {E4}, {E5}, s8, u8, s32, not with {F4}"),
    ],
)  # fmt: skip
def test_quantise_refused(change: Any, text: str) -> None:
    with pytest.raises(ProgramError) as caught:
        check_program(Program("p", (replace(QUANTISE, **change),)), able_chip(16, 4))
    assert str(caught.value) == f"p: instruction 0 (QuantizeMx): {text}"


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        ({"pe_array": {"mx": {"bf16": 1}}}, 'mx: "bf16" is no type of numbers that share scales'),
        ({"pe_array": {**MX, "weight_path": "top"}}, 'mx: needs weight_path = "left"'),
        ({"pe_array": {"mx": {E4: 1}, "cycles_per_vector": {E4: 1}},
          "state_buffer": {"port_bytes": 2}}, "is narrower than the four values of f8e4m3fn"),
    ],
)  # fmt: skip
def test_chips_that_could_not_do_it(tables: Any, text: str) -> None:
    with pytest.raises((ValueError, ConfigError), match=text):
        ideal_chip(4, 4, **tables)


def test_text_and_binary_form() -> None:
    tile = replace(LOAD, **TILED)
    module = Module(Program("p", (LOAD, MULTIPLY, tile, replace(QUANTISE, headroom=0))))
    text = format_text(module)
    assert (
        "\nload_mx weights=state_buffer[0:16]+0 f8e4m3fn (1x12) scales=state_buffer[0:2]+32768 u8 "
        "(1x3)\n"
    ) in text
    assert "(1x3) tile_size=(16, 4) tile_position=(16, 0)\n" in text
    assert parse_text(text).program.instructions == module.program.instructions
    assert decode(encode(module)).program == module.program


def test_products_of_all_four_rows_are_counted() -> None:
    assert Program("p", (LOAD, MULTIPLY)).products() == 4 * K * N * M
    packed = replace(LOAD, weights=data(0, N, F4)), replace(MULTIPLY, moving=data(MOVING, M, F4))
    assert Program("p", packed).products() == 4 * K * N * M


# Random programs.


def random_program(seed: int) -> tuple[Chip, Program, list[Image]]:
    """Return quantisations, products of MX, of double rows and others, on a chip of random keys."""
    rng = Random(seed)
    array = {
        **MX,
        "weight_buffer": rng.choice(["double", "double", "single", "serial"]),
        "fast_load": rng.choice([1, 2, 3]),
        "hop": [rng.choice([1, 2]), rng.choice([1, 2])],
        "cell": rng.choice([[1, 1], [2, 1], [1, 2], [2, 2]]),
        "fused_multiply_add": rng.random() < 0.3,
        "double_row": {E4: 1},
    }
    made = able_chip(
        ROWS, 4, pe_array=array,
        state_buffer={"port_bytes": rng.choice([None, 8, 16]),
                      "port_scope": rng.choice(["bank", "partition"])},
        result_buffer={"write_latency_cycles": rng.choice([0, 0, 1, 4])},
        pooling={"elements_per_cycle": rng.choice([1, 2, 3, 4, 8]), "independent_lanes": False,
                 "latency_cycles": rng.choice([1, 2, 4])},
    )  # fmt: skip
    work, loaded = list[Any](), None
    for number in range(rng.randint(3, 16)):
        keys: dict[str, Any] = {"posts": (Post(number),)}
        if number and rng.random() < 0.2:
            keys["waits"] = (Wait(rng.randrange(number), 1),)
        rows, dtype = rng.choice([8, 16]), rng.choice([E4, E5, F4])
        near = rng.choice([SCALES, SCALES, 64])
        if rng.random() < 0.3:
            n = rng.randint(1, 6)
            place = rng.choice([49152, MOVING + 4096, SCALES + 6144])
            source = state(0, rows, place, 4 * n, "bf16")
            own = rng.choice([2048, MOVING + 2048]) + 32 * number
            target = data(own, n, rng.choice([E4, E5]), rows)
            scales = shared(near + 3072 + 8 * number, n, rows, rng.choice([0, rows - rows // 8]))
            work.append(QuantizeMx(engine="pooling", source=source, target=target, scales=scales,
                                   headroom=rng.randint(0, 1), **keys))  # fmt: skip
            continue
        if loaded is None or rng.random() < 0.4:
            n = rng.randint(1, 4)
            scales = shared(near, n, rows, rng.choice([0, 0, rows - rows // 8]))
            kind = rng.choice([LoadMx, LoadMx, LoadMx, LoadWeights, LoadDoubleRow])
            if kind is LoadMx:
                loaded = LoadMx(weights=data(0, n, dtype, rows), scales=scales, **keys)
            else:
                per = 1 if kind is LoadWeights else 2
                loaded = kind(weights=state(0, rows, 0, per * n, E4), **keys)
            work.append(loaded)
            continue
        count = rng.randint(1, 6)
        words = psum(0, rng.randint(1, loaded.columns), rng.randrange(30), count)
        start = MOVING + rng.choice([0, 64])
        is_mx, most = isinstance(loaded, LoadMx), loaded.weights.partitions
        if is_mx:
            rows = min(rows, most)
            work.append(MatMulMx(moving=data(start, count, dtype, rows), result=words,
                                 scales=shared(near + 4096, count, rows),
                                 accumulate=rng.random() < 0.3, **keys))  # fmt: skip
        else:
            per = loaded.rows_per_pe
            kind = MatMul if per == 1 else MatMulDoubleRow
            work.append(kind(moving=state(0, most, start, per * count, E4), result=words, **keys))
    names = tuple(f"s{n}" for n in range(len(work)))
    values_of = np.random.default_rng(seed)
    everything = state(0, ROWS, 0, 65536, "u8")
    image = Image(everything, values_of.integers(0, 256, (ROWS, 65536), np.uint8))
    return made, Program("random MX", tuple(work), names), [image]


@pytest.mark.parametrize("seed", quick_first(range(40), 10))
def test_engines_agree_on_random_mx(seed: int) -> None:
    """Word by word and cycle by cycle; no run is shorter than its bound, every start explained."""
    made, program, images = random_program(seed)
    found = lint(program, made)
    assert {each.code for each in found if each.severity == "error"} <= {"undrained"}
    event = simulate(made, program, images, kinds=KINDS, grid=True)
    register = simulate(made, program, images, kinds=KINDS, engine="register", grid=True)
    assert_same(event, register)
    assert busy_cycles(made, program)["pe_array"] <= event.trace.cycles()
    causes = Causes(Lives(made, program, event.trace))
    for index in range(len(program.instructions)):
        last = causes.last(index)
        assert (0 if last is None else last.tick) == causes.could_start(index), (index, last)


def test_each_instruction_of_mx_occurs_and_is_held_back() -> None:
    seen, stalled = Counter[type](), Counter[type]()
    for seed in range(40):
        made, program, images = random_program(seed)
        trace = simulate(made, program, images, values=False).trace
        seen.update(type(each) for each in program.instructions)
        stalled.update(type(program.instructions[each.instruction]) for each in trace.stalls)
    for cls in (LoadMx, MatMulMx, QuantizeMx):
        assert seen[cls] > 20, seen
    for cls in (LoadMx, QuantizeMx):  # moving vectors come first at a port
        assert stalled[cls] > 5, stalled


@pytest.mark.parametrize("seed", range(12))
def test_the_history_shows_what_the_registers_hold(seed: int) -> None:
    made, program, images = random_program(seed)
    array = tuple(i for i in program.instructions if not isinstance(i, QuantizeMx))
    program = replace(program, instructions=tuple(replace(i, waits=()) for i in array))
    history = simulate(made, program, images, grid=True).trace.grid
    states = dict[int, Any]()
    run_register(
        made, program, Memory(made, program, images), Recorder(made.units),
        observer=lambda cycle, grid: states.__setitem__(cycle, grid),
    )  # fmt: skip
    for cycle, held in states.items():
        told = history.at(cycle)
        for name in ("moving", "weight", "shadow", "sum", "valid", "vector", "matmul"):
            mine, its = getattr(held, name), getattr(told, name)
            assert np.array_equal(mine, its, equal_nan=mine.dtype.kind == "f"), (cycle, name)
