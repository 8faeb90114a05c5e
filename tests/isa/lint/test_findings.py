"""Is each kind of mistake found, and is it said in one line that names instructions and bytes?"""

from __future__ import annotations

import gc

import pytest

from support.scenes import codes, findings, program, small_chip
from systolic.errors import ProgramError
from systolic.isa import Program
from systolic.isa.lint.diagnostic import BufferBox
from systolic.isa.lint.lint import lint, require_clean
from systolic.spans import Interval

LOAD = "load weights=sb0:4+0x4"
MULTIPLY = "matmul moving=sb0:4+64x4 result=ps0:4+0x4"
COPY = "copy activation source=ps0:4+0x4 target=sb0:4+128x4"

CASES = [
    pytest.param(
        [LOAD, f"{MULTIPLY} post s0", COPY],
        "error read-after-write: instruction 2 (Copy) reads result_buffer[0:4] bytes 0:16, and "
        "nothing makes instruction 1 (MatMul) write it before",
        id="read-after-write",
    ),
    pytest.param(
        [LOAD, "dma q0 source=dr0:1+0x4 target=sb1:2+0x4"],
        "error write-after-read: instruction 1 (DmaCopy) writes state_buffer[1:2] bytes 0:16, and "
        "nothing makes instruction 0 (LoadWeights) read it before",
        id="write-after-read",
    ),
    pytest.param(
        [
            "memset activation target=sb0:4+0x4 value=1",
            "memset pooling target=sb2:4+12x1 value=2",
        ],
        "error write-after-write: instruction 1 (Memset) writes state_buffer[2:4] bytes 12:16, and "
        "nothing makes instruction 0 (Memset) write it before",
        id="write-after-write",
    ),
    pytest.param(
        ["copy activation source=ps1:3+4x2 target=sb1:3+0x2"],
        "error unwritten: instruction 0 (Copy) reads result_buffer[1:3] bytes 4:12, which nothing "
        "has written",
        id="unwritten",
    ),
    pytest.param(
        [LOAD, MULTIPLY, MULTIPLY],
        "error undrained: instruction 2 (MatMul) overwrites result_buffer[0:4] bytes 0:16, "
        "instruction 1 (MatMul)'s result, unread",
        id="undrained",
    ),
    pytest.param(
        [MULTIPLY],
        "error no-weights: instruction 0 (MatMul): no LoadWeights before it",
        id="no-weights",
    ),
    pytest.param(
        ["memset activation target=sb0:5+0x4 value=1"],
        "error illegal: instruction 0 (Memset): target: partitions 0 to 4 of state_buffer, which "
        "has 4",
        id="illegal",
    ),
    pytest.param(
        [f"{LOAD} post s1", f"{MULTIPLY} wait s1>=2"],
        'error never-posted: instruction 1 (MatMul) waits for semaphore s1 "s1" to reach 2, but '
        "the whole program posts it once",
        id="never-posted",
    ),
    pytest.param(
        [f"{LOAD} wait s1>=1 post s1"],
        'error deadlock: instruction 0 (LoadWeights) waits for semaphore s1 "s1" to reach 1, it '
        "stays at 0: instruction 0 (LoadWeights), which posts it, is that instruction itself",
        id="deadlock",
    ),
    pytest.param(
        ["copy activation source=sb0:4+0x60 target=sb0:4+8x60"],
        "error self-overlap: instruction 0 (Copy) reads what it may have overwritten in "
        "state_buffer[0:4] bytes 8:240",
        id="self-overlap",
    ),
    pytest.param(
        [f"{LOAD} post s3"],
        'hint unused-post: instruction 0 (LoadWeights) posts semaphore s3 "s3", and nothing waits '
        "for it",
        id="unused-post",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "line"), CASES)
def test_what_is_said(lines: list[str], line: str, request: pytest.FixtureRequest) -> None:
    found = findings(lines)
    mine = [d for d in found if d.code == request.node.callspec.id]
    assert [str(d) for d in mine] == [line]
    others = [d for d in found if d not in mine and d.severity != "hint"]
    assert not others


def test_a_finding_has_parts() -> None:
    (found,) = findings([LOAD, "dma q0 source=dr0:1+0x4 target=sb1:2+0x4"])
    assert found.instructions == ((1, "DmaCopy"), (0, "LoadWeights"))
    assert found.region is not None
    assert found.region == BufferBox(found.region.buffer, Interval(1, 2), Interval(0, 16))


def test_every_illegal_instruction_is_found() -> None:
    bad = "memset activation target=sb0:5+0x4 value=1"
    assert codes([bad, LOAD, MULTIPLY, bad]) == [("illegal", (0,)), ("illegal", (3,))]


def test_a_multiply_that_asks_for_more_than_is_loaded() -> None:
    assert codes(["load weights=sb0:2+0x2", MULTIPLY]) == [("illegal", (1,))]


def test_a_bad_load_is_not_blamed_on_its_multiplies() -> None:
    assert codes(["load weights=sb0:9+0x4", MULTIPLY]) == [("illegal", (0,))]


def test_unknown_contents_are_not_looked_for() -> None:
    lines = ["copy activation source=ps1:3+4x2 target=sb1:3+0x2"]
    assert codes(lines, inputs=None) == []
    assert codes(lines, inputs=()) == [("unwritten", (0,))]


