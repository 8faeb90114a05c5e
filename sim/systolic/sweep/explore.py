"""Exploring: the points of a file's sweeps that are not stored yet are run, and stored.

A point that the store has is not run again. Not here: where points are run (`local`, `cluster`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from systolic.config import SweepPoint
from systolic.config.sweep import SweepSpace
from systolic.errors import InterruptedRunError, SystolicError
from systolic.sweep.rows import MACHINE, POINT, Answer, PointTask, failed
from systolic.sweep.search import Search
from systolic.sweep.space import Label, SweepFile
from systolic.sweep.store import Store, Stored


class Scheduler(Protocol):
    """Runs tasks somewhere."""

    def answers(
        self, tasks: Iterable[PointTask]
    ) -> Generator[tuple[PointTask, Answer] | None, None, None]:
        """Yield tasks with their answers as they are done; None when a moment has passed.

        A task is taken only when there is room for it, since later tasks depend on answers.
        """
        ...


@dataclass(slots=True)
class SweepCounts:
    """How far an exploration is.

    points: of all sweeps. stored: found in the store. computed: run now. failed: of both these,
    those that have an error. wrong: those whose result is not what the reference says.
    first_failed: the key of the first that failed. first_error: its error, with sweep and values.
    """

    points: int
    stored: int = 0
    computed: int = 0
    failed: int = 0
    wrong: int = 0
    first_error: str = ""
    first_failed: str = ""

    def add(self, key: str, point: SweepPoint, stored: Stored, *, is_new: bool) -> None:
        """Count a point that has a row now."""
        self.computed += is_new
        self.stored += not is_new
        self.wrong += stored.is_wrong
        if stored.failure:
            self.failed += 1
            if not self.first_failed:
                self.first_failed, self.first_error = key, point.name

    def explain(self, error: str) -> None:
        """Say what was wrong with the first point that failed."""
        self.first_error += f": {error}"

    def as_json(self) -> dict[str, int]:
        """Return the four counts of `systolic sweep --json`."""
        found = asdict(self)
        return {key: found[key] for key in ("points", "stored", "computed", "failed")}


@dataclass(frozen=True, slots=True)
class Budget:
    """When to stop taking further points. retry: run again what failed by its machine."""

    minutes: float | None = None
    points: int | None = None
    retry: bool = False


@dataclass(slots=True)
class Exploration:
    """One exploration of a file into a store. rows: hashes of the rows that are its points'."""

    file: SweepFile
    store: Store
    budget: Budget
    counts: SweepCounts
    rows: set[int] = field(default_factory=set)
    _waiting: dict[str, list[tuple[Label, Search | None, SweepPoint]]] = field(default_factory=dict)
    _taken: int = 0
    _until: float = float("inf")
    _later: list[tuple[Label, SweepPoint]] = field(default_factory=list)

    def run(self, scheduler: Scheduler, progress: Callable[[SweepCounts], None]) -> SweepCounts:
        """Run what is not stored; raises SystolicError if that cannot go on, nothing being lost."""
        if self.budget.minutes is not None:
            self._until = time.monotonic() + 60 * self.budget.minutes
        answers = scheduler.answers(self._tasks())
        try:
            for pair in answers:
                if pair is not None:
                    self._take(*pair)
                self.store.tick()
                progress(self.counts)
        except KeyboardInterrupt:
            counts = self.counts
            raise InterruptedRunError(
                f"interrupted: {counts.stored + counts.computed} of {counts.points} points are in "
                f"{self.store.folder}"
            ) from None
        finally:
            answers.close()
        self._copy_later()
        if self.counts.failed:
            self.counts.explain(_best(self.store.rows([self.counts.first_failed]))["error"])
        return self.counts

    def is_over(self) -> bool:
        """Return whether the budget is used up."""
        most = self.budget.points
        return (most is not None and self._taken >= most) or time.monotonic() >= self._until

    # -- points to run ----------------------------------------------------------------------------

    def _tasks(self) -> Iterator[PointTask]:
        for space in self.file.spaces:
            yield from self._searched(space) if space.is_search else self._listed(space)

    def _listed(self, space: SweepSpace) -> Iterator[PointTask]:
        first = self._first(space.size)
        for number in range(space.size):
            if self.is_over():
                return
            point = space.point((number + first) % space.size)
            yield from self._to_run(point, space, None)

    def _first(self, size: int) -> int:
        """Return the point to begin with: the first, or another if others write here too.

        So several writers do not run the same points at the same time.
        """
        return self.store.chance % size if self.store.has_other_writers else 0

    def _searched(self, space: SweepSpace) -> Iterator[PointTask]:
        search = Search(space)
        self._tell_stored(search)
        while search.found < space.size and not self.is_over():
            yield from self._to_run(search.ask(), space, search)

    def _tell_stored(self, search: Search) -> None:
        """Tell a search what the store has of its points."""
        for row in self.store.rows_of_sweep(search.space.table.name):
            varied = json.loads(row["vary"])
            if search.found >= search.space.size or varied.keys() != search.space.table.vary.keys():
                continue
            point = search.space.point_with(varied)
            if self._resolved(point, search.space)[0] == row["key"] and search.know(varied, row):
                self.rows.add(hash((row["key"], row["sweep"], row["vary"])))
                known = self.store.seen.keys[row["key"]]
                self.counts.add(row["key"], point, known, is_new=False)

    def _to_run(
        self, point: SweepPoint, space: SweepSpace, search: Search | None
    ) -> Iterator[PointTask]:
        key, found = self._resolved(point, space)
        label = self.file.label(point, key)
        known = self.store.seen.keys.get(key)
        if known is not None and not (self.budget.retry and known.failure == MACHINE):
            self._use_stored(label, point, known, search)
        elif isinstance(found, Answer):
            self._keep(label, point, found)
            if search is not None:
                search.tell(point, json.loads(label.line(found.results)))
        elif key in self._waiting:
            self._waiting[key].append((label, search, point))
        else:
            self._waiting[key] = [(label, search, point)]
            self._taken += 1
            yield found

    def _resolved(self, point: SweepPoint, space: SweepSpace) -> tuple[str, PointTask | Answer]:
        """Return the key of a point, and its task, or the answer if it cannot be resolved."""
        try:
            task = self.file.resolved(point, space)
        except SystolicError as error:
            return self.file.key_of_error(point), failed(str(error), POINT, space.table.program)
        return task.key, task

    # -- rows -------------------------------------------------------------------------------------

    def _take(self, task: PointTask, answer: Answer) -> None:
        """Store the answer of a task, for every point that waits for it."""
        waiting = self._waiting.pop(task.key)
        for number, (label, search, point) in enumerate(waiting):
            if number == 0:
                self._keep(label, point, answer)
            else:
                self._write(label, answer)
                stored = Stored(answer.failure, answer.is_wrong)
                self.counts.add(label.key, point, stored, is_new=False)
            if search is not None:
                search.tell(point, json.loads(label.line(answer.results)))

    def _keep(self, label: Label, point: SweepPoint, answer: Answer) -> None:
        self._write(label, answer)
        stored = Stored(answer.failure, answer.is_wrong)
        self.counts.add(label.key, point, stored, is_new=True)

    def _write(self, label: Label, answer: Answer) -> None:
        self.rows.add(hash(label.row))
        if hash(label.row) in self.store.seen.rows and not self.budget.retry:
            return  # another writer was at it too, and was faster
        stored = Stored(answer.failure, answer.is_wrong)
        self.store.add(label.row, stored, label.line(answer.results))

    def _use_stored(
        self, label: Label, point: SweepPoint, stored: Stored, search: Search | None
    ) -> None:
        self.counts.add(label.key, point, stored, is_new=False)
        if search is not None:
            search.tell(point, _best(self.store.rows([label.key])))
        self.rows.add(hash(label.row))
        if hash(label.row) not in self.store.seen.rows:
            self._later.append((label, point))

    def _copy_later(self) -> None:
        """Give points that bear other labels than the stored ones rows of their own."""
        rows = {row["key"]: row for row in self.store.rows(label.key for label, _ in self._later)}
        for label, _ in self._later:
            row = rows[label.key]
            varied = json.loads(row["vary"])
            results = {k: v for k, v in row.items() if k not in {"key", "sweep", "vary", *varied}}
            stored = self.store.seen.keys[label.key]
            text = json.dumps({k: v for k, v in results.items() if v is not None})
            self.store.add(label.row, stored, label.line(text.encode()[1:-1]))
        self._later.clear()


def _best(rows: list[dict[str, Any]]) -> Mapping[str, Any]:
    """Return the row of a key that counts: if there is one, one whose machine did not fail."""
    return min(rows, key=lambda row: row.get("failure") == MACHINE)
