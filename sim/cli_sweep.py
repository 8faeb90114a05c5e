"""The tables of a sweep: a row for each point, and what won where two ways are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sim.config import RunConfig
from sim.report.wording import number, ratio_text, time_text

Row = Mapping[str, Any]
COMPARED = "compile.via"


def print_sweeps(config: RunConfig, points: Sequence[Row], console: Console) -> None:
    """Print a table for each sweep of a run file; `points` are summaries with `sweep`, `vary`."""
    for sweep in config.sweep:
        rows = [point for point in points if point["sweep"] == sweep.name]
        console.print()
        console.print(Text.assemble(("  " + sweep.name, "bold"), ("  " + sweep.description, "dim")))
        console.print(_table(list(sweep.vary), rows))
    console.print()


def _table(keys: list[str], rows: Sequence[Row]) -> Table:
    versus = COMPARED in keys
    table = Table(box=None, padding=(0, 0, 0, 2), header_style="dim")
    for key in keys:
        table.add_column(key.rsplit(".", 1)[-1], justify="right")
    for heading in ("cycles", "time", *(["of the other way"] if versus else []), "equal"):
        table.add_column(heading, justify="right")
    for row in rows:
        labels = [Text(str(row["vary"][key])) for key in keys]
        middle = [_against(row, rows)] if versus else []
        equal = "yes" if row["values"]["equal"] else "NO"
        table.add_row(*labels, number(row["cycles"]), time_text(row["time_ns"]), *middle, equal)
    return table


def _against(row: Row, rows: Sequence[Row]) -> str:
    """Return this way's time as a multiple of the other way's, all else equal."""
    for other in rows:
        if _rest(other) == _rest(row) and other["vary"][COMPARED] != row["vary"][COMPARED]:
            return ratio_text(row["time_ns"] / other["time_ns"])
    return ""


def _rest(row: Row) -> dict[str, Any]:
    return {key: value for key, value in row["vary"].items() if key != COMPARED}
