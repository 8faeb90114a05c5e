"""`systolic compile`: a run file's program after any pass of the compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sim.errors import SystolicError, perhaps

Config = Annotated[Path, typer.Argument(help="Run file.", metavar="CONFIG")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="As for run.")
]


def compile_command(
    config: Config,
    after: Annotated[
        str, typer.Option("--after", help="graph, tile, place, schedule or sync.")
    ] = "sync",
    overrides: Overrides = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most lines of a list.")] = 24,
) -> None:
    """Print what a pass of the compiler makes of a run file; nothing is simulated."""
    from sim.compiler.show import PASSES
    from sim.config import load_run
    from sim.run import compile_run

    if after not in PASSES:
        known = ", ".join(f'"{name}"' for name in PASSES)
        raise SystolicError(
            f'--after: needs one of {known}, found "{after}"{perhaps(after, PASSES)}'
        )
    for line in PASSES[after](compile_run(load_run(config, overrides or [])), limit):
        typer.echo(line)
