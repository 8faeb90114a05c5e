"""`systolic run` on a run file with sweeps: points as rows on the screen and in files.

Files: sweep.csv, to which each point is added as soon as it is done; summary.json, which is whole
whenever it is read; pictures. Not here: what a point is (`sim.config.sweep`), how it is run
(`sim.run_sweep`), the tables (`sim.cli_sweep`).
"""

from __future__ import annotations

import csv
import io
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import typer

from sim.cli_run import Progress, console, say_where, summary_text
from sim.config import RunConfig, SweepTable, expand
from sim.config.files import replacing, write_text
from sim.config.sweep import values_text
from sim.errors import InterruptedRunError, SystolicError, shortened
from sim.report.wording import plural
from sim.run_sweep import Row, sweep_rows

RESULTS = ("cycles", "time_ns", "bound_cycles", "bound_why", "utilisation", "equal", "error")
# What a run or a sweep before this one may have left in the folder, and what would mislead there.
OWN_FILES = ("sweep.csv", "summary.json", "sweep.png", "comparison.png")
OF_OTHER_RUNS = ("result.npy", "wavefront.png")
WRONG = 1
# summary.json is written anew during a sweep, but takes no more than this share of the time.
JSON_EVERY_SECONDS, JSON_SHARE = 1.0, 0.05
LONGEST_ERROR = 400


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """What the command line says of a sweep: points at once, with values or not, and its output."""

    jobs: int = 1
    values: bool = True
    as_json: bool = False
    plots: bool = True


def sweep_and_report(config: RunConfig, out: Path, options: SweepOptions) -> None:
    """Run every point, print a table of each sweep, and write the files to the folder `out`.

    Raises:
        SystolicError: points could not be run (all others are in the table and the files).
        InterruptedRunError: the user ended it; the points that were done are in the files.
        typer.Exit: with status 1, a result is not what the reference says.

    """
    points = list(expand(config))
    rows: list[Row] = []
    try:
        with (
            _files(config, out, rows, len(points)) as add,
            Progress(config.name) as progress,
            closing(sweep_rows(points, jobs=options.jobs, values=options.values)) as results,
        ):
            for row in results:
                add(row)
                progress(len(rows), len(points))
    except KeyboardInterrupt:
        done = f"{len(rows)} of {plural(len(points), 'point')}"
        raise InterruptedRunError(f"interrupted: {done} done, in {out / 'sweep.csv'}") from None
    _show(config, rows, out, options)
    _conclude(rows, out)


def _show(config: RunConfig, rows: Sequence[Row], out: Path, options: SweepOptions) -> None:
    if options.as_json:
        sys.stdout.write(_json(config, rows, len(rows)))
    else:
        from sim.cli_sweep import print_sweeps

        screen = console()
        print_sweeps(config, rows, screen)
        say_where(screen, out)
    if options.plots:
        _plot(config, rows, out)


def _conclude(rows: Sequence[Row], out: Path) -> None:
    """End with a status other than 0 if a point could not be run, or gave a wrong result."""
    failed = [row for row in rows if "error" in row]
    if failed:
        first = failed[0]
        count = f"{len(failed)} of {plural(len(rows), 'point')} could not be run"
        where = f"{first['sweep']}: {shortened(values_text(first['vary']))}"
        error = shortened(first["error"], LONGEST_ERROR)
        raise SystolicError(f"{count} (see {out / 'sweep.csv'}); the first: {where}: {error}")
    if any(row["values"]["equal"] is False for row in rows):
        raise typer.Exit(WRONG)


# -- files ----------------------------------------------------------------------------------------


@contextmanager
def _files(config: RunConfig, out: Path, rows: list[Row], total: int) -> Iterator[Any]:
    """Give a function that adds a row to `rows` and to the files; write summary.json at the end.

    However the sweep ends, the files hold the rows that were added.
    """
    keys = list(dict.fromkeys(key for sweep in config.sweep for key in sweep.vary))
    summary = _Summary(config, out / "summary.json", total)
    with _new_csv(out) as file:
        file.write(_line(["sweep", *keys, *RESULTS]))

        def add(row: Row) -> None:
            rows.append(row)
            file.write(_line(csv_cells(row, keys)))
            file.flush()
            summary.renew(rows)

        try:
            yield add
        finally:
            summary.write(rows)


@contextmanager
def _new_csv(out: Path) -> Iterator[TextIO]:
    """Open an empty sweep.csv, in a folder without what another run would leave in it."""
    path = out / "sweep.csv"
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in (*OWN_FILES, *OF_OTHER_RUNS):
            (out / name).unlink(missing_ok=True)
        file = path.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise SystolicError(f"{path}: cannot be written ({error.strerror or error})") from None
    with file:
        yield file


class _Summary:
    """summary.json, written anew now and then while points come in."""

    def __init__(self, config: RunConfig, path: Path, total: int) -> None:
        self._config, self._path, self._total = config, path, total
        self._due = time.monotonic() + JSON_EVERY_SECONDS

    def renew(self, rows: Sequence[Row]) -> None:
        """Write it if it is time to."""
        if time.monotonic() >= self._due:
            self.write(rows)

    def write(self, rows: Sequence[Row]) -> None:
        """Write it, and say when it is time again."""
        began = time.monotonic()
        write_text(self._path, _json(self._config, rows, self._total))
        ended = time.monotonic()
        self._due = ended + max(JSON_EVERY_SECONDS, (ended - began) / JSON_SHARE)


def _json(config: RunConfig, rows: Sequence[Row], total: int) -> str:
    """Return summary.json: the summaries of all points so far, and whether these are all."""
    complete = len(rows) == total
    return summary_text({"run": config.name, "complete": complete, "points": list(rows)})


def csv_cells(row: Row, keys: Sequence[str]) -> list[Any]:
    """Return the cells of a row of sweep.csv: the sweep, the varied keys, the results."""
    varied = [_cell(row["vary"][key]) if key in row["vary"] else "" for key in keys]
    if "error" in row:
        return [row["sweep"], *varied, *[""] * (len(RESULTS) - 1), " ".join(row["error"].split())]
    bound = row["bound"]
    found = (row["cycles"], row["time_ns"], bound["cycles"], bound["why"], row["utilisation"])
    return [row["sweep"], *varied, *found, _cell(row["values"]["equal"]), ""]


def _cell(value: Any) -> Any:
    """Return a value as text where Python's own would be unlike TOML's and JSON's."""
    if value is None:
        return ""
    if isinstance(value, bool | list | Mapping):
        return json.dumps(value)
    return value


def _line(cells: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


# -- pictures -------------------------------------------------------------------------------------


def _plot(config: RunConfig, rows: Sequence[Row], out: Path) -> None:
    """Draw the sweeps that ran both ways as comparison.png, the others as sweep.png."""
    from sim.report.comparison import plot_comparison
    from sim.report.pairs import comparisons
    from sim.report.sweep import plot_sweeps

    title = config.description or config.name
    good = [row for row in rows if "error" not in row]
    both = {one.sweep for one in comparisons([row for row in good if "compile.via" in row["vary"]])}
    if both:
        notes = {sweep.name: sweep.description for sweep in config.sweep}
        with replacing(out / "comparison.png") as path:
            points = [row for row in good if row["sweep"] in both]
            plot_comparison(points, path, title=title, notes=notes)
    others = [
        (sweep.name, sweep.description, _of(sweep, good))
        for sweep in config.sweep
        if sweep.name not in both and _of(sweep, good)
    ]
    if others:
        with replacing(out / "sweep.png") as path:
            plot_sweeps(others, path, title=title)


def _of(sweep: SweepTable, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["sweep"] == sweep.name]
