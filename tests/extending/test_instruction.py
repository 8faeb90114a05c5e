"""docs/extending.md, "An instruction": a toy one, added through the public tables."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from itertools import product
from types import ModuleType

import numpy as np
import pytest

from support.blocks import state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from systolic.errors import ProgramError
from systolic.hw import units
from systolic.hw.spec import Chip
from systolic.isa import (
    Access,
    Copy,
    MatMul,
    Module,
    OnEngine,
    Program,
    check_program,
    decode,
    encode,
    format_text,
    lint,
    opcodes,
    parse_text,
)
from systolic.isa.lint import self_overlap
from systolic.isa.opcodes import (
    BY_CLASS,
    BY_MNEMONIC,
    BY_NUMBER,
    Operands,
    Rhythm,
    opcode,
    operands,
)
from systolic.machine import Image, simulate
from systolic.machine.event.lane_engine import plan as event_plan
from systolic.machine.register.lane_engine import plan as register_plan
from systolic.machine.values import lanes
from systolic.report.summary.summarize import summarize
from systolic.trace.words import KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Blend(OnEngine):
    """target = left + weight * right, the weight one per lane or a number."""

    left: Access
    right: Access
    weight: Access | float
    target: Access


PARTS = operands("left right", "target", Rhythm.PAIRED, per_lane=("weight",))
BANK = 8192
LEFT, RIGHT, TARGET = (state(0, 4, bank * BANK, 6) for bank in (0, 1, 2))
NEAR, WEIGHT = state(0, 4, 256, 6), state(0, 4, 3 * BANK, 1)


def toy_chip(**pooling: int) -> Chip:
    """Return a chip whose pooling engine does the instruction: a word more in `Capability`."""
    plain = ideal_chip(4, 4, pooling=pooling)
    able = plain.engine("pooling").model_copy(update={"does": ("blend",)})
    return plain.model_copy(update={"pooling": able})


CHIP = toy_chip(elements_per_cycle=2, latency_cycles=3)


@pytest.fixture(autouse=True)
def _blend(monkeypatch):
    row = opcode(99, "blend", Blend, PARTS)
    for table, key in ((BY_CLASS, Blend), (BY_MNEMONIC, "blend"), (BY_NUMBER, 99)):
        monkeypatch.setitem(table, key, row)
    monkeypatch.setitem(lanes._COMPUTE, Blend, _compute)


def _compute(blend: Blend, found: lanes.OperandValues):
    left, right = found.elements
    weight = found.per_lane[0] if found.per_lane else np.float32(blend.weight)
    return left + weight * right


def blend(right: Access = RIGHT, weight: Access | float = 0.5, target: Access = TARGET) -> Program:
    made = Blend(engine="pooling", left=LEFT, right=right, weight=weight, target=target)
    return Program("toy", (made,))


CASES = [blend(right, weight) for right, weight in product((RIGHT, NEAR), (0.5, WEIGHT))]


@pytest.mark.parametrize("program", CASES)
def test_text_and_binary_form(program):
    module = Module(program)
    assert parse_text(format_text(module)).program == program
    assert decode(encode(module)).program == program


def test_legality_and_lint():
    program = blend(weight=WEIGHT)
    assert lint(program, CHIP, [LEFT, RIGHT, WEIGHT]) == []
    assert [d.code for d in lint(program, CHIP, [LEFT, RIGHT])] == ["unwritten"]
    late, quick = state(0, 4, 16, 6), toy_chip()
    assert [d.code for d in lint(blend(target=late), quick)] == ["self-overlap"]
    with pytest.raises(ProgramError, match="weight: needed one element in each of 4 partitions"):
        check_program(blend(weight=RIGHT), CHIP)
    with pytest.raises(ProgramError, match="left has 4 x 6 elements, target 4 x 1"):
        check_program(blend(target=WEIGHT), CHIP)


@pytest.mark.parametrize("program", CASES)
def test_both_engines_and_the_summary(program):
    """In one bank the two operands take turns; with a weight in memory they begin a slot later."""
    (made,) = program.instructions
    rng = np.random.default_rng(1)
    values = {
        access: rng.random((4, access.elements), np.float32)
        for access in (LEFT, made.right, WEIGHT)
    }
    images = [Image(access, value) for access, value in values.items()]
    event, register = (
        simulate(CHIP, program, images, engine=engine, kinds=KINDS)
        for engine in ("event", "register")
    )
    assert_same(event, register)
    weight = values[WEIGHT] if made.weight is WEIGHT else np.float32(0.5)
    assert np.array_equal(event.memory.read(TARGET), values[LEFT] + weight * values[made.right])
    (times,) = event.trace.times
    slots = (made.weight is WEIGHT) + 3 * (1 + (made.right is NEAR))
    assert (times.first, times.last, times.done) == (0, slots - 1, slots - 1 + 3)
    summary = summarize(
        run="toy", chip=CHIP, engine="event", trace=event.trace, instructions=program.count()
    )
    assert summary["instructions"] == {"Blend": 1}


# -- what fails at import --------------------------------------------------------------------------


def again(module: ModuleType, monkeypatch) -> None:
    """Execute a module's file once more, under another name."""
    assert module.__file__ is not None
    spec = importlib.util.spec_from_file_location("again", module.__file__)
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "again", fresh)
    spec.loader.exec_module(fresh)


