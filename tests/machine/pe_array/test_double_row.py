"""Do PEs with two rows of the contraction give its sums, in the time of one row?

Both engines. The values' oracle is numpy in the stated order; times are worked out by hand and by
what was published. Random programs hold the engines against one another.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from support.tiers import quick_first
from systolic.critical_path.causes import Causes
from systolic.critical_path.points import Lives
from systolic.errors import ConfigError, ProgramError
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import (
    Access,
    Buffer,
    LoadDoubleRow,
    LoadWeights,
    MatMul,
    MatMulDoubleRow,
    Post,
    Program,
    Wait,
    check_program,
    decode,
    encode,
    format_text,
    lint,
    parse_text,
)
from systolic.isa.formats.module import Module
from systolic.machine import Image, Memory, simulate
from systolic.machine.register.machine import run_register
from systolic.machine.register.pe_array.grid import SPARE
from systolic.run.busy import busy_cycles
from systolic.trace.recorder import Recorder
from systolic.trace.words import KINDS

both = pytest.mark.parametrize("engine", ["event", "register"])
TYPE, MOVING = "f8e4m3fn", 8192
DOUBLE = {"double_row": {"f8e4m3fn": 1, "f8e5m2": 1, "f32": 2, "s8": 1}}
K, N, M = 4, 3, 5
WEIGHTS, VECTORS = state(0, K, 0, 2 * N, TYPE), state(0, K, MOVING, 2 * M, TYPE)
LOAD = LoadDoubleRow(weights=WEIGHTS)
MULTIPLY = MatMulDoubleRow(moving=VECTORS, result=psum(0, N, 0, M))


def chip(**array: Any) -> Chip:
    return ideal_chip(4, 4, pe_array={**DOUBLE, **array})


def operands(dtype: str = TYPE, seed: int = 1) -> tuple[Any, Any]:
    """Return weights [2 K, N] and vectors [2 K, M] of many magnitudes."""
    rng = np.random.default_rng(seed)
    element = data_type(dtype).numpy
    if dtype == "s8":
        return rng.integers(-128, 128, (2 * K, N), np.int8), rng.integers(
            -128, 128, (2 * K, M), np.int8
        )
    scale = 2.0 ** rng.integers(-6, 7, (2 * K, 1))
    found = [(rng.standard_normal((2 * K, n)) * scale).astype(element) for n in (N, M)]
    return found[0], found[1]


def in_pairs(rows: Any) -> Any:
    """Return [2 K, n] as partitions hold it, [K, 2 n]: rows 2 r and 2 r + 1 next to one another."""
    return np.ascontiguousarray(rows.reshape(K, 2, -1).transpose(0, 2, 1).reshape(K, -1))


def expected(weights: Any, vectors: Any) -> Any:
    """Return the sums [N, M]: rows 0, 1, ..., 2 K - 1 one after another from 0, each rounded."""
    kind = np.int32 if weights.dtype.kind == "i" else np.float32
    sums = np.zeros((weights.shape[1], vectors.shape[1]), kind)
    for weight, moving in zip(weights.astype(kind), vectors.astype(kind), strict=True):
        sums = sums + weight[:, None] * moving[None, :]
    return sums


def run(engine: Any, *instructions: Any, on: Any = None, images: Any = (), **keys: Any) -> Any:
    program = Program("double", instructions, ("s0", "s1"))
    return simulate(on or chip(), program, list(images), engine=engine, **keys)


@both
@pytest.mark.parametrize("dtype", ["f8e4m3fn", "f8e5m2", "f32", "s8"])
@pytest.mark.parametrize("keys", [{}, {"cell": (2, 2)}, {"weight_path": "top", "hop": (2, 1)}])
def test_a_pe_adds_its_first_row_then_its_second(engine, dtype, keys):
    """Bit for bit, also onto what lies there; other orders of the rows give other bits."""
    weights, vectors = operands(dtype)
    kind = data_type(dtype).accumulator
    load = LoadDoubleRow(weights=state(0, K, 0, 2 * N, dtype))
    first = MatMulDoubleRow(moving=state(0, K, MOVING, 2 * M, dtype), result=psum(0, N, 0, M, kind))
    again = MatMulDoubleRow(moving=first.moving, result=first.result, accumulate=True)
    images = [Image(load.weights, in_pairs(weights)), Image(first.moving, in_pairs(vectors))]
    sums = expected(weights, vectors)
    found = run(engine, load, first, images=images, on=chip(**keys)).memory.read(first.result)
    assert (found == sums).all()
    found = run(engine, load, first, again, images=images).memory.read(first.result)
    assert (found == sums + sums).all()
    if dtype == "f32":
        halves = expected(weights[0::2], vectors[0::2]) + expected(weights[1::2], vectors[1::2])
        assert (sums != halves).any()


@both
def test_second_rows_keep_pace_with_the_first_in_a_long_stream(engine):
    """The register engine moves its planes back once in a stream so long."""
    weights, vectors = operands()
    many = np.tile(vectors, SPARE // M + 10)
    count = many.shape[1]
    moving, result = state(0, K, MOVING, 2 * count, TYPE), psum(0, N, 0, count)
    images = [Image(WEIGHTS, in_pairs(weights)), Image(moving, in_pairs(many))]
    long = MatMulDoubleRow(moving=moving, result=result)
    assert (
        run(engine, LOAD, long, images=images).memory.read(result) == expected(weights, many)
    ).all()


@both
def test_the_planes_may_lie_apart(engine):
    """[128, 2, N] of the published kernels: the second rows behind the first, by the pattern."""
    weights, vectors = operands()
    apart = [
        Access(Buffer.STATE, TYPE, 0, K, start, ((1, n), (n, 2)))
        for start, n in ((0, N), (MOVING, M))
    ]
    images = [
        Image(state(0, K, start, 2 * n, TYPE), rows.reshape(K, 2, n).reshape(K, -1))
        for start, n, rows in ((0, N, weights), (MOVING, M, vectors))
    ]
    load = LoadDoubleRow(weights=apart[0])
    multiply = MatMulDoubleRow(moving=apart[1], result=MULTIPLY.result)
    found = run(engine, load, multiply, images=images).memory.read(multiply.result)
    assert (found == expected(weights, vectors)).all()


@both
def test_it_takes_the_time_of_one_row(engine):
    """Load of 3 columns in 0 to 2, five vectors in 3 to 7, the last sum 3 + 2 cycles later.

    Types are streamed at their own pace, once: float32 every second cycle, in 3 to 11.
    """
    times = [(each.start, each.last, each.done) for each in run(engine, LOAD, MULTIPLY).trace.times]
    assert times == [(0, 2, 2), (3, 7, 7 + 3 + 2)]
    single = MatMul(moving=state(0, K, MOVING, M, TYPE), result=MULTIPLY.result)
    plain = run(engine, LoadWeights(weights=state(0, K, 0, N, TYPE)), single)
    assert [(each.start, each.last, each.done) for each in plain.trace.times] == times
    slow = MatMulDoubleRow(moving=state(0, K, MOVING, 2 * M), result=MULTIPLY.result)
    loaded = LoadDoubleRow(weights=state(0, K, 0, 2 * N))
    outcome = run(engine, loaded, slow, on=chip(passes={"f32": 2}))
    assert [each.last for each in outcome.trace.times] == [2, 11]


@both
def test_a_narrow_port_brings_pairs(engine):
    """Three bytes let a pair of fp8 through in a cycle, so f = 2 comes to nothing."""
    on = ideal_chip(
        4, 4, pe_array={"cycles_per_vector": {TYPE: 1}, "fast_load": 2, "double_row": {TYPE: 1}},
        state_buffer={"port_bytes": 3},
    )  # fmt: skip
    assert [each.last for each in run(engine, LOAD, on=on).trace.times] == [2]


@both
def test_what_is_seen_of_the_grid(engine):
    """Operands of a PE's first row, and the sum of both: after row 0 that of rows 0 and 1."""
    weights, vectors = operands()
    images = [Image(WEIGHTS, in_pairs(weights)), Image(VECTORS, in_pairs(vectors))]
    grid = run(engine, LOAD, MULTIPLY, images=images, grid=True).trace.grid
    seen = grid.at(3 + 1)
    assert (seen.moving[0, 1], seen.weight[0, 1]) == (vectors[0, 0], weights[0, 1])
    assert seen.sum[0, 1] == expected(weights[:2], vectors[:2])[1, 0]
    assert (grid.results(0) == expected(weights, vectors).T).all()


