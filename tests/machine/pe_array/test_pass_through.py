"""Do weights pass through the array with all their bits, at what cost, and where to?

Both engines. The values' oracle is numpy's transpose of the bits, or a row picked by hand; times
are worked out by hand, and in chains from the costs that were published for transposes.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.config import load_chip
from systolic.errors import ProgramError
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.timing import turn_interval_cycles
from systolic.isa import (
    Copy,
    DmaCopy,
    LoadWeights,
    MatMul,
    PassThrough,
    Post,
    Program,
    Wait,
    check_program,
    parse_text,
)
from systolic.machine import Image, simulate
from systolic.shipped import CHIPS

both = pytest.mark.parametrize("engine", ["event", "register"])
MOVING, TARGET = 8192, 16384
TYPES = ("f32", "bf16", "f16", "f8e4m3fn", "f8e5m2", "s8")
EVERY = {"pass_through": dict.fromkeys(TYPES, 1)}


def any_bits(dtype: str, rows: int, cols: int) -> Any:
    """Return elements of random bits: NaNs with payloads, infinities, -0.0, subnormals."""
    element = data_type(dtype).numpy
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 8 * element.itemsize, (rows, cols), np.uint64)
    if dtype == "f32":
        bits[0] = [0x7F800001, 0xFFC12345, 0x80000000, 0xFF800000][:cols]
    if dtype == "f16":
        bits[0] = [0x7C01, 0xFE55, 0x8000, 0xFC00][:cols]
    return bits.astype(f"u{element.itemsize}").view(element)


def bits_of(values: Any) -> Any:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def turned(dtype: str, rows: int, cols: int) -> tuple[Program, list[Image]]:
    """Return the transpose of a block: loaded, passed through by an identity, copied out."""
    identity = np.eye(rows).astype(data_type(dtype).numpy)
    result = psum(0, cols, 0, rows, dtype)
    program = Program(
        "turned",
        (
            LoadWeights(weights=state(0, rows, 0, cols, dtype)),
            PassThrough(
                moving=state(0, rows, MOVING, rows, dtype), result=result, posts=(Post(0),)
            ),
            Copy(
                engine="activation", source=result,
                target=state(0, cols, TARGET, rows, dtype), waits=(Wait(0, 1),),
            ),
        ),
        ("s0",),
    )  # fmt: skip
    images = [
        Image(state(0, rows, 0, cols, dtype), any_bits(dtype, rows, cols)),
        Image(state(0, rows, MOVING, rows, dtype), identity),
    ]
    return program, images


@both
@pytest.mark.parametrize("dtype", TYPES)
def test_a_transpose_keeps_every_bit(engine: Any, dtype: str) -> None:
    """NaNs, infinities and -0.0 as well, in the state buffer at both ends."""
    program, images = turned(dtype, 5, 4)
    chip = ideal_chip(6, 4, pe_array={"hop": (1, 2), "cell": (2, 1), **EVERY})
    outcome = simulate(chip, program, images, engine=engine)
    found = outcome.memory.read(program.instructions[2].target)
    assert (bits_of(found) == bits_of(images[0].values).T).all()


@both
def test_a_product_with_an_identity_does_not(engine: Any) -> None:
    """Where weights are multiplied, the NaNs of a column spread over it."""
    program, images = turned("f32", 4, 4)
    load, through, copy = program.instructions
    multiply = MatMul(moving=through.moving, result=through.result, posts=through.posts)
    plain = Program("product", (load, multiply, copy), ("s0",))
    outcome = simulate(ideal_chip(4, 4), plain, images, engine=engine)
    found = outcome.memory.read(copy.target)
    assert np.isnan(found[:2]).all()
    assert (bits_of(found) != bits_of(images[0].values).T).any()


@both
def test_a_short_element_takes_a_word_of_its_own(engine: Any) -> None:
    """What lay in the words before is gone: the upper bits are 0."""
    program, images = turned("bf16", 2, 2)
    old = Image(psum(0, 2, 0, 2), np.full((2, 2), -1.5, np.float32))
    chip = ideal_chip(2, 2, pe_array=EVERY)
    outcome = simulate(chip, program, [*images, old], engine=engine)
    words = outcome.memory.read(psum(0, 2, 0, 2, "s32"))
    assert (words == bits_of(images[0].values).T.astype(np.int64)).all()


@both
def test_the_last_row_whose_moving_element_is_not_zero_passes(engine: Any) -> None:
    """Vector 0: none. 1: row 1, a NaN. 2: row 3, -0.0 is 0. 3: rows 0 and 2, of which 2."""
    moving = np.zeros((4, 4), np.float32)
    moving[1, 1], moving[3, 2], moving[0, 2] = np.nan, -7, -0.0
    moving[[0, 2], 3] = 1
    weights = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    program = Program("rows", turned("f32", 4, 4)[0].instructions[:2], ("s0",))
    images = [Image(state(0, 4, 0, 4), weights), Image(state(0, 4, MOVING, 4), moving)]
    outcome = simulate(ideal_chip(4, 4, pe_array=EVERY), program, images, engine=engine)
    expected = [[0, 5, 13, 9], [0, 6, 14, 10], [0, 7, 15, 11], [0, 8, 16, 12]]
    assert outcome.memory.read(psum(0, 4, 0, 4)).tolist() == expected


@both
def test_its_vectors_have_a_pace_of_their_own_and_pass_once(engine: Any) -> None:
    """Load in 0 to 3. Three vectors at a distance of 2: in 4, 6, 8; a product's of 3, twice.

    The next multiply starts behind the last vector, in 10, and its six injections end in 25.
    """
    rates = {"cycles_per_vector": {"f32": 3}, "passes": {"f32": 2}, "pass_through": {"f32": 2}}
    moving, load = state(0, 4, MOVING, 3), LoadWeights(weights=state(0, 4, 0, 4))
    through = PassThrough(moving=moving, result=psum(0, 4, 0, 3))
    product = MatMul(moving=moving, result=psum(0, 4, 8, 3))
    program = Program("pace", (load, through, product))
    outcome = simulate(
        ideal_chip(4, 4, pe_array=rates), program, [], engine=engine, kinds=("inject",)
    )
    times = {each.instruction: each for each in outcome.trace.times}
    ticks = sorted(set(outcome.trace.words.of("inject").rows["tick"].tolist()))
    assert ticks == [4, 6, 8, 10, 13, 16, 19, 22, 25]
    assert (times[1].start, times[1].last, times[1].done) == (4, 8, 8 + 3 + 3)
    assert (times[2].start, times[2].last) == (10, 25)


@both
def test_what_is_seen_of_the_grid(engine: Any) -> None:
    """Vector 1 is in PE (r, c) in cycle 3 + r + c; from row 1 on it carries that row's weight."""
    program, images = turned("bf16", 2, 2)
    weights = np.array([[1, 2], [3, -4]]).astype(data_type("bf16").numpy)
    images[0] = replace(images[0], values=weights)
    chip = ideal_chip(2, 2, pe_array=EVERY)
    outcome = simulate(chip, program, images, engine=engine, grid=True, kinds=("psum_write",))
    grid = outcome.trace.grid
    assert grid.at(3).sum[0, 0] == 0
    assert grid.at(4).sum[1, 0] == 3
    assert grid.at(5).sum[1, 1] == -4
    rows = outcome.trace.words.of("psum_write")
    assert sorted(rows.values()) == ["-4", "1", "2", "3"]


