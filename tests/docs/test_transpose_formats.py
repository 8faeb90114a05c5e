"""Is the table of docs/layouts.md what its script measures today, and what the page says of it?"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from support.documents import ROOT
from systolic.config import load_run

PICTURES = ROOT / "docs" / "pictures"
SCRIPT: Any = runpy.run_path(str(PICTURES / "transpose_formats.py"), run_name="transpose_formats")
CELLS = SCRIPT["read_csv"](PICTURES / "transpose_formats.csv")
PAGE = (ROOT / "docs" / "layouts.md").read_text(encoding="utf-8")
TYPES = ("f32", "bf16", "s8")


def cycles() -> dict[tuple[str, str, str], int]:
    return {(cell.home, cell.dtype, cell.tiles): cell.cycles for cell in CELLS}


@pytest.mark.slow
def test_all_cells_are_what_is_measured_today() -> None:
    assert SCRIPT["measure"](load_run(SCRIPT["RUN"])) == CELLS
    assert len(CELLS) == 2 * 3 * 6


@pytest.mark.parametrize("tiles", list(dict.fromkeys(cell.tiles for cell in CELLS)))
def test_the_rows_of_the_table(tiles: str) -> None:
    found = cycles()
    told = [f"{found[home, dtype, tiles]:,}" for home in SCRIPT["HOMES"] for dtype in TYPES]
    name = f"`{tiles}`" if tiles else "none"
    assert f"| {name} | {' | '.join(told)} |" in PAGE


def test_what_the_page_says_of_formats_on_the_chip() -> None:
    (on_chip,) = {cell.cycles for cell in CELLS if cell.home == "state_buffer"}
    assert f"A result in any of the formats takes {on_chip:,} cycles too" in PAGE
    assert SCRIPT["finding"](CELLS, "state_buffer") == "costs nothing"


def test_the_headings_follow_the_figures() -> None:
    cell = SCRIPT["Cell"]
    some = [cell("state_buffer", "f32", "", 10), cell("state_buffer", "f32", "(2,2)", 12),
            cell("dram", "f32", "", 10), cell("dram", "f32", "(2,2)", 10)]  # fmt: skip
    assert SCRIPT["finding"](some, "state_buffer") == "costs up to 20%"
    assert SCRIPT["finding"](some, "dram") == "costs nothing"


def test_a_table_is_written_and_read_again(tmp_path: Path) -> None:
    SCRIPT["write_csv"](CELLS[:12], tmp_path / "formats.csv")
    assert SCRIPT["read_csv"](tmp_path / "formats.csv") == CELLS[:12]
    SCRIPT["draw"](CELLS[:12], tmp_path / "formats.png", "a chip")
    assert (tmp_path / "formats.png").read_bytes().startswith(b"\x89PNG")
