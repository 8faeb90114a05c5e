"""Are the engines' instructions on time? The steps of section 4, by hand, for both engines."""

from __future__ import annotations

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.isa import (
    Access,
    Activate,
    Buffer,
    Copy,
    Iota,
    Pool,
    Program,
    Requantise,
    Select,
    TensorScalar,
    TensorTensor,
)
from systolic.isa.instruction import Post, Wait
from systolic.isa.lint.lint import lint
from systolic.machine import Image, simulate

BANK = 8192
SOURCE, RIGHT, LANE, TARGET = (state(0, 4, bank * BANK, 7) for bank in range(4))
ONE = state(0, 4, 2 * BANK, 1)
WHOLE = state(0, 4, 3 * BANK, 7, "s32")

pytestmark = pytest.mark.parametrize("engine", ["event", "register"])


def outcome(engine, *instructions, images=(), semaphores=(), **keys):
    """Run on a 4 x 4 chip whose engines have these keys."""
    spec = {"independent_lanes": False, **keys}
    chip = ideal_chip(4, 4, activation=spec, pooling=spec)
    program = Program("steps", instructions, semaphores)
    return simulate(chip, program, images, engine=engine, kinds=["read", "write"])


def moved(outcome, kind):
    """Return the ticks in which lane 0 moved something, one per element."""
    rows = outcome.trace.words.of(kind).rows
    return [int(row["tick"]) for row in rows if row["partition"] == 0]


def times(outcome):
    return [(t.first, t.last, t.done) for t in outcome.trace.times]


def activate(**fields):
    return Activate(function="ramp", source=SOURCE, target=TARGET, **fields)


def scalar(**fields):
    return TensorScalar(engine="pooling", op="add", source=SOURCE, target=TARGET, **fields)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        (activate(), (0, 6, 7)),
        (activate(bias=ONE), (0, 7, 8)),
        (scalar(scalar=1), (0, 6, 7)),
        (scalar(scalar=ONE), (0, 7, 8)),
        (scalar(scalar=ONE, then="max", other=0.0), (0, 7, 8)),
        (scalar(scalar=2.0, then="max", other=ONE), (0, 7, 8)),
        (scalar(scalar=ONE, then="max", other=ONE), (0, 8, 9)),
        (Requantise(engine="pooling", source=SOURCE, target=WHOLE, scale=0.5), (0, 6, 7)),
        (Requantise(engine="pooling", source=SOURCE, target=WHOLE, scale=ONE, bias=ONE), (0, 8, 9)),
        (Iota(engine="activation", target=TARGET), (0, 6, 7)),
        (Select(engine="activation", compare="less", value=1.0, target=TARGET), (0, 6, 7)),
        (Select(engine="pooling", compare="less", value=SOURCE, target=TARGET), (0, 6, 7)),
    ],
)
def test_a_step_for_each_operand_of_one_element_and_for_each_group(engine, instruction, expected):
    assert times(outcome(engine, instruction)) == [expected]


