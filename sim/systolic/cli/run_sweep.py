"""`systolic run` on a run file with sweeps: each point is a row on the screen and in the files.

A point is added to sweep.csv as soon as it is done; summary.json is a whole file at every moment;
pictures come last. Not here: what a point is (`systolic.config.sweep`), how it is run
(`systolic.run.sweep`), the tables (`systolic.cli.sweep_tables`).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from systolic.cli.run_file import Accept, ProgressBar, console, data_files, say_where, summary_text
from systolic.cli.screen import LONGEST_ERROR
from systolic.config import RunConfig, SweepTable, expand
from systolic.config.sweep import values_text
from systolic.errors import InterruptedRunError, SystolicError, shortened
from systolic.report import views
from systolic.report.summary.wording import plural
from systolic.report.sweeps.pairs import PointRow
from systolic.run.folder import COMPARISON, SUMMARY, SWEEP, SWEEP_ROWS, RunFolder
from systolic.run.provenance import provenance
from systolic.run.sweep import sweep_rows
from systolic.run.verdict import require_right
from systolic.writing import csv_row, replacing, write_text

RESULTS = ("cycles", "time_ns", "bound_cycles", "bound_why", "utilisation", "equal", "error")
# Keys of a point's own summary that would be the same for every point.
OF_THE_WHOLE_SWEEP = ("schema", "version", "config", "overrides", "files", "options")
# summary.json is written anew during a sweep; this takes at most this share of the time.
JSON_EVERY_SECONDS, JSON_SHARE = 1.0, 0.05


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """What the command line says of a sweep.

    jobs: how many points run at once. values: False for times only. as_json, plots: what is
    printed, and whether pictures are drawn.
    """

    jobs: int = 1
    values: bool = True
    as_json: bool = False
    plots: bool = True


def sweep_and_report(
    config: RunConfig, out: Path, options: SweepOptions, accept: Accept | None = None
) -> None:
    """Run every point, print a table of each sweep, and write the files to the folder `out`.

    accept: a function that is given the summary before anything is written. It raises
    SystolicError, or returns a line to print. With it, points are written once all are done.

    Raises:
        SystolicError: points could not be run (all others are in the table and the files).
        InterruptedRunError: the user ended the sweep; the points that were done are in the files.
        ResultError: a result is not what the reference says.

    """
    folder = RunFolder(out)
    folder.check(_file_names(options), data_files(config))
    note = ""
    if accept is None:
        rows = _run_and_write(config, folder, options)
    else:
        rows = _run(config, options)
        note = accept(_summary(config, rows, len(rows), options))
        with _files(config, folder, [], len(rows), options) as add:
            for row in rows:
                add(row)
    _show(config, rows, out, options, note)
    _conclude(rows, out)


def _file_names(options: SweepOptions) -> list[str]:
    return [SUMMARY, SWEEP_ROWS, *((COMPARISON, SWEEP) if options.plots else ())]


def _run(config: RunConfig, options: SweepOptions) -> list[PointRow]:
    points = list(expand(config))
    rows: list[PointRow] = []
    with ProgressBar(config.name) as progress:
        for row in sweep_rows(points, jobs=options.jobs, values=options.values):
            rows.append(row)
            progress(len(rows), len(points))
    return rows


def _run_and_write(config: RunConfig, folder: RunFolder, options: SweepOptions) -> list[PointRow]:
    """Run every point, and write each to the files as soon as it is done."""
    points = list(expand(config))
    rows: list[PointRow] = []
    try:
        with (
            _files(config, folder, rows, len(points), options) as add,
            ProgressBar(config.name) as progress,
            closing(sweep_rows(points, jobs=options.jobs, values=options.values)) as results,
        ):
            for row in results:
                add(row)
                progress(len(rows), len(points))
    except KeyboardInterrupt:
        done = f"{len(rows)} of {plural(len(points), 'point')}"
        raise InterruptedRunError(
            f"interrupted: {done} done, in {folder.path / SWEEP_ROWS}"
        ) from None
    return rows


def _show(
    config: RunConfig, rows: Sequence[PointRow], out: Path, options: SweepOptions, note: str
) -> None:
    if options.as_json:
        sys.stdout.write(summary_text(_summary(config, rows, len(rows), options)))
    else:
        from systolic.cli.sweep_tables import print_sweeps

        screen = console()
        print_sweeps(config, rows, screen)
        if note:
            screen.print(f"  {note}", style="green", markup=False, soft_wrap=True)
        say_where(screen, out)
    if options.plots:
        _plot(config, rows, out)


def _conclude(rows: Sequence[PointRow], out: Path) -> None:
    """Raise the error of the first point that could not be run, or whose result is wrong."""
    failed = [row for row in rows if "error" in row]
    if failed:
        first = failed[0]
        count = f"{len(failed)} of {plural(len(rows), 'point')} could not be run"
        where = f"{first['sweep']}: {shortened(values_text(first['vary']))}"
        error = shortened(first["error"], LONGEST_ERROR)
        raise SystolicError(f"{count} (see {out / SWEEP_ROWS}); the first: {where}: {error}")
    for row in rows:
        require_right(row)


# -- files ----------------------------------------------------------------------------------------


@contextmanager
def _files(
    config: RunConfig, folder: RunFolder, rows: list[PointRow], total: int, options: SweepOptions
) -> Iterator[Any]:
    """Give a function that adds a row to `rows` and to the files; write summary.json at the end.

    Also after an error or an interruption the files hold the rows that were added.
    """
    keys = list(dict.fromkeys(key for sweep in config.sweep for key in sweep.vary))
    summary = _SummaryFile(config, folder.path / SUMMARY, total, options)
    with _new_csv(folder) as file:
        file.write(csv_row(["sweep", *keys, *RESULTS]))

        def add(row: PointRow) -> None:
            rows.append(row)
            file.write(csv_row(csv_cells(row, keys)))
            file.flush()
            summary.renew(rows)

        try:
            yield add
        finally:
            summary.write(rows)


@contextmanager
def _new_csv(folder: RunFolder) -> Iterator[TextIO]:
    """Remove the files of an older run from the folder, and open an empty sweep.csv there."""
    path = folder.path / SWEEP_ROWS
    folder.clear()
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise SystolicError(f"{path}: cannot be written ({error.strerror or error})") from None
    with file:
        yield file


class _SummaryFile:
    """The file summary.json, which is written anew now and then while points are added."""

    def __init__(self, config: RunConfig, path: Path, total: int, options: SweepOptions) -> None:
        self._config, self._path, self._total, self._options = config, path, total, options
        self._due = time.monotonic() + JSON_EVERY_SECONDS

    def renew(self, rows: Sequence[PointRow]) -> None:
        """Write the file if its time has come."""
        if time.monotonic() >= self._due:
            self.write(rows)

    def write(self, rows: Sequence[PointRow]) -> None:
        """Write the file, and set the time from which it may be written again."""
        began = time.monotonic()
        found = _summary(self._config, rows, self._total, self._options)
        write_text(self._path, summary_text(found))
        ended = time.monotonic()
        self._due = ended + max(JSON_EVERY_SECONDS, (ended - began) / JSON_SHARE)


def _summary(
    config: RunConfig, rows: Sequence[PointRow], total: int, options: SweepOptions
) -> dict[str, Any]:
    """Return summary.json: the sweep's provenance, the points so far, and whether these are all."""
    points = [
        {key: value for key, value in row.items() if key not in OF_THE_WHOLE_SWEEP} for row in rows
    ]
    origin = provenance(config, config.engine, values=options.values)
    return {"run": config.name, "complete": len(rows) == total, **origin, "points": points}


