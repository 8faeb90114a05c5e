"""Do the compiled loops call clean only what is, and do they see that nearly all that is, is?

The oracle of whole programs is the pass that makes the findings; that of single sets of bytes are
sets of numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest

from support.blocks import psum
from support.chips import ideal_chip
from support.racy import RacyProgram, Shape
from support.random_programs import RandomProgram, random_chip
from support.runs import compile_transpose
from systolic.compiler import Options
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, Memset, Post, Program, Wait
from systolic.isa.effects import effects_of
from systolic.isa.lint import races
from systolic.isa.lint.before import Before
from systolic.isa.lint.guarantees import Structure
from systolic.isa.lint.order import Order
from systolic.isa.lint.proof import is_clean
from systolic.isa.lint.races import find_hazards
from systolic.isa.lint.untimed import execute
from systolic.run.tensors import initial_accesses

LANES, ROOM = 6, 64


@pytest.fixture(autouse=True)
def _no_loops_in_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(races, "WORK", races.Checked(many=1 << 40))


def verdicts(program: Program, chip: Chip, inputs: Iterable[Access] | None) -> tuple[bool, bool]:
    """Return whether the loops, and whether the pass, call a program clean."""
    execution, effects = execute(program, chip), effects_of(program)
    assert not execution.stuck
    order = Order(Structure.of(program, chip), execution.order)
    given = None if inputs is None else list(inputs)
    proven = is_clean(order, Before(order), execution.order, effects, given)
    return proven, not find_hazards(program, chip, execution.order, effects, given)


def test_nothing_that_has_findings_is_called_clean() -> None:
    both = []
    for seed in range(1200):
        rng = Random(seed)
        shape = Shape.draw(rng)
        program, chip = RacyProgram(rng, shape).build(), shape.chip(rng)
        memory = [
            Access(Buffer.STATE, "f32", 0, shape.partitions, 0, ((1, rng.choice([9, 16])),)),
            Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, 16),)),
        ]
        both.append(verdicts(program, chip, memory if seed % 2 else None))
    assert not [each for each in both if each == (True, False)]
    assert both.count((True, True)) > 150
    assert both.count((False, True)) < 10, "the loops leave hardly anything open for good"


@pytest.mark.parametrize("seed", range(12))
def test_programs_without_races_and_with_a_wait_less(seed: int) -> None:
    rng = Random(seed)
    chip = random_chip(rng, clocks=seed % 2 == 0, engines=seed % 4 > 1)
    made = RandomProgram(rng, chip, elementwise=seed % 4 > 1, later=seed % 4 == 3)
    program, contents = made.build(60)
    inputs = [image.access for image in contents]
    assert verdicts(program, chip, inputs) == (True, True)
    waiting = [n for n, each in enumerate(program.instructions) if each.waits]
    for index in rng.sample(waiting, min(4, len(waiting))):
        work = list(program.instructions)
        work[index] = replace(work[index], waits=work[index].waits[1:])
        proven, clean = verdicts(replace(program, instructions=tuple(work)), chip, inputs)
        assert proven <= clean


@pytest.mark.parametrize("drain", ["block", "row", "partition"])
def test_compiled_programs_are_proven(drain: str) -> None:
    chip = ideal_chip(16, 8)
    result = compile_transpose("f32[40,30]", (1, 0), chip, Options(drain=drain), "dram")
    assert verdicts(result.program, chip, initial_accesses(result)) == (True, True)


# -- sets of bytes --------------------------------------------------------------------------------


def drawn(rng: Random, buffer: Buffer, elements: int | None = None) -> Access:
    """Return an access of so many elements with gaps, most of them, some of which repeat."""
    while True:
        pairs = [(rng.randint(1, 16), rng.randint(1, 5)) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.3:
            pairs[-1] = (1, rng.randint(1, 24))
        access = Access(buffer, "s8", 0, 1, rng.randrange(ROOM), tuple(pairs))
        first = rng.randrange(LANES) if buffer is Buffer.STATE else 0
        lanes = rng.randint(1, LANES - first) if buffer is Buffer.STATE else 1
        access = replace(access, partition=first, partitions=lanes)
        if access.span.stop <= ROOM and elements in (None, lanes * access.elements):
            return access


def touched(access: Access) -> set[tuple[int, int]]:
    lanes = range(access.lanes.first, access.lanes.stop)
    return {(lane, byte) for lane in lanes for byte in access.offsets().tolist()}


def copies(*pairs: tuple[Access, Access]) -> Program:
    """Return copies, each by a queue of its own, that wait for nothing."""
    work = [DmaCopy(dma_queue=n, source=a, target=b) for n, (a, b) in enumerate(pairs)]
    return Program("copies", tuple(work))


def filled(access: Access, start: int) -> Access:
    """Return as many elements of DRAM in a row, behind all others."""
    count = access.partitions * access.elements
    return Access(Buffer.DRAM, "s8", 0, 1, start, ((1, count),))


CHIP = ideal_chip(LANES, LANES, dma={"queues": 2}, dram={"size_bytes": 1 << 16})


def test_two_writes_meet_if_they_have_a_byte_in_common() -> None:
    rng, meeting = Random(7), 0
    for _ in range(1500):
        one, other = drawn(rng, Buffer.STATE), drawn(rng, Buffer.STATE)
        program = copies((filled(one, 1000), one), (filled(other, 9000), other))
        meets = bool(touched(one) & touched(other))
        assert verdicts(program, CHIP, None) == (not meets, not meets), (one, other)
        meeting += meets
    assert 300 < meeting < 1200


def test_a_read_is_covered_if_every_byte_of_it_is_written() -> None:
    rng, covered = Random(8), 0
    for _ in range(1500):
        wanted = drawn(rng, Buffer.STATE)
        written = [drawn(rng, Buffer.STATE) for _ in range(rng.randint(1, 30))]
        program = copies((wanted, filled(wanted, 1000)))
        has_all = touched(wanted) <= set().union(*map(touched, written))
        assert verdicts(program, CHIP, written) == (has_all, has_all), (wanted, written)
        covered += has_all
    assert 100 < covered < 1400


def test_a_read_that_a_later_write_covers_no_longer_counts() -> None:
    """Of two reads of a place the second one is waited for: then the first is open still."""
    place = Access(Buffer.STATE, "s8", 0, 1, 0, ((1, 4),))
    first = DmaCopy(dma_queue=0, source=place, target=filled(place, 1000))
    second = DmaCopy(dma_queue=1, source=place, target=filled(place, 2000), posts=(Post(0),))
    over = DmaCopy(dma_queue=2, source=filled(place, 0), target=place, waits=(Wait(0, 1),))
    chip = ideal_chip(4, 4, dma={"queues": 3}, dram={"size_bytes": 1 << 16})
    inputs = [place, filled(place, 0)]
    assert verdicts(Program("x", (first, second, over), ("s",)), chip, inputs) == (False, False)
    ordered = replace(first, dma_queue=1)
    assert verdicts(Program("x", (ordered, second, over), ("s",)), chip, inputs) == (True, True)


@pytest.mark.parametrize("one", [psum(0, 2, 0, 2), psum(0, 4, 0, 2)])
@pytest.mark.parametrize("other", [psum(2, 2, 0, 2), psum(0, 4, 2, 2)])
def test_a_result_beside_another_overwrites_none(one: Access, other: Access) -> None:
    """Neither is read; those that meet are overwritten unread, whichever comes first."""
    meets = bool(touched(one) & touched(other))
    for targets in ((one, other), (other, one)):
        work = tuple(Memset(engine="pooling", target=each, value=1) for each in targets)
        assert verdicts(Program("x", work), CHIP, []) == (not meets, not meets)


# -- when they are used ---------------------------------------------------------------------------


def test_loops_are_for_processes_that_check_much() -> None:
    work = races.Checked(many=100)
    assert [work.is_much(40), work.is_much(40), work.is_much(40)] == [False, False, True]


def test_findings_are_those_of_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(40):
        rng = Random(seed)
        shape = Shape.draw(rng)
        program, chip = RacyProgram(rng, shape).build(), shape.chip(rng)
        order, effects = execute(program, chip).order, effects_of(program)
        monkeypatch.setattr(races, "WORK", races.Checked(many=0))
        with_loops = find_hazards(program, chip, order, effects, None)
        monkeypatch.setattr(races, "WORK", races.Checked(many=1 << 40))
        assert with_loops == find_hazards(program, chip, order, effects, None)


def test_an_access_of_too_many_pairs_is_left_to_the_pass() -> None:
    wide = Access(Buffer.DRAM, "s8", 0, 1, 0, tuple((3**n, 2) for n in range(6, 0, -1)))
    read = Access(Buffer.DRAM, "s8", 0, 1, 0, ((3, 2),))
    target = Access(Buffer.STATE, "s8", 0, 1, 0, ((1, 2),))
    assert verdicts(copies((read, target)), CHIP, [wide]) == (False, True)


@pytest.mark.white_box
def test_without_numba_the_pass_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(races, "WORK", races.Checked(many=0))
    monkeypatch.setitem(sys.modules, "systolic.isa.lint.proof", None)
    target = Access(Buffer.STATE, "s8", 0, 1, 0, ((1, 4),))
    program = copies((filled(target, 1000), target), (filled(target, 2000), target))
    found = find_hazards(program, CHIP, (0, 1), effects_of(program), None)
    assert [each.code for each in found] == ["write-after-write"]
