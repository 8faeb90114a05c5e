"""Is the value right? Copies whose source or target lies where an operand says as they run.

The values by numpy, on both engines, whose records are compared word for word. The cycles are the
same whatever the number is; a number that the instruction does not allow ends the run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import able_chip
from support.compare_traces import assert_same
from systolic.errors import ProgramError, SimulationError
from systolic.isa import (
    Access,
    Buffer,
    Copy,
    CopyDynamicDst,
    CopyDynamicSrc,
    Module,
    Program,
    check_program,
    decode,
    encode,
    format_instruction,
    format_text,
    lint,
    parse_text,
)
from systolic.machine import Image, simulate

ENGINES = pytest.mark.parametrize("engine", ["event", "register"])
BANK = 8192
OFFSET = state(2, 1, 3 * BANK, 1, "s32")
"""In a lane of its own, and in another bank than all else."""
TABLE = state(0, 4, 0, 64)


def taken(source: Access, most: int, target: Access | None = None) -> CopyDynamicSrc:
    place = target or state(0, source.partitions, 2 * BANK, source.elements)
    return CopyDynamicSrc(engine="pooling", source=source, offset=OFFSET, most=most, target=place)


def put(target: Access, most: int) -> CopyDynamicDst:
    source = state(0, target.partitions, 2 * BANK, target.elements)
    return CopyDynamicDst(engine="pooling", source=source, target=target, offset=OFFSET, most=most)


def ran(made: Any, offset: int, engine: Any = "event", **keys: Any) -> Any:
    """Return the outcome of an instruction, with a table of 4 x 64 numbers in bank 0."""
    rng = np.random.default_rng(7)
    images = [
        Image(OFFSET, np.array([[offset]], np.int32)),
        Image(TABLE, rng.normal(size=(4, 64)).astype(np.float32)),
        Image(state(0, 4, 2 * BANK, 64), rng.normal(size=(4, 64)).astype(np.float32)),
    ]
    chip = able_chip(4, 4, pooling=keys)
    kinds = ["read", "write"]
    return simulate(chip, Program("p", (made,)), images, engine=engine, kinds=kinds)


def numbers(seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Return what the table holds, and the place where the copies go to or come from."""
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=(4, 64)).astype(np.float32) for _ in range(2))  # type: ignore[return-value]


def columns(pattern: Any) -> np.ndarray:
    """Return how far each element of a pattern lies behind the first."""
    index = np.zeros(1, int)
    for step, count in pattern:
        index = np.add.outer(index, step * np.arange(count)).ravel()
    return index


PATTERNS = [((1, 12),), ((16, 3), (1, 5)), ((3, 6),), ((-1, 7),), ((2, 2), (8, 3), (3, 2))]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("offset", [0, 1, 11])
def test_the_source_lies_where_the_offset_says(pattern: Any, offset: int) -> None:
    source = Access(Buffer.STATE, "f32", 0, 4, 40, pattern)
    made = taken(source, 11)
    found = [ran(made, offset, engine, elements_per_cycle=2) for engine in ("event", "register")]
    assert_same(*found)
    table, _ = numbers()
    expected = table[:, 10 + offset + columns(pattern)]
    assert np.array_equal(found[0].memory.read(made.target), expected)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("offset", [0, 5, 11])
def test_the_target_lies_where_the_offset_says(pattern: Any, offset: int) -> None:
    target = Access(Buffer.STATE, "f32", 0, 4, 40, pattern)
    made = put(target, 11)
    found = [ran(made, offset, engine, latency_cycles=3) for engine in ("event", "register")]
    assert_same(*found)
    expected, source = numbers()
    index = columns(pattern)
    expected[:, 10 + offset + index] = source[:, : len(index)]
    assert np.array_equal(found[0].memory.read(TABLE), expected)


def test_values_are_cast_and_bits_are_kept() -> None:
    source = state(0, 4, 0, 8)
    made = taken(source, 3, state(0, 4, 2 * BANK, 8, "bf16"))
    found = [ran(made, 2, engine) for engine in ("event", "register")]
    assert_same(*found)
    rounded = found[0].memory.read(made.target).astype(np.float32)
    table = numbers()[0][:, 2:10]
    assert np.abs(rounded - table).max() <= np.abs(table).max() / 256


@pytest.mark.parametrize("make", [taken, put])
def test_cycles_do_not_depend_on_the_offset(make: Any) -> None:
    times = []
    for offset in (0, 3, 50):
        trace = ran(make(state(0, 4, 0, 10), 50), offset).trace
        times.append([(t.start, t.first, t.last, t.done) for t in trace.times])
    assert times[0] == times[1] == times[2] == [(0, 0, 10, 11)]


