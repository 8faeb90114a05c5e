"""Are rates on time? The steps of section 4 of the timing model, by hand, for both engines.

The engine `v` reads an element in each cycle, and writes it 2 cycles later. Its rates:

1. two operands, both in the result buffer: an element in 3 cycles;
2. a TensorTensor of bf16 in the state buffer: 2 elements in 2 cycles;
3. what is more than 8 bytes apart: an element in 2 cycles;
4. iota: an element in a cycle, 5 cycles before the first.

Where ports of the state buffer are narrow, the engine has one rate, of 4 elements.
"""

from __future__ import annotations

import numpy as np
import pytest

from support.blocks import psum
from support.chips import ideal_chip
from support.compare_traces import assert_same
from systolic.engine_kind import EngineKind
from systolic.hw.spec import Chip
from systolic.isa import (
    Access,
    Buffer,
    Copy,
    Iota,
    OnEngine,
    Pool,
    Program,
    Select,
    TensorTensor,
)
from systolic.isa.engines import pace_of
from systolic.isa.lint.lint import lint
from systolic.machine import Image, simulate
from systolic.trace.words import KINDS

BANK = 8192
RATES = [
    {"operands": ["result_buffer", "result_buffer"], "elements": 1, "cycles": 3},
    {"does": ["tensor_tensor"], "types": ["bf16"], "elements": 2, "cycles": 2,
     "operands": ["state_buffer", "state_buffer"], "target": "state_buffer"},
    {"stride_bytes": 8, "does": ["copy", "pool", "select"], "elements": 1},
    {"does": ["copy", "pool", "select"], "elements": 1, "cycles": 2},
    {"does": ["iota"], "elements": 1, "fixed_cycles": 5},
]  # fmt: skip
V = {
    "does": ["copy", "pool", "tensor_tensor", "iota", "select"], "latency_cycles": 2,
    "rates": RATES,
}  # fmt: skip
CHIP = ideal_chip(4, 4, engines={"v": V})


def at(place: int, count: int, step: int = 1, dtype: str = "f32", bank: int = 0) -> Access:
    return Access(Buffer.STATE, dtype, 0, 4, bank * BANK + place, ((step, count),))


def pair(left: Access, right: Access, target: Access) -> TensorTensor:
    return TensorTensor(engine="v", op="add", left=left, right=right, target=target)


def copy(source: Access, target: Access) -> Copy:
    return Copy(engine="v", source=source, target=target)


# Ticks in which lane 0 reads an element (of all operands, in order) and writes one.
CASES = {
    "near: 4 elements one by one": (
        copy(at(0, 4, 2), at(0, 4, bank=1)), [0, 1, 2, 3], [2, 3, 4, 5], 5),
    "far: each in the second of two cycles": (
        copy(at(0, 4, 3), at(0, 4, bank=1)), [1, 3, 5, 7], [3, 5, 7, 9], 9),
    "a far target counts too": (
        copy(at(0, 3), at(64, 3, -4, bank=1)), [1, 3, 5], [3, 5, 7], 7),
    "the innermost pair of more than one element decides": (
        copy(Access(Buffer.STATE, "f32", 0, 4, 0, ((9, 2), (1, 2), (50, 1))), at(0, 4, bank=1)),
        [0, 1, 2, 3], [2, 3, 4, 5], 5),
    "a window of 2, far": (
        Pool(engine="v", function="max", window=2, source=at(0, 4, 3), target=at(0, 2, bank=1)),
        [1, 3, 5, 7], [5, 9], 9),
    "f32 pairs in two banks, at the engine's own rate": (
        pair(at(0, 3), at(0, 3, bank=1), at(0, 3, bank=2)), [0, 0, 1, 1, 2, 2], [2, 3, 4], 4),
    "f32 pairs in one bank: 3 groups of 2 cycles": (
        pair(at(0, 3), at(256, 3), at(0, 3, bank=2)), [0, 1, 2, 3, 4, 5], [3, 5, 7], 7),
    "bf16 pairs in two banks: both in the second of 2 cycles": (
        pair(at(0, 3, dtype="bf16"), at(0, 3, dtype="bf16", bank=1),
             at(0, 3, dtype="bf16", bank=2)),
        [1, 1, 1, 1, 3, 3], [3, 3, 5], 5),
    "bf16 pairs in one bank: left in the first, right in the second": (
        pair(at(0, 3, dtype="bf16"), at(256, 3, dtype="bf16"), at(0, 3, dtype="bf16", bank=2)),
        [0, 0, 1, 1, 2, 3], [3, 3, 5], 5),
    "a target of another type is not that rate": (
        pair(at(0, 2, dtype="bf16"), at(0, 2, dtype="bf16", bank=1), at(0, 2, bank=2)),
        [0, 0, 1, 1], [2, 3], 3),
    "two operands in the result buffer, one bank: second and third of 3 cycles": (
        pair(psum(0, 4, 0, 2), psum(0, 4, 64, 2), at(0, 2)), [1, 2, 4, 5], [4, 7], 7),
    "two operands in the result buffer, two banks: the third of 3": (
        pair(psum(0, 4, 0, 2), psum(0, 4, 2048, 2), at(0, 2)), [2, 2, 5, 5], [4, 7], 7),
    "one in each buffer, at the engine's own rate": (
        pair(psum(0, 4, 0, 2), at(0, 2), at(0, 2, bank=1)), [0, 0, 1, 1], [2, 3], 3),
    "iota begins late": (Iota(engine="v", target=at(0, 2)), [], [7, 8], 8),
    "select without an operand has no rate of an operand, but a far target": (
        Select(engine="v", compare="equal", value=1, target=at(0, 2, 9)), [], [3, 5], 5),
}  # fmt: skip


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("case", CASES)
def test_steps_by_hand(case: str, engine) -> None:
    instruction, reads, writes, done = CASES[case]
    assert _steps(CHIP, instruction, engine) == (reads, writes, done)


