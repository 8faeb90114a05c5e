"""Is an operation on two tensors that overwrites its own operand found, and no other?

The register engine reads element by element, so it gives other values than reading everything
first exactly where a word is read after it was overwritten. All places of a small target are tried.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from support.chips import able_chip, ideal_chip
from systolic.isa import Access, Buffer, FindIndex8, MatchReplace8, Program, TensorTensor
from systolic.isa.lint.lint import lint
from systolic.machine import Image, simulate

WORDS, COUNT, LEFT, RIGHT = 32, 4, 8, 16


def words(first: int, step: int = 1, count: int = COUNT) -> Access:
    return Access(Buffer.STATE, "f32", 0, 1, 4 * first, ((step, count),))


def values_differ(chip, instruction: TensorTensor, target: np.ndarray) -> bool:
    """Run it, and compare with a target made of operands that were read before anything else."""
    before = np.arange(1, WORDS + 1, dtype=np.float32) ** 2
    expected = before.copy()
    expected[target] = before[LEFT : LEFT + COUNT] - before[RIGHT : RIGHT + COUNT]
    everything = words(0, count=WORDS)
    program = Program("pair", (instruction,), ())
    image = Image(everything, before[None, :].copy())
    memory = simulate(chip, program, [image], engine="register").memory
    return not np.array_equal(memory.read(everything)[0], expected)


@pytest.mark.parametrize("rate", [1, 2])
@pytest.mark.parametrize("banks", [1, 2])
def test_a_pair_that_overwrites_its_operand(rate, banks):
    """In one bank the two operands take turns; with two, both are read at once."""
    wrong = sum(count_wrong(rate, banks, latency) for latency in (1, 2, 3, 5))
    assert wrong > 0 or banks == 2


def count_wrong(rate: int, banks: int, latency: int) -> int:
    """Hold lint's findings against the values for every target; return how many are wrong."""
    chip = ideal_chip(
        4, 4,
        state_buffer={"partitions": 4, "bytes_per_partition": 4 * WORDS, "banks": banks},
        pooling={"latency_cycles": latency, "elements_per_cycle": rate},
    )  # fmt: skip
    wrong = 0
    for place, step in product(range(WORDS - COUNT + 1), (1, -1)):
        first = place if step > 0 else place + COUNT - 1
        pair = TensorTensor(
            engine="pooling", op="subtract",
            left=words(LEFT), right=words(RIGHT), target=words(first, step),
        )  # fmt: skip
        differs = values_differ(chip, pair, first + step * np.arange(COUNT))
        found = {d.code for d in lint(Program("pair", (pair,), ()), chip)}
        wrong += differs
        if banks == 1:
            assert ("self-overlap" in found) == differs, (place, step)
        else:  # what is found may need a timing that this chip excludes, but nothing is missed
            assert "self-overlap" in found or not differs, (place, step)
    return wrong


MANY, SEARCHED, EIGHT = 64, 12, 48
"""A lane of so many words, its source of so many from word 16 on, and where eight values are."""


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1, 2, 3])
@pytest.mark.parametrize("banks", [1, 4])
@pytest.mark.parametrize("cls", [MatchReplace8, FindIndex8])
def test_a_search_that_overwrites_what_it_searches(cls, rate, banks):
    """Of a search for indices all is read before anything is written."""
    wrong = sum(count_wrong_searches(cls, rate, banks, latency) for latency in (1, 2))
    if cls is FindIndex8:
        assert wrong == 0
    else:
        assert wrong > 0 or rate == 3  # which has read too much by its first write


def count_wrong_searches(cls: type, rate: int, banks: int, latency: int) -> int:
    """Hold lint's findings against the values for every target; return how many are wrong."""
    chip = able_chip(
        4, 4,
        state_buffer={"partitions": 4, "bytes_per_partition": 4 * MANY, "banks": banks},
        pooling={"latency_cycles": latency, "elements_per_cycle": rate},
    )  # fmt: skip
    before = np.arange(1, MANY + 1, dtype=np.float32) ** 2
    before[EIGHT : EIGHT + 8] = before[[17, 19, 20, 22, 24, 25, 26, 27]]
    source, values = words(16, count=SEARCHED), words(EIGHT, count=8)
    if cls is FindIndex8:
        made = np.array([1, 3, 4, 6, 8, 9, 10, 11], np.int32).view(np.float32)
    else:
        at = np.arange(16, 16 + SEARCHED)
        made = np.where(np.isin(at, [17, 19, 20, 22, 24, 25, 26, 27]), -1, before[at])
    wrong = 0
    for first in range(MANY - len(made) + 1):
        target = words(first, count=len(made))
        settings = {"other": -1.0} if cls is MatchReplace8 else {}
        if cls is FindIndex8:
            target = replace(target, dtype="s32")
        search = cls(engine="pooling", source=source, values=values, target=target, **settings)
        program = Program("search", (search,))
        image = Image(words(0, count=MANY), before[None, :].copy())
        memory = simulate(chip, program, [image], engine="register").memory
        expected = before.copy()
        expected[first : first + len(made)] = made
        differs = memory.read(image.access).tobytes() != expected.tobytes()
        found = {d.code for d in lint(program, chip, [image.access])}
        assert "self-overlap" in found or not differs, first
        wrong += differs
    return wrong