@pytest.mark.parametrize(
    ("instructions", "array", "text"),
    [
        ((LOAD,), {"double_row": {}}, "0 (LoadDoubleRow): weights: the array of test 4 x 4 takes "
         f"two rows in a PE of no type (pe_array.double_row), not of {TYPE}"),
        ((LoadDoubleRow(weights=state(0, K, 0, 6, "bf16")),), {}, "0 (LoadDoubleRow): weights: the "
         "array of test 4 x 4 takes two rows in a PE of f8e4m3fn, f8e5m2, f32, s8 "
         "(pe_array.double_row), not of bf16"),
        ((LoadDoubleRow(weights=state(0, K, 0, 5, TYPE)),), {}, "0 (LoadDoubleRow): weights: "
         "needed two elements for each PE, an even number in each partition, found 5"),
        ((LoadDoubleRow(weights=state(0, K, 0, 10, TYPE)),), {}, "0 (LoadDoubleRow): weights: "
         "elements per partition (N) is 5, but there are 4 array columns"),
        ((LOAD, MatMul(moving=state(0, K, MOVING, M, TYPE), result=MULTIPLY.result)), {},
         "1 (MatMul): moving has 1 elements for a PE, but the weights before it were loaded with "
         "2"),
        ((LOAD, MatMulDoubleRow(moving=VECTORS, result=psum(0, 4, 0, M))), {},
         "1 (MatMulDoubleRow): result has 4 columns (N), but only 3 are loaded"),
        ((LOAD, MatMulDoubleRow(moving=VECTORS, result=psum(0, N, 0, 2 * M))), {},
         "1 (MatMulDoubleRow): result: needed a word in each partition for each of 5 vectors, "
         "found 10"),
        ((LOAD, MULTIPLY), {"moving_max": 4}, "1 (MatMulDoubleRow): moving: a multiply takes at "
         "most 4 vectors (pe_array.moving_max), found 5"),
    ],
)  # fmt: skip
def test_refused(instructions: Any, array: Any, text: str) -> None:
    with pytest.raises(ProgramError) as caught:
        check_program(Program("p", instructions), chip(**array))
    assert str(caught.value) == f"p: instruction {text}"


