"""Is the map of docs/pictures what its script measures today, at every size?"""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from typing import Any

import pytest

import systolic
from support.documents import ROOT
from support.tiers import quick_first
from systolic.config import load_run

PICTURES = ROOT / "docs" / "pictures"
SCRIPT: Any = runpy.run_path(str(PICTURES / "transpose_map.py"), run_name="transpose_map")
CELLS = SCRIPT["read_csv"](PICTURES / "transpose_map.csv")
ALL = [1 << n for n in range(13)]


@pytest.mark.parametrize("home", ["state_buffer", "dram"])
@pytest.mark.parametrize("sides", [[1, 4, 64], pytest.param(ALL, marks=pytest.mark.slow)])
def test_cells_are_what_is_measured_today(home: str, sides: list[int]) -> None:
    found = SCRIPT["measure"](load_run(SCRIPT["RUN"]), home, sides)
    shipped = [c for c in CELLS if c.home == home and c.rows in sides and c.columns in sides]
    assert found == shipped
    assert len(shipped) == len(sides) ** 2


COMPARED = [cell for cell in CELLS if cell.ratio]
SMALL_FIRST = sorted(COMPARED, key=lambda cell: (cell.rows * cell.columns, cell.rows, cell.home))


@pytest.mark.parametrize("cell", quick_first(SMALL_FIRST, 40))
def test_the_compiler_takes_the_sooner_way(cell: Any) -> None:
    work = [f"workload.home={cell.home}", f"workload.shape=f32[{cell.rows},{cell.columns}]"]
    run = systolic.run(load_run(SCRIPT["RUN"], ["sweep=[]", *work]), values=False)
    sooner = min(cell.array_cycles, cell.dma_cycles)
    if cell.home == "dram":  # engines put narrow matrices in order; of a row or column bytes stay
        assert run.cycles <= sooner
        assert run.cycles < sooner or 1 not in (cell.rows, cell.columns)
    else:
        assert run.cycles == sooner


def test_what_the_chip_has_no_room_for_is_not_compared() -> None:
    cells = {(cell.home, cell.rows, cell.columns): cell for cell in CELLS}
    assert cells["state_buffer", 4096, 4096].ratio is None
    assert cells["dram", 4096, 4096].ratio is not None


def test_the_line_of_1x_runs_between_cells() -> None:
    """Two lost cells at the top left; nothing is said of the cell that was not measured."""
    edges = SCRIPT["edges_of_1x"]([[0.5, 1.0, 3.0], [2.0, 4.0, math.nan], [2.0, math.nan, 0.1]])
    assert set(edges) == {((2, 0), (2, 1)), ((0, 1), (1, 1)), ((1, 1), (2, 1))}


def test_the_title_follows_the_figures() -> None:
    cell, finding = SCRIPT["Cell"], SCRIPT["finding"]
    on_chip = [cell("state_buffer", 2, 2, 10, 60), cell("state_buffer", 4, 4, 10, 120)]
    narrow = [*on_chip, cell("dram", 8, 512, 10, 10), cell("dram", 512, 512, 10, 30)]
    assert finding(narrow) == (
        "On the chip the array beats DMA 6.0x to 12x; from DRAM to DRAM it loses narrow matrices"
    )
    wide = [*on_chip, cell("dram", 16, 512, 10, 9), cell("dram", 512, 512, 10, 30)]
    assert finding(wide).endswith("from DRAM to DRAM it loses 1 of 2 sizes")


def test_a_map_is_written_and_read_again(tmp_path: Path) -> None:
    some = [cell for cell in CELLS if {cell.rows, cell.columns} <= {1, 4096}]
    SCRIPT["write_csv"](some, tmp_path / "map.csv")
    assert SCRIPT["read_csv"](tmp_path / "map.csv") == some
    SCRIPT["draw"](some, tmp_path / "map.png", "a chip")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
