"""Is what `systolic.isa` offers what it means to offer, documented, and no module by accident?"""

from __future__ import annotations

import inspect
import re
import types
from pathlib import Path

import pytest

from systolic import isa
from systolic.isa import instruction
from systolic.isa.opcodes import OPCODES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "program_format.md"
SECTION = PAGE.read_text(encoding="utf-8").split("## From Python")[1].split("\n## ")[0]


@pytest.mark.parametrize("name", isa.__all__)
def test_each_name_is_there_and_documented(name: str) -> None:
    value = getattr(isa, name)
    assert not isinstance(value, types.ModuleType), "a module of the same name hides it"
    assert f"`{name}`" in SECTION, "docs/program_format.md does not say what it is"
    if inspect.isclass(value) or inspect.isfunction(value):
        assert (inspect.getdoc(value) or "").strip()


def test_the_page_lists_nothing_else() -> None:
    table = [line.split("|")[1] for line in SECTION.splitlines() if line.startswith("| `")]
    listed = {name for cell in table for name in re.findall(r"`(\w+)`", cell)}
    assert listed == set(isa.__all__)


def test_names_are_sorted_and_all_instructions_among_them() -> None:
    assert instruction.__all__ == sorted(instruction.__all__)
    others = isa.__all__[: -len(instruction.__all__)]
    assert isa.__all__ == [*sorted(others), *instruction.__all__]
    assert {opcode.cls.__name__ for opcode in OPCODES} <= set(isa.__all__)


def test_nothing_public_is_left_out() -> None:
    """Every class and function the package brought in is offered."""
    brought = {
        name
        for name, value in vars(isa).items()
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value))
    }
    assert brought <= set(isa.__all__)
