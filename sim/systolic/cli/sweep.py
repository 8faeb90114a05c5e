"""`systolic sweep`: what the arguments mean, and which module does the work.

It explores a file's sweeps into a store, asks the store, or copies it. Not here: `systolic run` on
such a file (`systolic.cli.run_sweep`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from systolic.cli.options import ChipName, Overrides, WorkOptions, values_wanted
from systolic.errors import SystolicError


def sweep_command(
    file: Annotated[
        Path | None,
        typer.Argument(help="Run file with [[sweep]], or one based on another.", metavar="FILE"),
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "--output", help="Folder for the results (default: out/NAME)."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="Points that run at once (default: all cores)."),
    ] = None,
    chip: ChipName = None,
    overrides: Overrides = None,
    values: Annotated[
        str, typer.Option("--values", help="exact, or none: times only, the same cycles.")
    ] = "exact",
    no_plots: Annotated[bool, typer.Option("--no-plots", help="Draw no pictures.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print counts (or rows) as JSON.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the points, and estimate time and memory.")
    ] = False,
    query: Annotated[
        str | None,
        typer.Option("--query", metavar="SQL", help="Ask DuckDB about the table results."),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Copy the results to x.duckdb or x.csv."),
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Run again what failed by the machine it ran on.")
    ] = False,
    summaries: Annotated[
        bool, typer.Option("--summaries", help="Keep the whole summary of each point.")
    ] = False,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="ADDRESS", help="Of a Dask cluster: tcp://HOST:PORT."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", min=0, help="Begin no point after this time.")
    ] = None,
    points: Annotated[
        int | None, typer.Option("--points", min=0, help="Run at most this many points.")
    ] = None,
) -> None:
    """Explore the sweeps of a file: run what is not stored yet, and store every row."""
    exact = values_wanted(values)
    if query is not None or export is not None:
        _use_results(_folder_of_results(file, out), export, query, as_json=as_json)
        return
    if file is None:
        raise SystolicError("Missing argument 'FILE': needs a run file with [[sweep]]")
    if scheduler is not None and jobs is not None:
        raise SystolicError("--jobs: is for this computer; a cluster's workers say how many run")
    from systolic.cli.options import run_file_overrides
    from systolic.cli.sweep_explore import SweepArguments, explore_and_report
    from systolic.sweep.space import load_sweep

    arguments = SweepArguments(
        jobs=jobs,
        values=exact,
        plots=not no_plots,
        as_json=as_json,
        dry_run=dry_run,
        retry=retry,
        summaries=summaries,
        scheduler=scheduler,
        minutes=minutes,
        points=points,
    )
    given = run_file_overrides(file, WorkOptions(chip=chip, overrides=overrides))
    loaded = load_sweep(file, given, values=exact)
    explore_and_report(loaded, out or Path("out") / loaded.name, arguments)


def _use_results(folder: Path, export: Path | None, query: str | None, *, as_json: bool) -> None:
    """Copy the results of a folder, or ask them, or both."""
    from systolic.cli.sweep_query import ask, copy

    if export is not None:
        copy(folder, export)
    if query is not None:
        ask(folder, query, as_json=as_json)


def _folder_of_results(file: Path | None, out: Path | None) -> Path:
    """Return the folder whose results are asked for: --out, FILE if it is one, or FILE's."""
    if out is not None:
        return out
    if file is None:
        raise SystolicError("--out: needs the folder of the results that are asked for")
    if file.is_dir():
        return file
    from systolic.sweep.space import load_sweep

    return Path("out") / load_sweep(file, [], values=True).name