def csv_cells(row: PointRow, keys: Sequence[str]) -> list[Any]:
    """Return the cells of a row of sweep.csv: the sweep, the varied keys, the results."""
    varied = [_cell(row["vary"][key]) if key in row["vary"] else "" for key in keys]
    if "error" in row:
        return [row["sweep"], *varied, *[""] * (len(RESULTS) - 1), " ".join(row["error"].split())]
    bound = row["bound"]
    found = (row["cycles"], row["time_ns"], bound["cycles"], bound["why"], row["utilisation"])
    return [row["sweep"], *varied, *found, _cell(row["values"]["equal"]), ""]


def _cell(value: Any) -> Any:
    """Return a value for a cell: true, lists and tables as JSON writes them, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool | list | Mapping):
        return json.dumps(value)
    return value


# -- pictures -------------------------------------------------------------------------------------


def _plot(config: RunConfig, rows: Sequence[PointRow], out: Path) -> None:
    """Draw the sweeps that ran both ways as comparison.png, the others as sweep.png."""
    from systolic.report.sweeps.pairs import comparisons

    title = config.description or config.name
    good = [row for row in rows if "error" not in row]
    both = {one.sweep for one in comparisons([row for row in good if "compile.via" in row["vary"]])}
    if both:
        notes = {sweep.name: sweep.description for sweep in config.sweep}
        with replacing(out / COMPARISON) as path:
            points = [row for row in good if row["sweep"] in both]
            views.COMPARISON.draw(views.ComparisonSubject(points, notes), path, title)
    others = [
        (sweep.name, sweep.description, _of(sweep, good))
        for sweep in config.sweep
        if sweep.name not in both and _of(sweep, good)
    ]
    if others:
        with replacing(out / SWEEP) as path:
            views.SWEEP.draw(views.SweepSubject(others), path, title)


def _of(sweep: SweepTable, rows: Sequence[PointRow]) -> list[PointRow]:
    return [row for row in rows if row["sweep"] == sweep.name]