@pytest.mark.parametrize(
    ("fields", "array", "text"),
    [
        ({}, {}, "moving: through the array of ideal no type may pass (pe_array.pass_through), "
                 "not f32"),
        ({}, {"pass_through": {"bf16": 1, "s8": 1}},
         "moving: through the array of ideal bf16, s8 may pass (pe_array.pass_through), not f32"),
        ({"result": psum(0, 4, 0, 4, "s32")}, EVERY,
         "result: what passes through keeps its type, f32, found s32"),
        ({"accumulate": True}, EVERY, "accumulate: what passes through is added to nothing"),
        ({"moving": state(0, 4, MOVING, 4, "bf16"), "result": psum(0, 4, 0, 4, "bf16")}, EVERY,
         "moving bf16 cannot pass weights f32 through"),
    ],
)  # fmt: skip
def test_refused(fields: Any, array: Any, text: str) -> None:
    load, through = turned("f32", 4, 4)[0].instructions[:2]
    program = Program("p", (load, replace(through, **fields)), ("s0",))
    with pytest.raises(ProgramError) as caught:
        check_program(program, replace_name(ideal_chip(4, 4, pe_array=array)))
    assert str(caught.value) == f"p: instruction 1 (PassThrough): {text}"


def replace_name(chip: Any) -> Any:
    return chip.model_copy(update={"name": "ideal"})


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (Copy(engine="activation", source=state(0, 4, 0, 4, "bf16"),
              target=psum(0, 4, 0, 4, "bf16")),
         "target: result-buffer words are f32 or s32, found bf16"),
        (DmaCopy(dma_queue=0, source=psum(0, 4, 0, 4, "bf16"), target=state(0, 4, 0, 4, "bf16")),
         "source: result-buffer words are f32 or s32, found bf16"),
    ],
)  # fmt: skip
def test_only_what_passes_through_leaves_short_elements(instruction: Any, text: str) -> None:
    """Engines read them; they write words, and DMA moves words."""
    chip = ideal_chip(4, 4, pe_array=EVERY, result_buffer={"dma_readable": True})
    with pytest.raises(ProgramError, match="instruction 0") as caught:
        check_program(Program("p", (instruction,)), chip)
    assert str(caught.value).endswith(text)