def test_part_of_what_is_read_is_unwritten() -> None:
    lines = [
        "memset activation target=sb0:4+0x2 value=1 post s0",
        "memset activation target=sb1:3+8x2 value=1 post s0",
        "copy pooling source=sb0:4+0x4 target=sb0:4+64x4 wait s0>=2",
    ]
    (found,) = findings(lines, inputs=())
    assert str(found.region) == "state_buffer[0:4] bytes 8:16"
    whole = lines[1].replace("sb1:3", "sb0:4")
    assert codes([lines[0], whole, lines[2]], inputs=()) == []


def test_accumulating_onto_nothing() -> None:
    assert codes([LOAD, f"{MULTIPLY} accumulate"]) == [("unwritten", (1,))]
    assert codes([LOAD, MULTIPLY, f"{MULTIPLY} accumulate"]) == []


def test_drained_in_part() -> None:
    lines = [
        LOAD,
        f"{MULTIPLY} post s0",
        "copy activation source=ps0:4+0x3 target=sb0:4+128x3 wait s0>=1 post s1",
        f"{MULTIPLY} wait s1>=1",
    ]
    (found,) = findings(lines)
    assert (found.code, str(found.region)) == ("undrained", "result_buffer[0:4] bytes 12:16")


def test_overwritten_twice_counts_once() -> None:
    part = "matmul moving=sb0:4+64x2 result=ps0:4+0x2"
    found = codes([LOAD, MULTIPLY, part, part])
    assert found == [("undrained", (2, 1)), ("undrained", (3, 2))]


class TestDeadlock:
    """Programs that cannot come to their end."""

    def test_two_heads_that_wait_for_each_other(self) -> None:
        lines = [
            "memset activation target=sb0:4+0x1 value=1 wait s0>=1 post s1",
            "memset pooling target=sb0:4+64x1 value=1 wait s1>=1",
            "memset pooling target=sb0:4+128x1 value=1 post s0",
        ]
        found = [str(d) for d in findings(lines)]
        assert found == [
            'error deadlock: instruction 0 (Memset) waits for semaphore s0 "s0" to reach 1, it '
            "stays at 0: instruction 2 (Memset), which posts it, stands in pooling behind "
            "instruction 1 (Memset), which is stuck",
            'error deadlock: instruction 1 (Memset) waits for semaphore s1 "s1" to reach 1, it '
            "stays at 0: instruction 0 (Memset), which posts it, is stuck at the head of "
            "activation",
        ]

    def test_enough_posts_in_time_are_no_deadlock(self) -> None:
        lines = [
            "memset activation target=sb0:4+0x1 value=1 wait s0>=1 post s1",
            "memset pooling target=sb0:4+128x1 value=1 post s0",
            "memset pooling target=sb0:4+64x1 value=1 wait s1>=1",
        ]
        assert codes(lines) == []

    def test_rows_and_partitions_count(self) -> None:
        rows = f"{MULTIPLY} post s0:row s1:partition"
        assert codes([LOAD, rows, f"{COPY} wait s0>=4 s1>=4"]) == []
        assert codes([LOAD, rows, f"{COPY} wait s0>=5"]) == [("never-posted", (2,))]


class TestSelfOverlap:
    """What an instruction does to its own operands."""

    def test_in_place_is_fine(self) -> None:
        assert codes(["copy activation source=sb0:4+0x4 target=sb0:4+0x4"]) == []
        assert codes(["dma q0 source=dr0:1+0x4 target=dr0:1+0x4"]) == []

    def test_behind_is_fine_ahead_is_not(self) -> None:
        assert codes(["dma q0 source=dr0:1+4x4 target=dr0:1+0x4"]) == []
        assert codes(["dma q0 source=dr0:1+0x4 target=dr0:1+4x4"]) == [("self-overlap", (0,))]

    def test_within_the_latency_is_fine(self) -> None:
        lines = ["copy activation source=sb0:4+0x8 target=sb0:4+16x8"]
        assert codes(lines, small_chip(activation={"latency_cycles": 4})) == []
        assert codes(lines, small_chip(activation={"latency_cycles": 3})) != []

    def test_a_word_written_twice(self) -> None:
        text = "target=state_buffer[0:4]+0 f32 (0x4)"
        assert codes([f"memset activation {text} value=1"]) == [("self-overlap", (0,))]


class TestRequireClean:
    """What runs before a machine starts."""

    def test_clean_programs_pass_and_hints_do_too(self) -> None:
        require_clean(program(f"{LOAD} post s0"), small_chip())

    def test_the_first_errors_and_how_many_more(self) -> None:
        lines = [f"memset activation target=sb0:5+{16 * n}x4 value=1" for n in range(7)]
        with pytest.raises(ProgramError) as caught:
            require_clean(program(*lines), small_chip())
        text = str(caught.value)
        assert text.startswith("scene: illegal: instruction 0 (Memset): target: partitions 0 to 4")
        assert text.count("illegal") == 5
        assert text.endswith("; and 2 more")

    def test_an_empty_program_is_clean(self) -> None:
        assert lint(Program("empty", ()), small_chip(), ()) == []


@pytest.mark.slow
def test_a_check_leaves_no_cycles_of_references() -> None:
    """The search for such cycles rests meanwhile, and takes what is left for things to keep."""
    lines = [LOAD, f"{MULTIPLY} post s0", f"{COPY} wait s0>=1"] * 20
    one, chip = program(*lines), small_chip()
    lint(one, chip)
    gc.collect()
    gc.disable()
    try:
        lint(one, chip, ())
        assert gc.collect() == 0
    finally:
        gc.enable()
