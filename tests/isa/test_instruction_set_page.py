"""Does docs/instruction_set.md say what the code does?"""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest

from sim.isa import Program
from sim.isa.check import check_program
from sim.isa.instruction import Comparison, Function, Operation, Reduction
from sim.isa.opcodes import OPCODES, Opcode
from sim.isa.text import format_instruction, parse_text
from support.chips import ideal_chip

PAGE = Path(__file__).resolve().parents[2] / "docs" / "instruction_set.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = [line for block in re.findall(r"```\n(.*?)```", TEXT, re.DOTALL)
            for line in block.splitlines()]  # fmt: skip
SEMAPHORES = 'systolic program 1\nsemaphore s0 "a"\nsemaphore s1 "b"\n'


@pytest.mark.parametrize("opcode", OPCODES, ids=lambda opcode: opcode.mnemonic)
def test_every_operation_is_listed(opcode: Opcode) -> None:
    assert re.search(rf"^\| {opcode.number} \| `{opcode.mnemonic}`", TEXT, re.MULTILINE)


@pytest.mark.parametrize(
    "name", [n for table in (Function, Operation, Comparison, Reduction)
             for n in typing.get_args(table)]
)  # fmt: skip
def test_every_name_is_explained(name: str) -> None:
    assert re.search(rf"^\| (`\w+` )*`{name}`( `\w+`)* \|", TEXT, re.MULTILINE)


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_are_canonical_and_legal(line: str) -> None:
    program = parse_text(SEMAPHORES + line).program
    (instruction,) = program.instructions
    assert format_instruction(instruction) == line
    check_program(Program("page", (instruction,), program.semaphores), ideal_chip(128, 64))
