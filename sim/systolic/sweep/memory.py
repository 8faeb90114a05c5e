"""The rows of a file's sweeps with whole summaries, kept in memory: for `systolic run`.

Nothing is stored, so every point is run. Not here: files and tables.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from systolic.config import SweepPoint
from systolic.errors import SystolicError
from systolic.report.sweeps.pairs import PointRow
from systolic.run.processes import Ended, as_finished
from systolic.run.provenance import plain
from systolic.sweep.rows import PointTask, ended_text, flat, summary_row
from systolic.sweep.search import Search
from systolic.sweep.space import SweepFile


@dataclass(frozen=True, slots=True)
class _Item:
    """A point on its way to the process that runs it: its number, labels, and task or error."""

    number: int
    row: dict[str, Any]
    task: PointTask | str
    values: bool


def finished_rows(
    file: SweepFile, *, jobs: int = 1
) -> Generator[tuple[int, PointRow] | None, None, None]:
    """Yield the rows of all points with the points' numbers, as they are done.

    jobs: how many points run at once, each in a process of its own. 1: all in this process. None
    is yielded when a moment has passed.

    Raises:
        KeyboardInterrupt: after all processes have ended and all finished rows were yielded.

    """
    searches: dict[int, tuple[Search, SweepPoint]] = {}
    with closing(as_finished(_run, _items(file, searches), jobs=jobs)) as found:
        for pair in found:
            if pair is None:
                yield None
                continue
            item, result = pair
            row = _row(item, result)
            if item.number in searches:
                search, point = searches.pop(item.number)
                search.tell(point, row if "error" in row else flat(row))
            yield item.number, row


def rows_in_order(file: SweepFile, *, jobs: int = 1) -> list[PointRow]:
    """Return the rows of all points in the order of the points."""
    found = dict(pair for pair in finished_rows(file, jobs=jobs) if pair)
    return [found[number] for number in sorted(found)]


def _row(item: _Item, result: PointRow | Ended) -> PointRow:
    if isinstance(result, Ended):
        return {**item.row, "error": ended_text(result)}
    return result


def _items(file: SweepFile, searches: dict[int, tuple[Search, SweepPoint]]) -> Iterator[_Item]:
    number = 0
    for space in file.spaces:
        search = Search(space) if space.is_search else None
        for place in range(space.size):
            point = search.ask() if search else space.point(place)
            if search:
                searches[number] = (search, point)
            row = {"sweep": point.sweep, "vary": plain(point.varied)}
            try:
                task: PointTask | str = file.resolved(point, space)
            except SystolicError as error:
                task = str(error)
            yield _Item(number, row, task, file.values)
            number += 1


def _run(item: _Item) -> PointRow:
    if isinstance(item.task, str):
        return {**item.row, "error": item.task}
    return summary_row(item.row, item.task, item.values)
