"""docs/extending.md, "An activation function": a toy one, added through its two tables."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from support.blocks import state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from systolic.isa import (
    Activate,
    ActivationFunction,
    Module,
    Program,
    decode,
    encode,
    format_text,
    lint,
    parse_text,
)
from systolic.isa.opcodes import BY_CLASS, BY_MNEMONIC, BY_NUMBER, require_rows
from systolic.machine import Image, simulate
from systolic.machine.values import activation_functions
from systolic.report.summary.summarize import summarize
from systolic.trace.words import KINDS

SOURCE, TARGET = state(0, 4, 0, 6), state(0, 4, 8192, 6)
CHIP = ideal_chip(4, 4)
# What text, binary and legality make of a word comes from the type of its field alone, so that a
# word that is in no Literal is enough here.
TRIPLE = Program("toy", (Activate(function="triple", source=SOURCE, target=TARGET),))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _triple(monkeypatch):
    row = BY_CLASS[Activate]
    fields = tuple(
        replace(field, words=(*field.words, "triple")) if field.name == "function" else field
        for field in row.fields
    )
    toy = replace(row, fields=fields)
    for table, key in ((BY_CLASS, Activate), (BY_MNEMONIC, "activate"), (BY_NUMBER, row.number)):
        monkeypatch.setitem(table, key, toy)
    function = activation_functions.RealFunction(lambda x: 3 * x)
    monkeypatch.setitem(activation_functions.FUNCTIONS, "triple", function)


def test_text_binary_and_lint_know_it():
    module = Module(TRIPLE)
    assert "function=triple" in format_text(module)
    assert parse_text(format_text(module)).program == TRIPLE
    assert decode(encode(module)).program == TRIPLE
    assert lint(TRIPLE, CHIP, [SOURCE]) == []


def test_both_engines_and_the_summary_know_it():
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    event, register = (
        simulate(CHIP, TRIPLE, [Image(SOURCE, values)], engine=engine, kinds=KINDS)
        for engine in ("event", "register")
    )
    assert_same(event, register)
    assert np.array_equal(event.memory.read(TARGET), 3 * values)
    summary = summarize(
        run="toy", chip=CHIP, engine="event", trace=event.trace, instructions=TRIPLE.count()
    )
    assert summary["instructions"] == {"Activate": 1}


def test_a_word_without_a_function_fails_at_import():
    with pytest.raises(TypeError, match=r"^FUNCTIONS has no row for silly$"):
        require_rows("FUNCTIONS", ["tanh"], ["tanh", "silly"])
    with pytest.raises(TypeError, match="has a row for what does not exist: triple"):
        require_rows("FUNCTIONS", activation_functions.FUNCTIONS, get_args(ActivationFunction))