def test_a_multiply_of_fewer_words_than_vectors_is_refused() -> None:
    """Of any multiply."""
    load = LoadWeights(weights=state(0, 4, 0, 4))
    multiply = MatMul(moving=state(0, 4, MOVING, 5), result=psum(0, 4, 0, 3))
    with pytest.raises(ProgramError, match="for each of 5 vectors, found 3"):
        check_program(Program("p", (load, multiply)), chip())


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        ({"pe_array": {"double_row": {"tf32": 1}}}, 'double_row: "tf32" is no type of'),
        ({"pe_array": {"double_row": {"f32": 1}}, "state_buffer": {"port_bytes": 4}},
         "is narrower than the two elements of f32"),
    ],
)  # fmt: skip
def test_chips_that_could_not_do_it(tables: Any, text: str) -> None:
    with pytest.raises((ValueError, ConfigError), match=text):
        ideal_chip(4, 4, **tables)


def test_text_and_binary_form() -> None:
    module = Module(Program("p", (LOAD, MULTIPLY)))
    text = format_text(module)
    assert "\nload_double_row weights=state_buffer[0:4]+0 f8e4m3fn (1x6)\n" in text
    assert parse_text(text).program.instructions == (LOAD, MULTIPLY)
    assert decode(encode(module)).program == module.program