@ENGINES
@pytest.mark.parametrize("make", [taken, put])
@pytest.mark.parametrize("offset", [-1, 12])
def test_another_offset_ends_the_run(engine: Any, make: Any, offset: int) -> None:
    made = make(state(0, 4, 0, 10), 11)
    text = (
        rf"^p: instruction 0 \({type(made).__name__}\): offset: needed 0 to 11 \(most\), "
        rf"found {offset}$"
    )
    with pytest.raises(SimulationError, match=text):
        ran(made, offset, engine)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (replace(taken(TABLE, 0), offset=state(0, 1, 0, 1)),
         "offset: needed one s32 in one partition, found 1 x 1 f32"),
        (replace(taken(TABLE, 0), offset=state(0, 4, 0, 1, "s32")),
         "offset: needed one s32 in one partition, found 4 x 1 s32"),
        (replace(taken(TABLE, 0), offset=psum(0, 1, 0, 1, "s32")),
         "offset: must lie in the state buffer, found result_buffer"),
        (taken(TABLE, -1), "most: needed 0 or more elements, found -1"),
        (taken(TABLE, BANK // 4 - 63),
         "source: all places that the offset may give it must lie in one bank of 8192 bytes, "
         "found bytes 0 to 8195"),
        (put(state(0, 4, 7 * BANK, 4), BANK // 4 - 3),
         "target: 2045 elements further (most) it ends at byte 65539 of state_buffer, which has "
         "65536"),
        (taken(psum(0, 4, 0, 8), 505, state(0, 4, 0, 8)),
         "source: all places that the offset may give it must lie in one bank of 2048 bytes, "
         "found bytes 0 to 2051"),
    ],
)  # fmt: skip
def test_what_is_refused(made: Any, text: str) -> None:
    with pytest.raises(ProgramError) as refused:
        check_program(Program("p", (made,)), able_chip(4, 4))
    assert str(refused.value) == f"p: instruction 0 ({type(made).__name__}): {text}"


def test_all_that_may_be_read_must_have_been_written() -> None:
    chip, made = able_chip(4, 4), taken(state(0, 4, 0, 8), 4)
    for written, codes in ((12, []), (11, ["unwritten"])):
        inputs = [state(0, 4, 0, written), OFFSET]
        assert [d.code for d in lint(Program("p", (made,)), chip, inputs)] == codes
    behind = put(state(0, 4, 0, 8), 4)  # it keeps what it does not write, and writes no more for it
    inputs = [state(0, 4, 0, 11), OFFSET, state(0, 4, 2 * BANK, 8)]
    assert [d.code for d in lint(Program("p", (behind,)), chip, inputs)] == ["unwritten"]


def test_races_are_those_of_the_whole_range() -> None:
    chip = able_chip(4, 4)
    inputs = [TABLE, OFFSET, state(0, 4, 2 * BANK, 8), state(0, 4, 4 * BANK, 8)]
    for first, codes in ((12, []), (11, ["write-after-write"])):
        later = Copy(
            engine="activation", source=state(0, 4, 4 * BANK, 8), target=state(0, 4, 4 * first, 8)
        )
        program = Program("p", (put(state(0, 4, 0, 8), 4), later))
        assert [d.code for d in lint(program, chip, inputs)][:1] == codes
    near = replace(taken(state(0, 4, 0, 8), 4), target=state(0, 4, 4 * 11, 8))
    assert [d.code for d in lint(Program("p", (near,)), chip, inputs)] == ["self-overlap"]
    clear = replace(near, target=state(0, 4, 4 * 12, 8))
    assert lint(Program("p", (clear,)), chip, inputs) == []


def test_the_forms() -> None:
    lines = {
        taken(state(0, 4, 0, 8), 5): (
            "copy_dynamic_src pooling source=state_buffer[0:4]+0 f32 (1x8) "
            "offset=state_buffer[2:3]+24576 s32 (1x1) most=5 "
            "target=state_buffer[0:4]+16384 f32 (1x8)"
        ),
        put(state(0, 4, 0, 8), 5): (
            "copy_dynamic_dst pooling source=state_buffer[0:4]+16384 f32 (1x8) "
            "target=state_buffer[0:4]+0 f32 (1x8) "
            "offset=state_buffer[2:3]+24576 s32 (1x1) most=5"
        ),
    }
    for made, line in lines.items():
        module = Module(Program("forms", (made,)))
        assert format_instruction(made) == line
        assert parse_text(format_text(module)).program == module.program
        assert decode(encode(module)).program == module.program
