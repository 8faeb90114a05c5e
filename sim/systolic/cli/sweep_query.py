"""`systolic sweep --query` and `--export`: answers on the screen, and copies of the results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from systolic.cli.run_file import console
from systolic.errors import printable
from systolic.report.summary.table import Whole
from systolic.run.provenance import plain
from systolic.sweep.query import export, query


def ask(folder: Path, sql: str, *, as_json: bool) -> None:
    """Print the answer to a question: a table, or a list of objects."""
    names, rows = query(folder, sql)
    if as_json:
        found = [dict(zip(names, map(plain, row), strict=True)) for row in rows]
        sys.stdout.write(json.dumps(found, indent=2, default=str) + "\n")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in names:
        table.add_column(Text(printable(name)), no_wrap=True)
    for row in rows:
        table.add_row(*map(_shown, row))
    console().print(Whole(table), crop=False)


def copy(folder: Path, path: Path) -> None:
    """Copy the results to a file."""
    export(folder, path)


def _shown(value: Any) -> Text:
    return Text("" if value is None else printable(str(value)))
