"""`systolic check`: have the cycle counts of runs moved?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HOW_TO_PIN = " (--update --pins FILE pins them)"


def check_command(
    configs: Annotated[
        list[Path] | None,
        typer.Argument(help="Run files (default: all that are shipped).", metavar="[CONFIG]..."),
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Write the counts found.")] = False,
    pins: Annotated[
        Path | None, typer.Option("--pins", help="File of counts (default: the shipped one).")
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            "--runs",
            metavar="DIR",
            help="Folder that names of counts start from (default: the file of counts' own).",
        ),
    ] = None,
) -> None:
    """Compare cycle counts with the pinned ones; exit status 1 if a count moved or is missing."""
    from systolic.run import pins as checking

    ok = True
    for finding in checking.check(configs, pins, update=update, runs=runs):
        ok = ok and finding.ok
        typer.echo(f"{finding.text}{HOW_TO_PIN if finding.is_new else ''}")
    if not ok:
        raise typer.Exit(1)
