"""Does docs/program_format.md say what the code does?"""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest

from support.scenes import small_chip
from systolic.isa.formats.pack import BUFFER_NUMBERS, EVENT_NUMBERS
from systolic.isa.formats.write_text import format_text, parse_text
from systolic.isa.lint.diagnostic import Code
from systolic.isa.lint.lint import lint
from systolic.isa.opcodes import BARE, OPCODES, Kind, Opcode

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


@pytest.mark.parametrize("opcode", OPCODES, ids=lambda opcode: opcode.mnemonic)
def test_its_fields_are_listed_in_order(opcode: Opcode) -> None:
    (row,) = re.findall(rf"^\| `{opcode.mnemonic}\b([^`]*)` \| (.*?) \|$", TEXT, re.MULTILINE)
    bare = [f for f in opcode.fields if f.name in BARE]
    assert len(row[0].split()) == len(bare)
    for field in bare:
        assert row[0].strip() == {"dma_queue": "qN", "engine": "ENGINE"}[field.name]
    named = [field.name for field in opcode.fields if field.name not in BARE]
    assert re.findall(r"`(\w+)`", re.sub(r" \(.*\)", "", row[1])) == named
    flags = [field.name for field in opcode.fields if field.kind is Kind.FLAG]
    assert re.findall(r"flag `(\w+)`", row[1]) == flags


def test_numbers_of_the_binary_form() -> None:
    listed = re.search(r"operation `u8` \((.*?)\)", TEXT)
    assert listed
    assert listed[1] == ", ".join(f"{o.number} {o.mnemonic}" for o in OPCODES)
    events = ", ".join(f"{number} {name}" for name, number in EVENT_NUMBERS.items())
    assert f"event `u8`: {events}" in TEXT
    names = {"state_buffer": "state buffer", "result_buffer": "result buffer", "dram": "DRAM"}
    buffers = ", ".join(f"{n} {names[buffer]}" for buffer, n in BUFFER_NUMBERS.items())
    assert f"buffer `u8` ({buffers})" in TEXT


@pytest.mark.parametrize("code", typing.get_args(Code))
def test_every_finding_is_listed(code: str) -> None:
    assert re.search(rf"^\|.*`{code}`.*\|", TEXT, re.MULTILINE)