def _steps(chip: Chip, instruction: OnEngine, engine: EngineKind) -> tuple[list[int], ...]:
    """Return the ticks in which lane 0 reads, those in which it writes, and the last of all."""
    found = simulate(chip, Program("steps", (instruction,)), engine=engine, kinds=KINDS)
    rows = [found.trace.words.of(kind).rows for kind in ("read", "write")]
    reads, writes = (sorted(int(r["tick"]) for r in each if r["partition"] == 0) for each in rows)
    (times,) = found.trace.times
    return reads, writes, times.done


def through_ports(cycles: int, port: int) -> Chip:
    """Return a chip with an engine of 4 elements in so many cycles, behind ports of that width."""
    rates = [{"elements": 4, "cycles": cycles}]
    return ideal_chip(4, 4, engines={"v": V | {"rates": rates}}, state_buffer={"port_bytes": port})


def twice(ticks: list[int]) -> list[int]:
    return sorted(ticks * 2)


# 4 elements in `cycles` cycles, and ports of `port` bytes.
THROUGH_PORTS = {
    "all 4 pass: each group in the last of its 2 cycles": (
        2, 16, copy(at(0, 8), at(0, 8, bank=1)), [1] * 4 + [3] * 4),
    "2 pass: at the same rate, a group in each cycle": (
        2, 8, copy(at(0, 8), at(0, 8, bank=1)), twice([0, 1, 2, 3])),
    "1 passes: at the rate of the port": (
        2, 4, copy(at(0, 8), at(0, 8, bank=1)), [*range(8)]),
    "3 pass: 2 1/4 cycles for each 3, so 3, 5 and 7 for 3, 6 and 9": (
        3, 12, copy(at(0, 8), at(0, 8, bank=1)), [2, 2, 2, 4, 4, 4, 6, 6]),
    "2 pass: 2 1/2 cycles for each 2": (
        5, 8, copy(at(0, 8), at(0, 8, bank=1)), twice([2, 4, 7, 9])),
    "results as int8: the result buffer has no such port, and 4 bytes pass": (
        2, 4, copy(psum(0, 4, 0, 8), at(0, 8, dtype="s8")), [1] * 4 + [3] * 4),
    "pairs in two banks: 2 pass in 1 1/2 cycles": (
        3, 8, pair(at(0, 8), at(0, 8, bank=1), at(0, 8, bank=2)), twice([1, 2, 4, 5])),
}  # fmt: skip


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("case", THROUGH_PORTS)
def test_steps_through_ports_by_hand(case: str, engine: EngineKind) -> None:
    cycles, port, instruction, groups = THROUGH_PORTS[case]
    chip = through_ports(cycles, port)
    reads = twice(groups) if isinstance(instruction, TensorTensor) else groups
    written = [tick + 2 for tick in groups]
    assert _steps(chip, instruction, engine) == (reads, written, written[-1])
    assert pace_of(instruction, chip.engine("v"), chip).cycles_for(8) == groups[-1] + 1


