"""Sweeps: many runs of one run file. A point is the run with a few values replaced.

Not here: running the points.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from systolic.config.load import RunConfig, load_overridden
from systolic.config.override import Override, split_key
from systolic.config.run_file import SweepTable
from systolic.errors import ConfigError, shortened

MAX_POINTS = 10_000


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


def expand(config: RunConfig) -> Iterator[SweepPoint]:
    """Yield every point of every sweep, in the order of the run file; none if there is no sweep.

    Raises:
        ConfigError: there are too many points, two sweeps of one name, or a key that cannot vary.

    """
    count = sum(points(table) for table in config.sweep)
    if count > MAX_POINTS:
        raise ConfigError(f"{config.path}: [sweep] has {count} points, more than {MAX_POINTS}")
    names: set[str] = set()
    for table in config.sweep:
        if table.name in names:
            raise ConfigError(f'{config.path}: two sweeps are called "{shortened(table.name)}"')
        names.add(table.name)
        for values in itertools.product(*_axes(table)):
            merged = {key: value for part in values for key, value in part.items()}
            varied = {key: merged[key] for key in table.vary}
            yield SweepPoint(table.name, varied, config.path, _overrides(config, table, varied))


def points(table: SweepTable) -> int:
    """Return how many runs a sweep has."""
    return math.prod(map(len, _axes(table)))


def _axes(table: SweepTable) -> list[list[dict[str, Any]]]:
    """Return, for each key or group of zipped keys, the values that it takes in turn.

    The points are all combinations of these. A group stands in place of its first key in `vary`.
    """
    group_of = {key: group for group in table.zip for key in group}
    groups = dict.fromkeys(group_of.get(key, (key,)) for key in table.vary)
    return [
        [dict(zip(group, values, strict=True)) for values in zip(*lists, strict=True)]
        for group in groups
        for lists in [[table.vary[key] for key in group]]
    ]


def _overrides(
    config: RunConfig, table: SweepTable, varied: dict[str, Any]
) -> tuple[Override, ...]:
    origin = f'{config.path}: sweep "{shortened(table.name)}"'
    overrides = [Override(("sweep",), [], origin)]
    for key, value in varied.items():
        path = split_key(key, origin)
        if path[0] in ("sweep", "name"):
            raise ConfigError(f'{origin}: cannot vary "{shortened(key)}"')
        overrides.append(Override(path, value, f"{origin}: {shortened(f'{key}={value}')}"))
    return (*config.overrides, *overrides)
