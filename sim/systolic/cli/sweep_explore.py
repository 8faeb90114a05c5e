"""`systolic sweep FILE`: explore, show how far it is, and say and draw what was found."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from systolic.cli.heartbeat import ProgressBar
from systolic.cli.run_file import console, say_where
from systolic.cli.screen import LONGEST_ERROR
from systolic.config.sweep import SweepSpace
from systolic.errors import ResultError, SystolicError, shortened
from systolic.report.summary.wording import number, plural
from systolic.report.sweeps.pairs import PointRow
from systolic.sweep.estimate import estimate
from systolic.sweep.explore import Budget, Exploration, Scheduler, SweepCounts
from systolic.sweep.local import LocalScheduler, cores
from systolic.sweep.rows import PointManner
from systolic.sweep.search import MORE_IS_BETTER
from systolic.sweep.space import SweepFile
from systolic.sweep.store import RESULTS, Store, check_version, rows_of

PICTURES = {
    "lines": "lines.png",
    "front": "pareto.png",
    "heat_map": "heat_map.png",
    "sensitivity": "sensitivity.png",
}
LINE_SECONDS = 60.0
"""Between two lines of progress where there is no terminal."""


@dataclass(frozen=True, slots=True)
class SweepArguments:
    """What the command line says of an exploration; None: the option was not given."""

    jobs: int | None
    values: bool
    plots: bool
    as_json: bool
    dry_run: bool
    retry: bool
    summaries: bool
    scheduler: str | None
    minutes: float | None
    points: int | None


def explore_and_report(file: SweepFile, out: Path, arguments: SweepArguments) -> None:
    """Explore a file into the folder `out`, print what was found, and draw it.

    Raises:
        SystolicError: it cannot go on, or points could not be run (all are in the store).
        ResultError: a result is not what the reference says, or one key has two results.

    """
    manner = PointManner(file.values, arguments.summaries)
    _ = file.points  # what is wrong with the sweeps is said before a folder is made
    if arguments.dry_run:
        _report_estimate(file, out, arguments, manner)
        return
    with Store(out) as store, SweepProgress(file.name) as progress:
        budget = Budget(arguments.minutes, arguments.points, arguments.retry)
        exploration = Exploration(file, store, budget, SweepCounts(file.points))
        counts = exploration.run(_scheduler(arguments, manner), progress)
        store.require_one_result()
    if arguments.as_json:
        sys.stdout.write(json.dumps(counts.as_json()) + "\n")
    _report(exploration, out, arguments)
    _conclude(counts, out)


def _scheduler(arguments: SweepArguments, manner: PointManner) -> Scheduler:
    if arguments.scheduler is None:
        return LocalScheduler(arguments.jobs or cores(), manner)
    from systolic.sweep.cluster import ClusterScheduler

    return ClusterScheduler(arguments.scheduler, manner)


class SweepProgress:
    """Says how far an exploration is: a bar on a terminal, else a line now and then."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bar = ProgressBar(name)
        self._began = time.monotonic()
        self._line_due = self._began + LINE_SECONDS

    def __enter__(self) -> SweepProgress:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(*error)

    def __call__(self, counts: SweepCounts) -> None:
        """Show the counts."""
        done = counts.stored + counts.computed
        if sys.stderr.isatty():
            self._bar(done, counts.points, self.text(counts))
        elif time.monotonic() >= self._line_due:
            self._line_due = time.monotonic() + LINE_SECONDS
            sys.stderr.write(f"{self._name}: {done} of {counts.points}: {self.text(counts)}\n")

    def text(self, counts: SweepCounts) -> str:
        """Return rate, remaining time and failures in words."""
        seconds = time.monotonic() - self._began
        rate = counts.computed / seconds if seconds > 0 else 0.0
        left = counts.points - counts.stored - counts.computed
        remaining = f", {duration(left / rate)} left" if rate > 0 else ""
        return f"{rate:.3g} points/s{remaining}, {counts.failed} failed"


