"""The tables of a sweep: a row for each point, or for each pair of points by `compile.via`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from systolic.cli.screen import LONGEST_ERROR
from systolic.config import RunConfig, SweepTable
from systolic.errors import printable, shortened
from systolic.report.summary.table import Whole
from systolic.report.summary.wording import number, percent, ratio_text, time_text
from systolic.report.sweeps.found import SweepRows, value_text, words
from systolic.report.sweeps.pairs import PointRow

VIA = "compile.via"
FAILED = "failed"
MOST_ERRORS = 10
SHARES = ("utilisation", "multiplying")


def print_sweeps(config: RunConfig, points: Sequence[PointRow], console: Console) -> None:
    """Print a table for each sweep of a run file; `points` are rows of `systolic.sweep.memory`."""
    for sweep in config.sweep:
        rows = [point for point in points if point["sweep"] == sweep.name]
        console.print()
        console.print(Text(f"  {printable(sweep.name)}", style="bold"))
        if sweep.description:
            text = printable(sweep.description)
            console.print(Text(f"  {text}", style="dim"), soft_wrap=True)
        table = _side_by_side if _is_of_pairs(sweep) else _one_by_one
        console.print(Whole(table(sweep, rows)), crop=False)
        for line in _verdicts(rows):
            console.print(Text(f"  {line}"), soft_wrap=True)
    console.print()


MOST_ROWS = 10


def print_found(sweeps: Sequence[SweepRows], console: Console) -> None:
    """Print the best rows of each sweep that was explored, and what there is to say of it."""
    for sweep in sweeps:
        good = sweep.good()
        console.print()
        console.print(Text(f"  {printable(sweep.name)}", style="bold"))
        if sweep.description:
            console.print(Text(f"  {printable(sweep.description)}", style="dim"), soft_wrap=True)
        if good.rows:
            console.print(Whole(_best_rows(good)), crop=False)
        rest = len(good.rows) - MOST_ROWS
        if rest > 0:
            console.print(Text(f"  and {number(rest)} more", style="dim"))
        for line in words(sweep):
            console.print(Text(f"  {printable(line)}"), soft_wrap=True)
        if any(row.get("program") == "once" for row in good.rows):
            text = "the program is that of the first point wherever only times differ"
            console.print(Text(f"  {text}"), soft_wrap=True)
    console.print()


def _best_rows(sweep: SweepRows) -> Table:
    keys = list(dict.fromkeys(key for row in sweep.rows for key in row["vary"]))
    shown = [name for name in dict.fromkeys(("cycles", *sweep.objectives)) if name not in SHARES]
    once = ["program"] if any(row.get("program") == "once" for row in sweep.rows) else []
    table = _table(keys, (*shown, "time", "above bound", *SHARES, *once))
    for row in sweep.ordered()[:MOST_ROWS]:
        varied = [Text(_text(row["vary"].get(key, ""))) for key in keys]
        _, time, above, *shares, _ = _results({**row, "bound": {"cycles": row["bound_cycles"]}})
        values = [value_text(row[name]) for name in shown]
        table.add_row(*varied, *values, time, above, *shares, *(["once"] if once else []))
    return table


def _is_of_pairs(sweep: SweepTable) -> bool:
    """Return whether each combination of the other keys runs with both values of `compile.via`."""
    zipped = {key for group in sweep.zip for key in group}
    return VIA not in zipped and sweep.vary.get(VIA) in (["dram", "pe"], ["pe", "dram"])


def _verdicts(rows: Sequence[PointRow]) -> list[str]:
    """Return lines on the results, and on the errors of points that could not be run."""
    failed = [row for row in rows if "error" in row]
    good = [row["values"]["equal"] for row in rows if "error" not in row]
    wrong, unknown = good.count(False), good.count(None)
    lines = [f"results wrong: {wrong}"] if wrong else []
    if unknown:
        lines.append("results not checked")
    elif good and not wrong:
        lines.append("all results are right" if not failed else "all other results are right")
    for row in failed[:MOST_ERRORS]:
        varied = " ".join(f"{_last(key)}={_text(v)}" for key, v in row["vary"].items())
        lines.append(f"{FAILED}: {varied}: {printable(shortened(row['error'], LONGEST_ERROR))}")
    if len(failed) > MOST_ERRORS:
        lines.append(f"{FAILED}: {len(failed) - MOST_ERRORS} more, all of them in sweep.csv")
    return lines


def _table(keys: Sequence[str], headings: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 0, 0, 2), header_style="dim")
    for heading in (*(printable(_last(key)) for key in keys), *headings):
        table.add_column(Text(heading), justify="right", no_wrap=True)
    return table


def _last(key: str) -> str:
    return key.rsplit(".", 1)[-1]


def _one_by_one(sweep: SweepTable, rows: Sequence[PointRow]) -> Table:
    keys = list(sweep.vary)
    table = _table(keys, ("cycles", "time", "above bound", *SHARES, "equal"))
    for row in rows:
        table.add_row(*_varied(row, keys), *([FAILED] if "error" in row else _results(row)))
    return table


def _results(row: PointRow) -> list[str]:
    cycles, bound = row["cycles"], row["bound"]["cycles"]
    shares = ["-" if row.get(key) is None else percent(row[key], 1) for key in SHARES]
    equal = {True: "yes", False: "no", None: "-"}[row.get("values", {}).get("equal")]
    above = percent(cycles - bound, bound) if bound else "-"
    return [number(cycles), time_text(row["time_ns"]), above, *shares, equal]


def _side_by_side(sweep: SweepTable, rows: Sequence[PointRow]) -> Table:
    """Return a table with a row for each pair that differs in `compile.via` alone."""
    one, other = sweep.vary[VIA]
    keys = [key for key in sweep.vary if key != VIA]
    table = _table(keys, (f"cycles via {one}", f"via {other}", f"{other} takes"))
    first = [row for row in rows if row["vary"][VIA] == one]
    second = [row for row in rows if row["vary"][VIA] == other]
    for a, b in zip(first, second, strict=True):
        failed = "error" in a or "error" in b
        ratio = "-" if failed else ratio_text(b["time_ns"] / a["time_ns"])
        table.add_row(*_varied(a, keys), _cycles(a), _cycles(b), ratio)
    return table


def _cycles(row: PointRow) -> str:
    return FAILED if "error" in row else number(row["cycles"])


def _varied(row: PointRow, keys: Sequence[str]) -> list[Text]:
    return [Text(_text(row["vary"][key])) for key in keys]


def _text(value: Any) -> str:
    text = json.dumps(value) if isinstance(value, bool | list | Mapping) else str(value)
    return printable(shortened(text))
