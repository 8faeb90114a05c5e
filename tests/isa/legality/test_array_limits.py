"""Is a multiply of too many vectors refused, and one that adds to a group that is closed?"""

from __future__ import annotations

from typing import Any

import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.errors import ProgramError
from systolic.hw.spec import Chip
from systolic.isa import LoadWeights, MatMul, Program, check_program

LOAD = LoadWeights(weights=state(0, 4, 0, 4))
BANK_WORDS = 16


def chip_of(groups: int | None = 1, **array: Any) -> Chip:
    banks = {"banks": 4, "bank_bytes": 4 * BANK_WORDS, "groups_per_bank": groups}
    return ideal_chip(4, 4, result_buffer=banks, pe_array=array)


def begin(row: int, vectors: int = 4, cols: int = 4, *, add: bool = False) -> MatMul:
    return MatMul(
        moving=state(0, 4, 8192, vectors), result=psum(0, cols, row, vectors), accumulate=add
    )


def add(row: int, vectors: int = 4, cols: int = 4) -> MatMul:
    return begin(row, vectors, cols, add=True)


def refusal(chip: Chip, *multiplies: MatMul) -> str:
    with pytest.raises(ProgramError) as caught:
        check_program(Program("p", (LOAD, *multiplies)), chip)
    return str(caught.value)


A, B, C, ELSEWHERE = 0, 4, 8, BANK_WORDS
"""Rows of three groups in bank 0, and of one in bank 1."""


@pytest.mark.parametrize(
    ("groups", "multiplies"),
    [
        (1, (begin(A), add(A), add(A), begin(B), add(B))),
        (1, (begin(A), begin(ELSEWHERE), add(A), add(ELSEWHERE))),  # one in each bank
        (1, (begin(A, 8), add(A), add(A + 4), add(A + 1, 2, 3))),  # parts of the group
        (2, (begin(A), begin(B), add(A), add(B))),
        (None, (add(A), begin(A), begin(B), begin(C), add(A))),
    ],
)
def test_legal(groups: int | None, multiplies: tuple[MatMul, ...]) -> None:
    check_program(Program("p", (LOAD, *multiplies)), chip_of(groups))


@pytest.mark.parametrize(
    ("groups", "multiplies"),
    [
        (1, (add(A),)),  # words that an engine may have written, and no multiply
        (1, (begin(A), begin(B), add(A))),
        (1, (begin(A), add(B))),
        (1, (begin(A), add(A, 5))),  # a word more than was begun
        (1, (begin(A, 4, 3), add(A, 4, 4))),  # a column more
        (2, (begin(A), begin(B), begin(C), add(A))),
    ],
)
def test_refused(groups: int, multiplies: tuple[MatMul, ...]) -> None:
    text = refusal(chip_of(groups), *multiplies)
    assert text.startswith(f"p: instruction {len(multiplies)} (MatMul): result: adds to bytes ")


def test_the_message_names_the_open_groups_and_the_legal_choice() -> None:
    assert refusal(chip_of(), begin(A), begin(B), add(A)) == (
        "p: instruction 3 (MatMul): result: adds to bytes 0 to 16, which no open accumulation "
        "group of bank 0 holds (open: bytes 16 to 32 of it; a bank keeps 1); a group is begun by a "
        "multiply without accumulate, and finished before the bank begins the next"
    )


def test_vectors() -> None:
    chip = chip_of(moving_max=6)
    check_program(Program("p", (LOAD, begin(A, 6))), chip)
    assert refusal(chip, begin(A, 7)) == (
        "p: instruction 1 (MatMul): moving: a multiply takes at most 6 vectors "
        "(pe_array.moving_max), found 7"
    )


def test_the_least_that_a_chip_may_allow() -> None:
    assert chip_of(moving_max=4).multiply_vectors == 4
    assert chip_of(moving_max=400).multiply_vectors == BANK_WORDS
    with pytest.raises(ValueError, match=r"moving_max \(3\) is less than rows \(4\)"):
        chip_of(moving_max=3)
