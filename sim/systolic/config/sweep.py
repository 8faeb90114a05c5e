"""Sweeps: many runs of one run file. A point is the run with a few values replaced.

Not here: running the points, and the search of method "optuna" (`systolic.sweep`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from systolic.config.load import RunConfig, load_overridden
from systolic.config.override import Override, split_key
from systolic.config.run_file import SweepTable
from systolic.errors import ConfigError, listed, perhaps, shortened

MOST_POINTS = 10_000_000
"""Points of a file: an hour of a client's work at 0.3 ms each, besides the runs themselves."""


class Swept(Protocol):
    """What a sweep needs of its file: `RunConfig` has it, and so has a sweep over a program."""

    @property
    def path(self) -> Path:
        """Return the file whose values are replaced."""
        ...

    @property
    def overrides(self) -> tuple[Override, ...]:
        """Return what replaces values of the file at every point."""
        ...

    @property
    def sweep(self) -> tuple[SweepTable, ...]:
        """Return the tables [[sweep]]."""
        ...


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One run of a sweep: the sweep's name, and the varied values by their keys.

    path: the run file. overrides: everything that replaces its values; the varied values come last.
    The values are not checked here; reading `config` raises ConfigError if they make no sense.
    """

    sweep: str
    varied: dict[str, Any]
    path: Path
    overrides: tuple[Override, ...]

    @property
    def config(self) -> RunConfig:
        """Return the run, read and checked now; ConfigError if a value does not fit its key."""
        return load_overridden(self.path, self.overrides)

    @property
    def name(self) -> str:
        """Return ``sweep: key=value key=value``, by the last word of each key."""
        return f"{self.sweep}: {values_text(self.varied)}"


def values_text(varied: dict[str, Any]) -> str:
    """Return ``key=value key=value``, by the last word of each key."""
    return " ".join(f"{key.rsplit('.', 1)[-1]}={v}" for key, v in varied.items())


@dataclass(frozen=True)
class SweepSpace:
    """The points of one table [[sweep]], by number; none is made before it is asked for."""

    table: SweepTable
    file: Swept

    @cached_property
    def axes(self) -> list[list[dict[str, Any]]]:
        """Return, for each key or group of zipped keys, the values that it takes in turn.

        A group stands in place of its first key in `vary`.
        """
        table = self.table
        group_of = {key: group for group in table.zip for key in group}
        groups = dict.fromkeys(group_of.get(key, (key,)) for key in table.vary)
        return [
            [dict(zip(group, values, strict=True)) for values in zip(*lists, strict=True)]
            for group in groups
            for lists in [[table.vary[key] for key in group]]
        ]

    @cached_property
    def combinations(self) -> int:
        """Return how many points the grid of all values has."""
        return math.prod(map(len, self.axes))

    @cached_property
    def size(self) -> int:
        """Return how many points the sweep has."""
        table = self.table
        if table.method == "list":
            return len(table.points if isinstance(table.points, list) else self._rows)
        if table.method == "grid":
            return self.combinations
        assert isinstance(table.points, int)
        return min(table.points, self.combinations)

    @property
    def is_search(self) -> bool:
        """Return whether later points depend on the results of earlier ones."""
        return self.table.method == "optuna"

    def point(self, number: int) -> SweepPoint:
        """Return a point by its number, from 0; the sweep is no search."""
        table = self.table
        if table.method == "list":
            listed = table.points if isinstance(table.points, list) else self._rows
            return self.point_with(dict(listed[number]))
        return self.combination(self._drawn[number] if table.method == "random" else number)

    def combination(self, number: int) -> SweepPoint:
        """Return a point of the grid; the last key varies fastest."""
        places = []
        for axis in reversed(self.axes):
            number, place = divmod(number, len(axis))
            places.append(place)
        return self.at(places[::-1])

    def at(self, places: Sequence[int]) -> SweepPoint:
        """Return the point of the grid with these places on the axes."""
        merged: dict[str, Any] = {}
        for axis, place in zip(self.axes, places, strict=True):
            merged |= axis[place]
        return self.point_with({key: merged[key] for key in self.table.vary})

    def point_with(self, varied: dict[str, Any]) -> SweepPoint:
        """Return the point with these values."""
        overrides = (*self.file.overrides, self._none)
        own = [
            Override(path, varied[key], f"{self._origin}: {shortened(f'{key}={varied[key]}')}")
            for key, path in self._paths.items()
            if key in varied
        ]
        return SweepPoint(self.table.name, varied, self.file.path, (*overrides, *own))

    def check(self) -> None:
        """Raise ConfigError for keys that cannot vary, or that the method does not go with."""
        _ = self._paths
        table, where = self.table, self._origin
        counted = isinstance(table.points, int)
        if table.method in ("random", "optuna") and not counted:
            raise ConfigError(f'{where}: method = "{table.method}" needs points = a number')
        if table.method == "grid" and table.points is not None:
            raise ConfigError(
                f'{where}: points: method = "grid" takes every combination; needed method = '
                '"random", "optuna" or "list"'
            )
        if table.method == "list":
            self._check_list()

    def _check_list(self) -> None:
        table, where = self.table, self._origin
        if isinstance(table.points, int):
            raise ConfigError(f'{where}: points: method = "list" needs a list of tables')
        if table.zip:
            raise ConfigError(f'{where}: zip: the keys of method = "list" all go together')
        if table.points is not None:
            for each in table.points:
                for key in each:
                    if key not in table.vary:
                        raise ConfigError(
                            f'{where}: points: "{shortened(key)}" is no key of vary (known: '
                            f"{listed(table.vary)}){perhaps(key, table.vary)}"
                        )
            return
        counts = {len(values) for values in table.vary.values()}
        if len(counts) > 1:
            found = ", ".join(f"{shortened(k)} has {len(v)}" for k, v in table.vary.items())
            raise ConfigError(f'{where}: method = "list" needs equally many values, found: {found}')

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        """Return the points of a list whose keys are given value by value."""
        keys = list(self.table.vary)
        lists = (self.table.vary[key] for key in keys)
        return [dict(zip(keys, values, strict=True)) for values in zip(*lists, strict=True)]

    @cached_property
    def _drawn(self) -> list[int]:
        """Return the numbers of the combinations that method "random" takes, none twice."""
        draw, size = random.Random(self.table.seed), self.combinations
        if size < 1 << 62:
            return draw.sample(range(size), self.size)
        found: dict[int, None] = {}
        while len(found) < self.size:
            found[draw.randrange(size)] = None
        return list(found)

    @property
    def _origin(self) -> str:
        return f'{self.file.path}: sweep "{shortened(self.table.name)}"'

    @cached_property
    def _none(self) -> Override:
        return Override(("sweep",), [], self._origin)

    @cached_property
    def _paths(self) -> dict[str, tuple[str, ...]]:
        """Return the words of each varied key; ConfigError for a key that cannot vary."""
        found = {}
        for key in self.table.vary:
            found[key] = split_key(key, self._origin)
            if found[key][0] in ("sweep", "name"):
                raise ConfigError(f'{self._origin}: cannot vary "{shortened(key)}"')
        return found


def spaces(file: Swept) -> list[SweepSpace]:
    """Return the space of each sweep of a file, checked; none if there is no sweep.

    Raises:
        ConfigError: there are too many points, two sweeps of one name, or a key that cannot vary.

    """
    found = [SweepSpace(table, file) for table in file.sweep]
    names: set[str] = set()
    for space in found:
        if space.table.name in names:
            raise ConfigError(f'{file.path}: two sweeps are called "{shortened(space.table.name)}"')
        names.add(space.table.name)
        space.check()
    count = sum(space.size for space in found)
    if count > MOST_POINTS:
        raise ConfigError(
            f'{file.path}: [sweep] has {count} points, more than {MOST_POINTS}; method = "random" '
            "or "
            '"optuna" takes as many of them as points = says'
        )
    return found


def expand(file: Swept) -> Iterator[SweepPoint]:
    """Yield every point of every sweep, in the order of the run file; none if there is no sweep.

    Raises:
        ConfigError: as `spaces`, or a sweep is a search, whose points depend on results.

    """
    for space in spaces(file):
        if space.is_search:
            raise ConfigError(
                f'{file.path}: sweep "{shortened(space.table.name)}": the points of method = '
                '"optuna" depend on results; systolic run and systolic sweep find them'
            )
        yield from map(space.point, range(space.size))
