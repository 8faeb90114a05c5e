"""`systolic run` on a run file with sweeps: each point is a row on the screen and in the files.

A point is added to sweep.csv as soon as it is done, whichever comes first; once all are done, the
rows are put in the order of the points. summary.json is a whole file at every moment; pictures come
last. Not here: what a point is (`systolic.config.sweep`), how it is run (`systolic.sweep.memory`),
the tables (`systolic.cli.sweep_tables`).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from systolic.cli.heartbeat import ProgressBar
from systolic.cli.run_file import Accept, console, data_files, say_where, summary_text
from systolic.cli.screen import LONGEST_ERROR
from systolic.config import RunConfig, SweepTable
from systolic.config.sweep import values_text
from systolic.errors import InterruptedRunError, SystolicError, shortened
from systolic.report import views
from systolic.report.summary.wording import plural
from systolic.report.sweeps.pairs import PointRow
from systolic.run.folder import COMPARISON, SUMMARY, SWEEP, SWEEP_ROWS, RunFolder
from systolic.run.provenance import provenance
from systolic.run.verdict import require_right
from systolic.sweep.journal import LineFile
from systolic.sweep.memory import finished_rows
from systolic.sweep.rows import RESULTS, flat
from systolic.sweep.space import SweepFile
from systolic.writing import csv_row, replacing, write_text

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
    file = SweepFile(config, options.values)
    total = file.points  # what is wrong with the sweeps is said before a file is touched
    folder = RunFolder(out)
    folder.check(_file_names(options), data_files(config))
    note = ""
    if accept is None:
        rows = _run_and_write(file, folder, options)
    else:
        rows = _run(file, options)
        note = accept(_summary(config, rows, total, options))
        _write_all(config, folder, rows, options)
    _show(config, rows, out, options, note)
    _conclude(rows, out)


def _file_names(options: SweepOptions) -> list[str]:
    return [SUMMARY, SWEEP_ROWS, *((COMPARISON, SWEEP) if options.plots else ())]


def _run(file: SweepFile, options: SweepOptions) -> list[PointRow]:
    found: dict[int, PointRow] = {}
    with ProgressBar(file.name) as progress:
        for pair in finished_rows(file, jobs=options.jobs):
            if pair is not None:
                found[pair[0]] = pair[1]
            progress(len(found), file.points)
    return _ordered(found)


def _run_and_write(file: SweepFile, folder: RunFolder, options: SweepOptions) -> list[PointRow]:
    """Run every point, and write each to the files as soon as it is done."""
    found: dict[int, PointRow] = {}
    try:
        with (
            _files(file.file, folder, found, file.points, options) as add,
            ProgressBar(file.name) as progress,
            closing(finished_rows(file, jobs=options.jobs)) as results,
        ):
            for pair in results:
                if pair is not None:
                    add(*pair)
                progress(len(found), file.points)
    except KeyboardInterrupt:
        done = f"{len(found)} of {plural(file.points, 'point')}"
        raise InterruptedRunError(
            f"interrupted: {done} done, in {folder.path / SWEEP_ROWS}"
        ) from None
    return _ordered(found)


def _ordered(rows: Mapping[int, PointRow]) -> list[PointRow]:
    return [rows[number] for number in sorted(rows)]


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
    config: RunConfig,
    folder: RunFolder,
    rows: dict[int, PointRow],
    total: int,
    options: SweepOptions,
) -> Iterator[Callable[[int, PointRow], None]]:
    """Give a function that adds a row by its number to `rows` and to the files.

    At the end, sweep.csv is put in the order of the points and summary.json is written; also after
    an error or an interruption the files hold the rows that were added.
    """
    keys = _keys(config)
    summary = _SummaryFile(config, folder.path / SUMMARY, total, options)
    file = _new_csv(folder)
    try:
        file.add(_row(["sweep", *keys, *RESULTS]))

        def add(number: int, row: PointRow) -> None:
            rows[number] = row
            file.add(_row(csv_cells(row, keys)))
            summary.renew(rows)

        try:
            yield add
        finally:
            summary.write(rows)
    finally:
        file.close()
    _write_csv(folder.path / SWEEP_ROWS, keys, _ordered(rows))


def _write_all(
    config: RunConfig, folder: RunFolder, rows: Sequence[PointRow], options: SweepOptions
) -> None:
    with _files(config, folder, {}, len(rows), options) as add:
        for number, row in enumerate(rows):
            add(number, row)


def _keys(config: RunConfig) -> list[str]:
    return list(dict.fromkeys(key for sweep in config.sweep for key in sweep.vary))


def _new_csv(folder: RunFolder) -> LineFile:
    """Remove the files of an older run from the folder, and open an empty sweep.csv there."""
    path = folder.path / SWEEP_ROWS
    folder.clear()
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SystolicError(f"{path}: cannot be written ({error.strerror or error})") from None
    return LineFile(path)


def _write_csv(path: Path, keys: Sequence[str], rows: Sequence[PointRow]) -> None:
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(_row(["sweep", *keys, *RESULTS]))
        for row in rows:
            file.write(_row(csv_cells(row, keys)))


class _SummaryFile:
    """The file summary.json, which is written anew now and then while points are added."""

    def __init__(self, config: RunConfig, path: Path, total: int, options: SweepOptions) -> None:
        self._config, self._path, self._total, self._options = config, path, total, options
        self._due = time.monotonic() + JSON_EVERY_SECONDS

    def renew(self, rows: Mapping[int, PointRow]) -> None:
        """Write the file if its time has come."""
        if time.monotonic() >= self._due:
            self.write(rows)

    def write(self, rows: Mapping[int, PointRow]) -> None:
        """Write the file, and set the time from which it may be written again."""
        began = time.monotonic()
        found = _summary(self._config, _ordered(rows), self._total, self._options)
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
    varied = [row["vary"].get(key) for key in keys]
    found = {"error": " ".join(row["error"].split())} if "error" in row else flat(row)
    return [_cell(each) for each in (row["sweep"], *varied, *map(found.get, RESULTS))]


def _cell(value: Any) -> Any:
    """Return a value for a cell: true, lists and tables as JSON writes them, nothing for None.

    A text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    if value is None:
        return ""
    if isinstance(value, bool | list | Mapping):
        return json.dumps(value)
    return value


def _row(cells: Sequence[Any]) -> bytes:
    return csv_row(cells).encode()


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
    zips = {sweep.name: sweep.zip for sweep in config.sweep}
    if others:
        with replacing(out / SWEEP) as path:
            views.SWEEP.draw(views.SweepSubject(others, zips), path, title)


def _of(sweep: SweepTable, rows: Sequence[PointRow]) -> list[PointRow]:
    return [row for row in rows if row["sweep"] == sweep.name]
