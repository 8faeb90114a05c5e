"""Does docs/engines.md list every key of an engine and of a rate, with its default?"""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from pydantic_core import PydanticUndefined

from support.chips import ideal_chip
from support.documents import ROOT
from systolic.hw.spec import Engine, Rate
from systolic.hw.units import CAPABILITIES, RESERVED

TEXT = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
SAID: dict[str, Any] = {
    '`"overlapped"`': "overlapped",
    "none": (), "both": ("state_buffer", "result_buffer"), "false": False, "all": (), "any": None,
    "anything": (), "any number": None,
    "the first clock": "", "the engine's": None, "what its rate says": None,
}  # fmt: skip


def rows(head: str) -> dict[str, str]:
    """Return, of the table with that head, the default of each key."""
    lines = TEXT[TEXT.index(head) :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {cell[0].strip("`"): cell[2] for cell in cells}


@pytest.mark.parametrize(
    ("head", "model"), [("| key | meaning | default |", Engine), ("| key | it fits if |", Rate)]
)
def test_every_key_with_its_default(head: str, model: Any) -> None:
    listed = rows(head)
    assert listed.keys() == model.model_fields.keys()
    for name, field in model.model_fields.items():
        said = listed[name]
        if said.startswith("needed"):
            assert field.default in (PydanticUndefined, ())
        else:
            default = int(said) if said.isdigit() else SAID[said]
            assert field.default == default or not (field.default or default), name


def test_every_capability_and_every_reserved_word_is_named() -> None:
    for word in (*CAPABILITIES, *RESERVED):
        assert f"`{word}`" in TEXT


def test_the_example_is_a_list_of_engines() -> None:
    (block,) = re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)
    chip = ideal_chip(4, 4, **tomllib.loads(block))
    assert list(chip.lane_engines) == ["vector", "gpsimd"]
