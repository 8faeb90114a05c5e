"""Does docs/program_format.md say what the code does?"""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest
from isa.scenes import small_chip

from sim.isa.diagnostic import Code
from sim.isa.lint import lint
from sim.isa.opcodes import OPCODES, Opcode
from sim.isa.text import format_text, parse_text

PAGE = Path(__file__).resolve().parents[2] / "docs" / "program_format.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_example() -> None:
    (example,) = re.findall(r"```\n(systolic program.*?)```", TEXT, re.DOTALL)
    module = parse_text(example)
    assert format_text(module) == example
    chip = small_chip(state_buffer={"bytes_per_partition": 32768})
    assert lint(module.program, chip, module.input_accesses) == []


@pytest.mark.parametrize("opcode", OPCODES, ids=lambda opcode: opcode.mnemonic)
def test_every_operation_is_listed(opcode: Opcode) -> None:
    assert f"{opcode.number} {opcode.mnemonic}" in TEXT
    assert re.search(rf"^\| `{opcode.mnemonic}\b", TEXT, re.MULTILINE)


@pytest.mark.parametrize("code", typing.get_args(Code))
def test_every_finding_is_listed(code: str) -> None:
    assert re.search(rf"^\|.*`{code}`.*\|", TEXT, re.MULTILINE)