def test_products_of_both_rows_are_counted() -> None:
    assert Program("p", (LOAD, MULTIPLY)).products() == 2 * K * N * M


# Random programs.


def random_program(seed: int) -> tuple[Chip, Program, list[Image]]:
    """Return a program of double rows and single ones, of two types, on a chip of random keys."""
    rng = Random(seed)
    array = {
        **DOUBLE,
        "weight_path": rng.choice(["left", "top"]),
        "weight_buffer": rng.choice(["double", "double", "single", "serial"]),
        "fast_load": rng.choice([1, 2, 3]),
        "hop": [rng.choice([1, 2]), rng.choice([1, 2])],
        "cell": rng.choice([[1, 1], [2, 1], [1, 2], [2, 2]]),
        "fused_multiply_add": rng.random() < 0.3,
        "pass_through": {"f32": 1},
    }
    made = ideal_chip(
        4, 4, pe_array=array, state_buffer={"port_bytes": rng.choice([None, 8, 16])},
        result_buffer={"write_latency_cycles": rng.choice([0, 1, 4])},
    )  # fmt: skip
    rng_types = [("f32", 0), ("s8", 1)]
    work, loaded = list[Any](), None
    for number in range(rng.randint(3, 20)):
        keys = {"posts": (Post(number),)}
        if number and rng.random() < 0.2:
            keys["waits"] = (Wait(rng.randrange(number), 1),)
        if loaded is None or rng.random() < 0.4:
            (dtype, bank), per = rng.choice(rng_types), rng.choice([1, 2])
            kind = LoadDoubleRow if per == 2 else LoadWeights
            access = state(0, rng.randint(1, 4), bank * MOVING, per * rng.randint(1, 4), dtype)
            loaded = kind(weights=access, **keys)
            work.append(loaded)
            continue
        per, dtype = loaded.rows_per_pe, loaded.weights.dtype
        bank, count = int(dtype == "s8"), rng.randint(1, 6)
        words = psum(0, rng.randint(1, loaded.columns), rng.randrange(30), count,
                     data_type(dtype).accumulator)  # fmt: skip
        rows = rng.randint(1, loaded.weights.partitions)
        start = bank * MOVING + rng.choice([0, 64, 4096])
        kind = MatMulDoubleRow if per == 2 else MatMul
        moving = state(0, rows, start, per * count, dtype)
        work.append(kind(moving=moving, result=words, accumulate=rng.random() < 0.3, **keys))
    values = np.random.default_rng(seed)
    floats = values.standard_normal((4, MOVING // 4)).astype(np.float32)
    floats[:, ::17] = values.choice([np.inf, -0.0, np.nan, 1e-42], floats[:, ::17].shape)
    images = [
        Image(state(0, 4, 0, MOVING // 4), floats),
        Image(state(0, 4, MOVING, MOVING, "s8"),
              values.integers(-128, 128, (4, MOVING), np.int8)),
    ]  # fmt: skip
    names = tuple(f"s{n}" for n in range(len(work)))
    return made, Program("random double rows", tuple(work), names), images


@pytest.mark.parametrize("seed", quick_first(range(60), 15))
def test_engines_agree_on_random_double_rows(seed: int) -> None:
    """Word by word and cycle by cycle; no run is shorter than its bound, every start explained."""
    made, program, images = random_program(seed)
    event = simulate(made, program, images, kinds=KINDS, grid=True)
    register = simulate(made, program, images, kinds=KINDS, engine="register", grid=True)
    assert_same(event, register)
    assert busy_cycles(made, program)["pe_array"] <= event.trace.cycles()
    causes = Causes(Lives(made, program, event.trace))
    for index in range(len(program.instructions)):
        last = causes.last(index)
        assert (0 if last is None else last.tick) == causes.could_start(index), (index, last)
    assert not any(each.code == "illegal" for each in lint(program, made))


@pytest.mark.parametrize("seed", quick_first(range(20), 5))
def test_the_history_shows_what_the_registers_hold(seed: int) -> None:
    made, program, images = random_program(seed)
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
