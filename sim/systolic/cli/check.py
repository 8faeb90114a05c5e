"""`systolic check`: have the cycle counts of runs moved?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from systolic.cli.options import ChipName
from systolic.errors import SystolicError, printable
from systolic.reading import real_path

if TYPE_CHECKING:
    from systolic.run.pins.check import Selection
    from systolic.run.pins.compare import Finding

HOW_TO_PIN = " (--update --pins FILE pins them)"


def check_command(
    configs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Run files and programs (default: all of --runs DIR, or all that are shipped).",
            metavar="[CONFIG]...",
        ),
    ] = None,
    *,
    update: Annotated[bool, typer.Option("--update", help="Write the counts found.")] = False,
    pins: Annotated[
        Path | None, typer.Option("--pins", help="File of counts (default: the shipped one).")
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            "--runs",
            metavar="DIR",
            help="Folder of runs, and that names of counts start from (default of names: the "
            "folder of the file of counts).",
        ),
    ] = None,
    chip: ChipName = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Runs that are done at once.")] = 1,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit report.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write a report as Markdown.")
    ] = None,
) -> None:
    """Compare cycle counts with the pinned ones; exit status 1 if a count moved or is missing."""
    from systolic.config.chip_file import find_chip
    from systolic.run.pins import check as checking

    hardware = None if chip is None else find_chip(chip, Path(), "--chip")
    selection = checking.Selection(configs or (), pins, runs, hardware)
    reports = {"junit": junit, "markdown": markdown}
    files = {kind: path for kind, path in reports.items() if path is not None}
    _require_free(files, selection, update=update)
    if update:
        _say(checking.update(selection, jobs=jobs))
        return
    findings = []
    for finding in checking.check(selection, jobs=jobs):
        findings.append(finding)
        _say(finding)
    _write(files, findings)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def _say(finding: Finding) -> None:
    lines = map(printable, finding.text.split("\n"))
    typer.echo("\n".join(lines) + (HOW_TO_PIN if finding.is_new else ""))


def _require_free(files: Mapping[str, Path], selection: Selection, *, update: bool) -> None:
    """Raise SystolicError unless each report has a file of its own, which can be written."""
    from systolic.run.folder import require_writable

    taken = {real_path(path) for path in (selection.file, *selection.files)}
    for kind, path in files.items():
        if update:
            raise SystolicError(
                f"--{kind}: reports what was compared, and --update compares nothing"
            )
        if real_path(path) in taken:
            raise SystolicError(f"--{kind}: {path} is read or written by this check already")
        taken.add(real_path(path))
    require_writable(*files.values(), *([selection.file] if update and selection.pins else []))


def _write(files: Mapping[str, Path], findings: Sequence[Finding]) -> None:
    """Write the reports: all of them, or none."""
    from systolic.run.pins.reports import REPORTS
    from systolic.writing import write_all

    texts = {path: REPORTS[kind](findings) for kind, path in files.items()}
    write_all(
        {
            path: partial(Path.write_text, data=text, encoding="utf-8")
            for path, text in texts.items()
        }
    )
