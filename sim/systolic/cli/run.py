"""`systolic run`: what the arguments mean, and which module does the work.

A run file is run by `run_file`, its sweep by `run_sweep`, a system file by `run_system`, a program
by `run_program`; the run of a summary is done again by `run_again`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from systolic.cli.options import (
    CONFIG_HELP,
    NO_CONFIG,
    ChipName,
    EngineOption,
    HomeOption,
    ImageRange,
    Inputs,
    LayerRange,
    NoCheck,
    Overrides,
    SeedOption,
    Shapes,
    WorkOptions,
    is_program,
    of_name,
    refuse_jobs,
    refuse_with_again,
    run_file_overrides,
    values_wanted,
)
from systolic.errors import SystolicError


@dataclass(frozen=True, slots=True)
class Reporting:
    """Where results go and in which form; jobs: points of a sweep at once, if given."""

    out: Path | None
    as_json: bool
    plots: bool
    jobs: int | None
    compare: Path | None = None
    partial: bool = False

    def folder(self, name: str) -> Path:
        """Return the folder for the results of a run of that name."""
        return self.out or Path("out") / name


def run_command(
    config: Annotated[
        Path | None,
        typer.Argument(help=CONFIG_HELP, metavar="CONFIG", callback=of_name),
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "--output", help="Folder for the results (default: out/NAME)."),
    ] = None,
    engine: EngineOption = None,
    chip: ChipName = None,
    inputs: Inputs = None,
    shapes: Shapes = None,
    no_check: NoCheck = False,
    overrides: Overrides = None,
    layers: LayerRange = None,
    images: ImageRange = None,
    home: HomeOption = None,
    seed: SeedOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json, no table.")] = False,
    no_plots: Annotated[bool, typer.Option("--no-plots", help="Draw no pictures.")] = False,
    values: Annotated[
        str, typer.Option("--values", help="exact, or none: times only, the same cycles.")
    ] = "exact",
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="Points of a sweep that run at once (default: 1)."),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            "--compare", metavar="FILE.npz", help="Say which operation first differs from these."
        ),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Do on the host what the chip cannot do, and say it.")
    ] = False,
    again: Annotated[
        Path | None,
        typer.Option("--again", metavar="SUMMARY", help="Do the run of a summary.json again."),
    ] = None,
) -> None:
    """Run a run file, a system or a program: print a table; write summary.json and results."""
    options = WorkOptions(
        engine=engine,
        chip=chip,
        inputs=inputs,
        shapes=shapes,
        overrides=overrides,
        no_check=no_check,
        values=values_wanted(values),
        layers=layers,
        images=images,
        home=home,
        seed=seed,
    )
    report = Reporting(out, as_json, not no_plots, jobs, compare, partial)
    if again is not None:
        _run_again(again, config, options, report)
    elif config is None:
        raise SystolicError(NO_CONFIG)
    elif is_program(config):
        _run_program(config, options, report)
    else:
        _run_file(config, options, report)


def _run_again(summary: Path, config: Path | None, options: WorkOptions, report: Reporting) -> None:
    """Do the run of a summary again."""
    from systolic.cli.run_again import run_again

    refuse_with_again(config, options)
    run_again(summary, report.out, as_json=report.as_json, plots=report.plots)


def _run_program(path: Path, options: WorkOptions, report: Reporting) -> None:
    """Run a program, into a folder named as its file."""
    from systolic.cli.run_program import prepare, run_program_and_report

    refuse_jobs(path, report.jobs)
    run_program_and_report(
        prepare(path, options), report.folder(path.stem), as_json=report.as_json, plots=report.plots
    )


def _run_file(path: Path, options: WorkOptions, report: Reporting) -> None:
    """Run a run file, its sweep, or a system file, into a folder of its name."""
    from systolic.run.system import is_system_file

    if is_system_file(path):
        from systolic.cli.run_system import run_system_and_report, system_of

        refuse_jobs(path, report.jobs)
        system = system_of(path, options)
        run_system_and_report(system, report.folder(system.name), as_json=report.as_json)
        return
    from systolic.cli.heartbeat import ProgressBar
    from systolic.cli.run_file import run_and_report
    from systolic.config import load_run

    with ProgressBar(path.stem, "reading"):
        loaded = load_run(path, run_file_overrides(path, options))
    folder, exact = report.folder(loaded.name), options.values
    if loaded.sweep:
        from systolic.cli.run_sweep import SweepOptions, sweep_and_report

        how = SweepOptions(
            jobs=report.jobs or 1, values=exact, as_json=report.as_json, plots=report.plots
        )
        sweep_and_report(loaded, folder, how)
        return
    refuse_jobs(path, report.jobs)
    plots = exact and report.plots
    if report.partial:
        from systolic.cli.run_partial import partial_and_report

        partial_and_report(loaded, folder, as_json=report.as_json, plots=plots, values=exact)
    else:
        run_and_report(loaded, folder, as_json=report.as_json, plots=plots, values=exact)
    if report.compare is not None:
        from systolic.cli.heartbeat import HEARTBEAT
        from systolic.run.compared import compared

        HEARTBEAT.stage("comparing")
        typer.echo(f"  {compared(loaded, report.compare)}", err=report.as_json)