@pytest.mark.parametrize("engine", ["event", "register"])
def test_windows_and_turns_through_ports(engine: EngineKind) -> None:
    """A window of 2 is done with its last element; operands in one bank take 2 steps a group."""
    pool = Pool(engine="v", function="max", window=2, source=at(0, 8), target=at(0, 4, bank=1))
    reads = [2, 2, 2, 4, 4, 4, 6, 6]
    assert _steps(through_ports(3, 12), pool, engine) == (reads, [4, 6, 6, 8], 8)
    turns = pair(at(0, 8), at(256, 8), at(0, 8, bank=2))
    written = twice([3, 5, 7, 9])
    assert _steps(through_ports(3, 8), turns, engine) == (twice([*range(8)]), written, 9)


def test_lint_knows_what_passes_a_port() -> None:
    """Near elements, 2 in each cycle: element i is read in i // 2, written in i // 2 + 2.

    Overwritten `shift` elements ahead it is read late if shift // 2 is more than 2, with ports of
    4 bytes (read in i) if shift is.
    """
    for port, late in ((8, [False, False, False, True]), (4, [False, True, True, True])):
        chip = through_ports(2, port)
        for shift, expected in zip((2, 3, 4, 6), late, strict=True):
            program = Program("itself", (copy(at(0, 8), at(4 * shift, 8)),))
            found = [d.code for d in lint(program, chip)]
            assert found == (["self-overlap"] if expected else []), (port, shift)


@pytest.mark.parametrize("engine", ["event", "register"])
def test_the_next_begins_behind_the_last_cycle_of_the_last_group(engine) -> None:
    """3 far elements take cycles 0 to 5, so the next instruction starts in 6; labels say so."""
    first, second = copy(at(0, 3, 3), at(0, 3, bank=1)), copy(at(0, 2), at(64, 2, bank=1))
    found = simulate(CHIP, Program("two", (first, second)), engine=engine)
    assert [(t.start, t.first, t.last, t.done) for t in found.trace.times] == [
        (0, 0, 5, 7), (6, 6, 7, 9),
    ]  # fmt: skip
    assert [(one.first, one.stop, one.label) for one in found.trace.labels["v"]] == [
        (0, 8, "streaming"), (8, 10, "draining"),
    ]  # fmt: skip


def test_what_contends_is_held_back_alike() -> None:
    """Six engines on one bank, each with another rate: both engines give the same records."""
    engines = {
        f"e{n}": {"does": ["copy"], "latency_cycles": 1 + n % 3, "independent_lanes": n % 2 == 0,
                  "rates": [{"elements": 1 + n % 2, "cycles": 1 + n}]}
        for n in range(6)
    }  # fmt: skip
    chip = ideal_chip(4, 4, engines=engines, state_buffer={"banks": 1})
    program = Program("six", tuple(
        Copy(engine=f"e{n % 6}", source=at(64 * n, 9), target=at(4096 + 64 * n, 9))
        for n in range(18)
    ))  # fmt: skip
    event, register = (
        simulate(chip, program, engine=e, kinds=KINDS) for e in ("event", "register")
    )
    assert_same(event, register)
    assert {stall.unit for stall in event.trace.stalls} >= {"e1", "e2", "e3", "e4", "e5"}


@pytest.mark.parametrize(
    ("step", "shift", "late"),
    [
        # Near: element i is read in i, written in i + 2. Far (3 apart): read in 2i + 1, written
        # in 2i + 3. The target begins `shift` elements of the source ahead.
        (1, 2, False), (1, 3, True), (3, 1, False), (3, 2, True),
    ],
)  # fmt: skip
def test_lint_knows_the_rate(step: int, shift: int, late: bool) -> None:
    """A copy onto itself, `shift` elements on: word i + shift is written with i, read with it.

    Near: word i + shift is read in i + shift, and overwritten in i + 2: late from shift 3 on.
    Far: it is read in 2 (i + shift) + 1 and overwritten in 2i + 3: late from shift 2 on.
    """
    size = 4 * step
    program = Program("itself", (copy(at(0, 8, step), at(shift * size, 8, step)),))
    assert [d.code for d in lint(program, CHIP)] == (["self-overlap"] if late else [])


def test_values_are_those_of_any_rate() -> None:
    source = at(0, 4, 3)
    program = Program("far", (copy(source, at(0, 4, bank=1)),))
    found = simulate(CHIP, program, [_numbers(source)])
    assert np.array_equal(found.memory.read(at(0, 4, bank=1)), _numbers(source).values)


def _numbers(access: Access) -> Image:
    values = np.arange(4 * access.elements, dtype=np.float32).reshape(4, -1)
    return Image(access, values)
