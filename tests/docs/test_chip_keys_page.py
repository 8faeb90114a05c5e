"""Is docs/chip_keys.md what the models of chip files say, and does it have every key?"""

from __future__ import annotations

import re
import tomllib

import pytest

from support.chip_keys import page
from support.documents import ROOT

PAGE = ROOT / "docs" / "chip_keys.md"
TABLES = ("pe_array", "state_buffer", "result_buffer", "dma", "dram", "fetch", "access")


def test_the_page_is_as_the_models_say(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-docs"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_key_of_a_shipped_chip_is_on_the_page() -> None:
    """The chips' own files know nothing of the models."""
    rows = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    for path in (ROOT / "configs" / "chips").glob("*.toml"):
        chip = tomllib.loads(path.read_text(encoding="utf-8"))
        found = {*chip} | {key for name in TABLES for key in chip.get(name, {})}
        found |= {key for engine in chip.get("engines", {}).values() for key in engine}
        assert found <= rows, path
