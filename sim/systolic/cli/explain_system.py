"""`systolic explain` of a system file: the way of the last arrival through links and waits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from systolic.cli.options import WorkOptions
from systolic.cli.run_system import system_of
from systolic.cli.tables import MOST_ROWS, table
from systolic.errors import printable
from systolic.report.summary.wording import number, percent, plural

if TYPE_CHECKING:
    from systolic.run.system_explanation import SystemExplanation


def explain_system_file(path: Path, options: WorkOptions, *, as_json: bool) -> None:
    """Print why a system takes its cycles."""
    from systolic.run.system_explanation import explain_system

    found = explain_system(system_of(path, options))
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
        return
    for line in _text(found):
        typer.echo(printable(line))


def _text(found: SystemExplanation) -> list[str]:
    rows = [
        (number(row.cycles), percent(row.cycles, found.cycles), row.link, row.reason)
        for row in found.rows[:MOST_ROWS]
    ]
    rest = found.rows[MOST_ROWS:]
    if rest:
        cycles = sum(row.cycles for row in rest)
        what = f"{plural(len(rest), 'other row')} (--json has all)"
        rows.append((number(cycles), percent(cycles, found.cycles), "", what))
    return [
        f"{found.run}: {plural(found.cycles, 'cycle')}",
        "",
        f"the way of the last arrival, back to cycle 0: {plural(found.messages, 'message')}",
        *table(("cycles", "share", "link", "reason"), rows, numbers=2),
    ]