def test_a_table_without_the_instruction_fails_at_import(monkeypatch):
    with pytest.raises(TypeError, match="has no row for Blend"):
        again(lanes, monkeypatch)


def test_a_capability_without_an_instruction_fails_at_import(monkeypatch):
    monkeypatch.setattr(units, "CAPABILITIES", (*units.CAPABILITIES, "blend"))
    with pytest.raises(TypeError, match="CAPABILITIES has a row for what does not exist: blend"):
        again(opcodes, monkeypatch)


@pytest.mark.parametrize("module", [self_overlap, event_plan, register_plan])
def test_a_table_without_a_rhythm_fails_at_import(module, monkeypatch):
    asked = opcodes.require_rows

    def ask_for_more(table, found, needed):
        asked(table, found, [*needed, "HALTING"])

    monkeypatch.setattr(opcodes, "require_rows", ask_for_more)
    with pytest.raises(TypeError, match="has no row for HALTING"):
        again(module, monkeypatch)


@pytest.mark.parametrize(
    ("cls", "parts", "text"),
    [
        (Blend, operands("left", "target", Rhythm.PAIRED), "blend: right stands 0 times in reads"),
        (Blend, operands("left right left weight", "target"), "blend: left stands 2 times"),
        (Blend, Operands(reads=("left", "right", "weight", "queue")), "target stands 0 times"),
        (Blend, operands("left right weight sum", "target"), "sum, in its row in OPCODES, is no"),
        (Blend, operands("left right", "target weight"), "weight, in its row in OPCODES, is no"),
        (Blend, operands("left right weight", "target"), "instructions of engines, and no others"),
        (MatMul, operands("moving", "result", Rhythm.PAIRED), "instructions of engines, and no"),
        (Copy, operands("source", "target", Rhythm.PAIRED), "PAIRED does not fit its operands"),
        (Copy, operands("source", "target", Rhythm.WINDOWED), "WINDOWED instructions, and no"),
        (Copy, operands("source", "target", Rhythm.BESIDE), "BESIDE instructions, and no others"),
        (
            Copy,
            operands("source", "target", Rhythm.ELEMENTWISE, made=2),
            "BLOCKWISE instructions, and no others",
        ),
    ],
)
def test_a_row_that_does_not_fit_its_fields_fails_at_import(cls, parts, text):
    with pytest.raises(TypeError, match=text):
        opcode(99, cls.__name__.lower(), cls, parts)