def test_operands_of_one_element_come_first_and_in_order(engine):
    far = state(0, 4, 4 * BANK, 1)
    found = outcome(engine, scalar(scalar=far, then="max", other=ONE), elements_per_cycle=3)
    rows = [r for r in found.trace.words.of("read").rows if r["partition"] == 0]
    order = sorted((int(r["tick"]), int(r["address"]) * 4 // BANK) for r in rows)
    assert order == [(0, 4), (1, 2)] + [(2, 0)] * 3 + [(3, 0)] * 3 + [(4, 0)]
    assert moved(found, "write") == [3, 3, 3, 4, 4, 4, 5]


@pytest.mark.parametrize(
    ("rate", "window", "outputs", "last", "written"),
    [
        (1, 3, 4, 11, [4, 7, 10, 13]),
        (1, 1, 3, 2, [2, 3, 4]),
        (2, 3, 4, 5, [3, 4, 6, 7]),  # elements 2, 5, 8, 11 are read in steps 1, 2, 4, 5
        (3, 2, 5, 3, [2, 3, 3, 4, 5]),  # elements 1, 3, 5, 7, 9 in 0, 1, 1, 2, 3
        (4, 4, 2, 1, [2, 3]),
        (16, 3, 4, 0, [2, 2, 2, 2]),
    ],
)
def test_a_pool_writes_behind_the_last_element_of_each_window(
    engine, rate, window, outputs, last, written
):
    pool = Pool(
        function="sum", window=window, source=state(0, 4, 0, window * outputs),
        target=state(0, 4, BANK, outputs),
    )  # fmt: skip
    found = outcome(engine, pool, elements_per_cycle=rate, latency_cycles=2)
    assert times(found) == [(0, last, written[-1])]
    assert moved(found, "write") == written
    assert found.trace.port_cycles[("state_buffer", 1, "write")] == len(set(written))


def pair(left, right):
    return TensorTensor(engine="activation", op="add", left=left, right=right, target=TARGET)


UPPER, LOWER = state(0, 2, 0, 7), state(2, 2, 0, 7)


@pytest.mark.parametrize(
    ("left", "right", "steps"),
    [
        (SOURCE, RIGHT, 7),  # two banks
        (SOURCE, psum(0, 4, 0, 7), 7),  # two buffers
        (SOURCE, SOURCE, 14),
        (SOURCE, state(0, 4, 64, 7), 14),  # one bank
        (psum(0, 4, 0, 7), psum(0, 4, 16, 7), 14),
    ],
)
def test_operands_of_one_bank_are_read_one_after_the_other(engine, left, right, steps):
    found = outcome(engine, pair(left, right))
    assert times(found) == [(0, steps - 1, steps)]
    per_group = steps // 7
    assert moved(found, "write") == [per_group * (g + 1) for g in range(7)]


def test_operands_of_one_bank_in_different_partitions_are_read_together(engine):
    target = state(0, 2, TARGET.start, 7)
    for left, right, steps in ((UPPER, LOWER, 7), (UPPER, state(1, 2, 0, 7), 14)):
        made = TensorTensor(engine="pooling", op="add", left=left, right=right, target=target)
        assert times(outcome(engine, made)) == [(0, steps - 1, steps)]


def test_each_group_is_judged_by_the_banks_of_its_elements(engine):
    """Left passes from bank 0 to bank 1 after 4 elements, right stays in bank 1."""
    left, right = state(0, 4, BANK - 16, 7), state(0, 4, BANK + 1024, 7)
    found = outcome(engine, pair(left, right))
    assert times(found) == [(0, 9, 10)]
    assert moved(found, "write") == [1, 2, 3, 4, 6, 8, 10]
    found = outcome(engine, pair(left, right), elements_per_cycle=3)
    # of elements 3, 4, 5 two lie in the bank of the right ones
    assert times(found) == [(0, 4, 5)]
    assert moved(found, "write") == [1, 1, 1, 3, 3, 3, 5]


def test_left_is_read_before_right(engine):
    left, right = state(0, 4, 0, 3), state(0, 4, 64, 3)
    made = TensorTensor(
        engine="pooling", op="add", left=left, right=right, target=state(0, 4, TARGET.start, 3)
    )
    rows = outcome(engine, made).trace.words.of("read").rows
    order = [(int(r["tick"]), int(r["address"])) for r in rows if r["partition"] == 0]
    assert order == [(0, 0), (1, 16), (2, 1), (3, 17), (4, 2), (5, 18)]


def test_an_instruction_holds_the_lanes_of_its_first_operand(engine):
    made = TensorTensor(
        engine="activation", op="add", left=UPPER, right=state(2, 2, BANK, 7),
        target=state(2, 2, TARGET.start, 7),
    )  # fmt: skip
    for lanes, start in (((2, 2), 1), ((0, 2), 7)):
        other = Iota(engine="activation", target=state(*lanes, TARGET.start + 64, 3))
        found = outcome(engine, made, other, independent_lanes=True)
        assert found.trace.times[1].start == start


def test_the_next_one_starts_after_the_last_read_and_done_is_the_last_write(engine):
    first, second = activate(bias=ONE, posts=(Post(0),)), activate(scale=2.0, waits=(Wait(0, 1),))
    again = activate(scale=2.0)
    found = outcome(engine, first, again, semaphores=("a",), latency_cycles=5)
    assert [t.start for t in found.trace.times] == [0, 8]
    found = outcome(engine, first, second, semaphores=("a",), latency_cycles=5)
    assert [t.start for t in found.trace.times] == [0, 13]  # written in 12, visible in 13


def test_in_place(engine):
    """An instruction may write where it reads: each element after it has been read."""
    values = np.arange(28, dtype=np.float32).reshape(4, 7)
    made = TensorTensor(engine="pooling", op="multiply", left=SOURCE, right=SOURCE, target=SOURCE)
    found = outcome(engine, made, images=[Image(SOURCE, values)])
    assert found.memory.read(SOURCE).tolist() == (values * values).tolist()


def test_a_pool_over_its_own_source(engine):
    """Sums of three, three elements on: the first is written as its place is read, in step 3."""
    values = np.arange(24, dtype=np.float32).reshape(2, 12)
    source, target = state(0, 2, 0, 12), state(0, 2, 12, 4)
    pool = Pool(function="sum", window=3, source=source, target=target)
    found = outcome(engine, pool, images=[Image(source, values)])
    assert found.memory.read(target).tolist() == values.reshape(2, 4, 3).sum(-1).tolist()
    assert lint(Program("pool", (pool,)), ideal_chip(4, 4), [source]) == []


@pytest.mark.parametrize("distance", [1, 2])
def test_the_register_engine_shows_a_race(engine, distance):
    """left + 1, written some elements on. Element i is read in step 2 i, and written in 2 i + 3.

    One element on, a place is read in step 2 i + 2, which is early enough.
    """
    right = Access(Buffer.STATE, "f32", 0, 1, 64, ((0, 5),))
    made = TensorTensor(
        engine="activation", op="add", left=state(0, 1, 0, 5), right=right,
        target=state(0, 1, 4 * distance, 5),
    )  # fmt: skip
    whole, one = state(0, 1, 0, 7), state(0, 1, 64, 1)
    images = [Image(whole, np.ones((1, 7), np.float32)), Image(one, np.float32([[1]]))]
    found = outcome(engine, made, images=images, latency_cycles=2)
    plain = [1] * distance + [2] * 5 + [1] * (2 - distance)
    raced = [1, 1, 2, 2, 3, 3, 4]
    is_race = distance == 2
    assert found.memory.read(whole).tolist() == [
        raced if is_race and engine == "register" else plain
    ]
    program = Program("race", (made,))
    chip = ideal_chip(4, 4, activation={"latency_cycles": 2})
    findings = lint(program, chip, [whole, one])
    assert [finding.code for finding in findings] == ["self-overlap"] * is_race


@pytest.mark.parametrize("rate", [1, 2])
@pytest.mark.parametrize("latency", [1, 2, 3])
@pytest.mark.parametrize("distance", range(1, 9))
def test_a_copy_onto_its_own_source_races_beyond_its_latency(engine, rate, latency, distance):
    """Element i is read in step i // rate, written `latency` later, `distance` places on.

    The last of the sources that is a target too decides: is any read after it was written?
    """
    count = 8
    copy = Copy(
        engine="activation", source=state(0, 1, 0, count),
        target=state(0, 1, 4 * distance, count),
    )  # fmt: skip
    late = any(
        (i + distance) // rate > i // rate + latency for i in range(count) if i + distance < count
    )
    whole = state(0, 1, 0, count + distance)
    values = np.arange(whole.elements, dtype=np.float32)[None, :]
    found = outcome(
        engine, copy, images=[Image(whole, values)], latency_cycles=latency,
        elements_per_cycle=rate,
    )  # fmt: skip
    plain = [*range(distance), *range(count)]
    is_plain = found.memory.read(whole).tolist() == [plain]
    assert is_plain == (not late or engine == "event")
    spec = {"latency_cycles": latency, "elements_per_cycle": rate}
    findings = lint(Program("copy", (copy,)), ideal_chip(4, 4, activation=spec), [whole])
    assert [finding.code for finding in findings] == ["self-overlap"] * late
