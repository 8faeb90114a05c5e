"""Sweeps: one run file, many runs. A point is the run with a few values replaced.

Not here: running the points.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sim.config.load import RunConfig
from sim.config.override import Override, split_key
from sim.config.run_file import SweepTable
from sim.errors import ConfigError

MAX_POINTS = 10_000


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One run of a sweep: the sweep's name, the values that were varied, and the run itself."""

    sweep: str
    labels: dict[str, Any]
    config: RunConfig

    @property
    def name(self) -> str:
        """Return ``sweep: key=value key=value``, by the last word of each key."""
        values = " ".join(f"{key.rsplit('.', 1)[-1]}={v}" for key, v in self.labels.items())
        return f"{self.sweep}: {values}"


def expand(config: RunConfig) -> Iterator[SweepPoint]:
    """Yield every point of every sweep of the run file, in its order; none if it has no sweep.

    Raises:
        ConfigError: a value of the sweep does not fit its key, or there are too many points.

    """
    count = sum(points(table) for table in config.sweep)
    if count > MAX_POINTS:
        raise ConfigError(f"{config.path}: [sweep] has {count} points, more than {MAX_POINTS}")
    for table in config.sweep:
        for values in itertools.product(*table.vary.values()):
            labels = dict(zip(table.vary, values, strict=True))
            yield SweepPoint(table.name, labels, _point(config, table, labels))


def points(table: SweepTable) -> int:
    """Return how many runs a sweep has."""
    return math.prod(map(len, table.vary.values()))


def _point(config: RunConfig, table: SweepTable, labels: dict[str, Any]) -> RunConfig:
    origin = f'{config.path}: sweep "{table.name}"'
    overrides = [Override(("sweep",), [], origin)]
    for key, value in labels.items():
        path = split_key(key, origin)
        if path[0] in ("sweep", "name"):
            raise ConfigError(f'{origin}: cannot vary "{key}"')
        overrides.append(Override(path, value, f"{origin}: {key}={value}"))
    return config.with_overrides(overrides)
