"""Does docs/validation.md list every column of a table, and every measure with its units?"""

from __future__ import annotations

import re

from support.documents import ROOT
from systolic.run.validation.table import COLUMNS, NEEDED
from systolic.run.validation.units import UNITS_OF

TEXT = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")


def rows(head: str) -> dict[str, list[str]]:
    """Return, of the table with that head, the cells behind the first, by the first."""
    lines = TEXT[TEXT.index(head) :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {cell[0].strip("`"): cell[1:] for cell in cells}


def test_every_column() -> None:
    found = rows("| column | meaning |")
    assert set(found) == set(COLUMNS)
    assert {name for name, cells in found.items() if cells[1] == "no"} == set(NEEDED) - {"unit"}


def test_every_measure_with_its_units() -> None:
    found = rows("| measure | value |")
    assert list(found) == list(UNITS_OF)
    said = {"the same": None, "none": {""}}
    for (name, cells), before in zip(found.items(), [None, *UNITS_OF], strict=False):
        words = set(re.findall(r"`([^`]+)`", cells[1])) - {"vector cycles"}
        words |= {""} if cells[1].endswith("or none") else set()
        expected = said.get(cells[1], words) or set(UNITS_OF[str(before)])
        assert set(UNITS_OF[name]) == expected, name
