"""Does it run? A program that was found legal is not looked through again, any other one is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.chips import ideal_chip
from systolic.errors import ProgramError
from systolic.isa import Access, Buffer, LoadWeights, Program, check_program
from systolic.isa.legality import program as legality


@pytest.fixture
def looked_at(monkeypatch):
    """Return the list of the instructions that the check looks at from now on."""
    found = []
    check = legality._check_instruction

    def note(instruction, chip, forms):
        found.append(instruction)
        check(instruction, chip, forms)

    monkeypatch.setattr(legality, "_check_instruction", note)
    return found


def load(columns: int) -> Program:
    weights = Access(Buffer.STATE, "bf16", 0, 4, 0, ((1, columns),))
    return Program("one", (LoadWeights(weights=weights),))


def test_the_program_that_was_found_legal_last_is_not_looked_through_again(looked_at):
    chip, program = ideal_chip(4, 4), load(4)
    for _ in range(3):
        check_program(program, chip)
    assert len(looked_at) == 1
    check_program(load(4), chip)  # an equal one is another one
    check_program(program, chip)
    assert len(looked_at) == 3


def test_another_chip_is_asked_again(looked_at):
    program = load(8)
    check_program(program, ideal_chip(8, 8))
    with pytest.raises(ProgramError, match="array columns"):
        check_program(program, ideal_chip(4, 4))
    assert len(looked_at) == 2


def test_an_illegal_program_stays_illegal(looked_at):
    chip, program = ideal_chip(4, 4), load(5)
    for _ in range(2):
        with pytest.raises(ProgramError):
            check_program(program, chip)
    assert len(looked_at) == 2


def test_a_program_that_is_gone_is_not_taken_for_a_new_one(looked_at):
    chip = ideal_chip(4, 4)
    for _ in range(4):
        check_program(replace(load(4), name="new"), chip)  # often at the same place in memory
    assert len(looked_at) == 4
