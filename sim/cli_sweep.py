"""The tables of a sweep: a row for each point, or the two ways of `compile.via` side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sim.config import RunConfig, SweepTable
from sim.report.table import Whole
from sim.report.wording import number, ratio_text, time_text

Row = Mapping[str, Any]
VIA = "compile.via"


def print_sweeps(config: RunConfig, points: Sequence[Row], console: Console) -> None:
    """Print a table for each sweep of a run file; `points` are summaries with `sweep`, `vary`."""
    for sweep in config.sweep:
        rows = [point for point in points if point["sweep"] == sweep.name]
        console.print()
        console.print(Text(f"  {sweep.name}", style="bold"))
        if sweep.description:
            console.print(Text(f"  {sweep.description}", style="dim"), soft_wrap=True)
        pairs = sorted(sweep.vary.get(VIA, ())) == ["dram", "pe"]
        table = _side_by_side if pairs else _one_by_one
        console.print(Whole(table(sweep, rows)), crop=False)
        wrong = sum(not row["values"]["equal"] for row in rows)
        console.print(Text(f"  results wrong: {wrong}" if wrong else "  all results are right"))
    console.print()


def _table(keys: Sequence[str], headings: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 0, 0, 2), header_style="dim")
    for heading in (*(key.rsplit(".", 1)[-1] for key in keys), *headings):
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _one_by_one(sweep: SweepTable, rows: Sequence[Row]) -> Table:
    keys = list(sweep.vary)
    table = _table(keys, ("cycles", "time", "equal"))
    for row in rows:
        equal = "yes" if row["values"]["equal"] else "no"
        table.add_row(*_labels(row, keys), number(row["cycles"]), time_text(row["time_ns"]), equal)
    return table


def _side_by_side(sweep: SweepTable, rows: Sequence[Row]) -> Table:
    """Return a table with a row for each pair that differs in `compile.via` alone."""
    one, other = sweep.vary[VIA]
    keys = [key for key in sweep.vary if key != VIA]
    table = _table(keys, (f"cycles via {one}", f"via {other}", f"{other} takes"))
    first = [row for row in rows if row["vary"][VIA] == one]
    second = [row for row in rows if row["vary"][VIA] == other]
    for a, b in zip(first, second, strict=True):
        ratio = ratio_text(b["time_ns"] / a["time_ns"])
        table.add_row(*_labels(a, keys), number(a["cycles"]), number(b["cycles"]), ratio)
    return table


def _labels(row: Row, keys: Sequence[str]) -> list[Text]:
    return [Text(str(row["vary"][key])) for key in keys]