def test_the_text_form() -> None:
    text = (
        "systolic program 1\nload weights=state_buffer[0:4]+0 bf16 (1x4)\n"
        "pass_through moving=state_buffer[0:4]+8192 bf16 (1x4) "
        "result=result_buffer[0:4]+0 bf16 (1x4)\n"
    )
    through = parse_text(text).program.instructions[1]
    assert through == PassThrough(
        moving=state(0, 4, MOVING, 4, "bf16"), result=psum(0, 4, 0, 4, "bf16")
    )


# The transposes of the NeuronCores.

CORES = {name: load_chip(CHIPS / f"neuroncore_{name}.toml") for name in ("v3", "v4")}


def chain(
    chip: Any, kind: Any, partitions: int, elements: int, dtype: str, engine: Any
) -> set[int]:
    """Return the cycles from the start of each of four transposes to that of the next."""
    bank = 32768
    load = LoadWeights(weights=state(0, partitions, 0, elements, dtype))
    word = dtype if kind is PassThrough else "f32"
    each = [
        kind(
            moving=state(0, partitions, 2 * bank, partitions, dtype),
            result=psum(0, elements, 512 * n, partitions, word),
        )
        for n in range(4)
    ]
    program = Program("chain", tuple(step for one in each for step in (load, one)))
    trace = simulate(chip, program, engine=engine, values=engine == "register").trace
    starts = [times.start for times in trace.times if times.instruction % 2]
    return {(b - a) // chip.period("pe_array") for a, b in pairwise(sorted(starts))}


@both
@pytest.mark.parametrize(("dtype", "cycles"), [("f32", 2), ("bf16", 1), ("f8e4m3fn", 1)])
@pytest.mark.parametrize(("partitions", "elements"), [(128, 128), (32, 128), (128, 32)])
def test_chains_of_transposes_on_the_third_generation(
    engine: Any, dtype: str, cycles: int, partitions: int, elements: int
) -> None:
    """nc_transpose of nki.isa: max(P, min(64, F)); float32 twice as fast as its product's four."""
    expected = max(partitions, min(64, elements))
    chip = CORES["v3"]
    found = chain(chip, PassThrough, partitions, elements, dtype, engine)
    assert found == {cycles * expected}
    formula = turn_interval_cycles(chip, partitions, elements, dtype, is_pass_through=True)
    assert found == {formula}


@pytest.mark.parametrize("name", CORES)
def test_a_float32_transpose_is_twice_as_fast_as_its_product(name: str) -> None:
    through = chain(CORES[name], PassThrough, 128, 128, "f32", "event")
    product = chain(CORES[name], MatMul, 128, 128, "f32", "event")
    assert (through, product) == ({256}, {512})
    assert product == {turn_interval_cycles(CORES[name], 128, 128, "f32")}
