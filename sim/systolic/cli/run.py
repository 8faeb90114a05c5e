"""`systolic run`: what the arguments mean, and which module does the work.

A run file is run by `run_file`, its sweep by `run_sweep`, a program by `run_program`; the run of a
summary is done again by `run_again`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from systolic.cli.options import (
    NO_CONFIG,
    ChipName,
    EngineOption,
    Inputs,
    NoCheck,
    Overrides,
    WorkOptions,
    is_program,
    refuse_jobs,
    refuse_with_again,
    run_file_overrides,
    values_wanted,
)
from systolic.errors import SystolicError


def run_command(
    config: Annotated[
        Path | None,
        typer.Argument(help="Run file (.toml), or a program (any other file).", metavar="CONFIG"),
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "--output", help="Folder for the results (default: out/NAME)."),
    ] = None,
    engine: EngineOption = None,
    chip: ChipName = None,
    inputs: Inputs = None,
    no_check: NoCheck = False,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json, no table.")] = False,
    no_plots: Annotated[bool, typer.Option("--no-plots", help="Draw no pictures.")] = False,
    values: Annotated[
        str, typer.Option("--values", help="exact, or none: times only, the same cycles.")
    ] = "exact",
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="Points of a sweep that run at once (default: 1)."),
    ] = None,
    again: Annotated[
        Path | None,
        typer.Option("--again", metavar="SUMMARY", help="Do the run of a summary.json again."),
    ] = None,
) -> None:
    """Run a run file or a program: print a table; write summary.json, .npy files and a picture."""
    from systolic.cli.run_file import run_and_report
    from systolic.config import load_run

    exact, plots = values_wanted(values), not no_plots
    options = WorkOptions(
        engine=engine,
        chip=chip,
        inputs=inputs,
        overrides=overrides,
        no_check=no_check,
        values=exact,
    )
    if again is not None:
        from systolic.cli.run_again import run_again

        refuse_with_again(config, options)
        run_again(again, out, as_json=as_json, plots=plots)
        return
    if config is None:
        raise SystolicError(NO_CONFIG)
    if is_program(config):
        refuse_jobs(config, jobs)
        from systolic.cli.run_program import prepare, run_program_and_report

        folder = out or Path("out") / config.stem
        run_program_and_report(prepare(config, options), folder, as_json=as_json, plots=plots)
        return
    loaded = load_run(config, run_file_overrides(config, options))
    folder = out or Path("out") / loaded.name
    if loaded.sweep:
        from systolic.cli.run_sweep import SweepOptions, sweep_and_report

        how = SweepOptions(jobs=jobs or 1, values=exact, as_json=as_json, plots=plots)
        sweep_and_report(loaded, folder, how)
        return
    refuse_jobs(config, jobs)
    run_and_report(loaded, folder, as_json=as_json, plots=exact and plots, values=exact)
