"""Is a program without findings really free of races? Then timing must not change its values.

Random programs, most of them racy, are run by both engines on chips that differ in timing only. The
event engine moves an instruction's values all at once, the register engine word by word.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from support.racy import RacyProgram, Shape, images, outcome
from support.random_programs import RandomProgram, random_chip
from support.tiers import quick_first
from systolic.hw.spec import Chip
from systolic.isa import Program
from systolic.isa.lint.lint import lint

TIMINGS = 4
Scene = tuple[Shape, Program, list[Chip], set[str]]


def scenes(seeds: range) -> Iterator[Scene]:
    """Yield programs, chips, and the codes of what is found on any of the chips."""
    for seed in seeds:
        rng = Random(seed)
        shape = Shape.draw(rng)
        program = RacyProgram(rng, shape).build()
        chips = [shape.chip(rng) for _ in range(TIMINGS)]
        found = {d.code for chip in chips for d in lint(program, chip) if d.severity == "error"}
        yield shape, program, chips, found - {"undrained"}


def outcomes(shape: Shape, program: Program, chips: list[Chip]) -> set[bytes]:
    contents = images(shape)
    return {
        outcome(chip, program, contents, engine)
        for chip in chips
        for engine in ("event", "register")
    }


@pytest.mark.parametrize("block", quick_first(range(4), 2))
def test_clean_programs_give_one_result(block: int) -> None:
    clean = 0
    for shape, program, chips, found in scenes(range(block * 100, block * 100 + 100)):
        if not found:
            clean += 1
            assert len(outcomes(shape, program, chips)) == 1, program
    assert clean > 15


def test_races_are_real() -> None:
    """The same generator makes programs whose values depend on timing: the above can fail."""
    differing = 0
    for shape, program, chips, found in scenes(range(1000, 1100)):
        if found:
            differing += len(outcomes(shape, program, chips)) > 1
    assert differing > 10


@pytest.mark.parametrize("block", quick_first(range(4), 2))
def test_programs_made_without_races_are_clean(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        rng = Random(seed)
        chip = random_chip(rng, clocks=seed % 2 == 0, engines=seed % 4 > 1)
        made = RandomProgram(rng, chip, elementwise=seed % 4 > 1, later=seed % 4 == 3)
        program, contents = made.build(60)
        found = lint(program, chip, [image.access for image in contents])
        assert [str(d) for d in found if d.severity != "hint"] == []
