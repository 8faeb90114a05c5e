"""The tables of docs/instruction_set.md as rows of cells."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "instruction_set.md"
TEXT = PAGE.read_text(encoding="utf-8")


def table(head: str) -> list[list[str]]:
    """Return the cells of the table whose first line begins with `head`, without head and rule."""
    lines = TEXT.split("\n")
    first = next(n for n, line in enumerate(lines) if line.startswith(head)) + 2
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def words(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)