def duration(seconds: float) -> str:
    """Return a time as people say it: 45 s, 3 min, 2 h 5 min."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    return f"{hours:,} h {rest} min" if hours else f"{minutes} min"


# -- estimates ------------------------------------------------------------------------------------


def _report_estimate(
    file: SweepFile, out: Path, arguments: SweepArguments, manner: PointManner
) -> None:
    jobs = arguments.jobs or cores()
    found = estimate(file, _stored_keys(out), manner, jobs)
    if arguments.as_json:
        sys.stdout.write(json.dumps(asdict(found)) + "\n")
        return
    console().print(Text(f"  {plural(found.points, 'point')}, {number(found.stored)} stored"))
    if found.seconds_per_point is not None and found.seconds is not None:
        size = (found.bytes_per_process or 0) / 2**20
        console().print(
            Text(
                f"  about {duration(found.seconds)}, {plural(jobs, 'point')} at once "
                f"({duration(found.seconds_per_point)} and {size:.0f} MiB each, by a sample of "
                f"{number(found.sampled)})"
            )
        )


def _stored_keys(out: Path) -> frozenset[str]:
    folder = out / RESULTS
    if not folder.is_dir():
        return frozenset()
    check_version(folder, writing=True)
    return frozenset(row["key"] for row in rows_of(folder, columns=["key"]))


# -- what was found -------------------------------------------------------------------------------


def _report(exploration: Exploration, out: Path, arguments: SweepArguments) -> None:
    from systolic.cli.sweep_tables import print_found

    if arguments.as_json and not arguments.plots:
        return
    file, counts = exploration.file, exploration.counts
    found = _sweep_rows(exploration, out)
    if not arguments.as_json:
        screen = console()
        print_found(found, screen)
        text = (
            f"{plural(counts.points, 'point')}: {number(counts.stored)} stored before, "
            f"{number(counts.computed)} computed, {number(counts.failed)} failed"
        )
        screen.print(Text(f"  {text}"), soft_wrap=True)
        say_where(screen, out)
    if arguments.plots:
        _draw(file, out, found)


def _sweep_rows(exploration: Exploration, out: Path) -> list[Any]:
    """Return the rows of each sweep that an exploration found or made, each once."""
    from systolic.report.sweeps.found import SweepRows

    spaces = exploration.file.spaces
    names = {space.table.name for space in spaces}
    rows: dict[tuple[str, str], PointRow] = {}
    for row in rows_of(out / RESULTS, keep={"sweep": names}):
        place = (row["sweep"], row["vary"])
        if hash((row["key"], *place)) not in exploration.rows:
            continue  # of a file that said something else
        before = rows.get(place)
        if before is None or before.get("error") is not None:
            rows[place] = {**row, "vary": json.loads(row["vary"])}
    return [
        SweepRows(
            name=space.table.name,
            description=space.table.description,
            rows=_in_order([r for r in rows.values() if r["sweep"] == space.table.name], space),
            zips=space.table.zip,
            objectives=space.table.objectives,
            large=MORE_IS_BETTER,
        )
        for space in spaces
    ]


def _in_order(rows: list[PointRow], space: SweepSpace) -> list[PointRow]:
    """Return rows in the order in which the sweep's table has their values."""
    place = {
        key: {repr(value): number for number, value in enumerate(values)}
        for key, values in space.table.vary.items()
    }
    return sorted(
        rows, key=lambda row: [place[key].get(repr(v), 0) for key, v in row["vary"].items()]
    )


def _draw(file: SweepFile, out: Path, found: Sequence[Any]) -> None:
    from systolic.report.sweeps.pictures import draw_found

    for kind, name in PICTURES.items():
        draw_found(kind, found, out / name, title=file.file.description or file.name)


def _conclude(counts: SweepCounts, out: Path) -> None:
    """Raise the error of the first point that could not be run, or say that results are wrong."""
    where = out / RESULTS
    if counts.failed:
        failed = f"{number(counts.failed)} of {plural(counts.points, 'point')} could not be run"
        first = shortened(counts.first_error, LONGEST_ERROR)
        raise SystolicError(f"{failed} (see {where}); the first: {first}")
    if counts.wrong:
        raise ResultError(
            f"{number(counts.wrong)} of {plural(counts.points, 'point')} have a wrong result: "
            f'column "equal" of {where}'
        )
