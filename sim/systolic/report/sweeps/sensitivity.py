"""Which key explains the results: the share of an objective's variance that each axis accounts for.

The share of an axis is the variance of the means at its values, divided by the whole variance, both
of the logarithm of the objective (a factor counts the same everywhere). What the axes do not
account for one by one, they do together. Not here: drawing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from systolic.report.sweeps.axes import AxisPlace, SweepAxis, axes_of
from systolic.report.sweeps.pairs import PointRow


@dataclass(frozen=True, slots=True)
class SensitivityMark:
    """An axis: the share (0 to 1) that it explains, and the values with the least and most mean."""

    axis: SweepAxis
    share: float
    best: AxisPlace
    worst: AxisPlace


def sensitivity_marks(
    rows: Sequence[PointRow], objective: str, zips: Sequence[Sequence[str]] = ()
) -> list[SensitivityMark]:
    """Return a mark for each axis along which rows differ, the most important first.

    Of a sample of a grid, the share is less what that many values would explain by chance.
    """
    good = [row for row in rows if (row.get(objective) or 0) > 0]
    logs = [math.log(row[objective]) for row in good]
    axes = axes_of(good, zips)
    is_grid = len(good) >= math.prod(len(axis.values) for axis in axes)
    found = [_mark(axis, good, logs, is_grid) for axis in axes]
    return sorted(found, key=lambda mark: -mark.share)


def _mark(
    axis: SweepAxis, rows: Sequence[PointRow], logs: Sequence[float], is_grid: bool
) -> SensitivityMark:
    groups: dict[AxisPlace, list[float]] = {}
    for row, value in zip(rows, logs, strict=True):
        groups.setdefault(axis.of(row), []).append(value)
    means = {place: sum(values) / len(values) for place, values in groups.items()}
    mean = sum(logs) / len(logs)
    whole = sum((value - mean) ** 2 for value in logs)
    between = sum(len(groups[p]) * (means[p] - mean) ** 2 for p in groups)
    if not is_grid and len(logs) > len(groups):
        within = (whole - between) / (len(logs) - len(groups))
        between -= (len(groups) - 1) * within
    share = min(max(between / whole, 0.0), 1.0) if whole > 1e-12 else 0.0
    return SensitivityMark(
        axis, share, min(means, key=lambda p: means[p]), max(means, key=lambda p: means[p])
    )
