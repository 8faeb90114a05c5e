"""`systolic run --again SUMMARY`: do the run of a summary.json again, and compare the two."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from systolic.cli.run_file import run_and_report
from systolic.cli.run_program import ProgramJob, check, read_inputs, run_program_and_report
from systolic.cli.run_sweep import SweepOptions, sweep_and_report
from systolic.config.chip_file import any_chip_of_tables
from systolic.engine_kind import ENGINE_KINDS
from systolic.errors import SystolicError
from systolic.isa import AnyModule
from systolic.run.again import (
    Summary,
    entry,
    read_summary,
    recorded_run,
    require_same,
    require_same_inputs,
)
from systolic.run.chip_program import several
from systolic.run.execute import load_inputs
from systolic.run.program import read_program


def run_again(path: Path, out: Path | None, *, as_json: bool, plots: bool) -> None:
    """Do the run of a summary again, and print and write as `systolic run` does.

    Raises SystolicError if the run cannot be done again. Raises ResultError, before anything is
    written, if cycles or results are not the same.
    """
    summary = read_summary(path)
    accept = partial(require_same, summary)
    if summary.is_program:
        job = recorded_job(summary)
        folder = out or Path("out") / job.path.stem
        run_program_and_report(job, folder, as_json=as_json, plots=plots, accept=accept)
        return
    config = recorded_run(summary)
    folder = out or Path("out") / config.name
    if summary.values and not config.sweep:
        try:
            arrays = load_inputs(config)
        except SystolicError as error:
            raise summary.error(str(error)) from None
        require_same_inputs(summary, arrays)
    if config.sweep:
        how = SweepOptions(values=summary.values, as_json=as_json, plots=plots)
        sweep_and_report(config, folder, how, accept)
        return
    run_and_report(
        config,
        folder,
        as_json=as_json,
        plots=plots and summary.values,
        values=summary.values,
        accept=accept,
    )


def recorded_job(summary: Summary) -> ProgramJob:
    """Return the job that a program's summary records; SystolicError if its program has changed."""
    path = summary.file("program")
    found, engine = summary.found, summary.found["config"].get("engine")
    if engine not in ENGINE_KINDS:
        raise summary.error(f"there is no engine {engine!r}")
    try:
        module, digest = read_program(path)
        if digest != summary.table("program").get("sha256"):
            raise SystolicError(f"{path} has changed since")
        chip = any_chip_of_tables(summary.table("chip"), summary.path, str(summary.path))
        module = several(module, chip)
        check(module, chip)
        job = ProgramJob(
            path=path,
            sha256=digest,
            module=module,
            chip=chip,
            chip_path=summary.file("chip"),
            files=_input_files(summary, module),
            engine=ENGINE_KINDS[engine],
            values=summary.values,
            check=bool(found["options"].get("check", True)),
            overrides=tuple(map(str, found["overrides"])),
        )
        arrays = read_inputs(module, job.files, path) if summary.values else {}
    except SystolicError as error:
        raise summary.error(str(error)) from None
    require_same_inputs(summary, arrays)
    return job


def _input_files(summary: Summary, module: AnyModule) -> dict[str, Path]:
    names = [binding.name for binding in module.inputs]
    found = {name: entry(summary.found, "inputs", name, "data") for name in names}
    return {name: Path(file) for name, file in found.items() if isinstance(file, str)}
