"""The lines of a sweep: how long the run takes, over the values of one axis, a line for each
combination of the others. Lines that are the same all along are one line with several names.

Not here: drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from systolic.report.sweeps.axes import AxisPlace, SweepAxis, axes_of, last_word, place_text
from systolic.report.sweeps.pairs import PointRow

SERIES_KEY = "compile.via"
TIME = "time_ns"


@dataclass(frozen=True, slots=True)
class LineMark:
    """A line: the names of its combinations, and points (number of the value on the axis, time)."""

    names: tuple[str, ...]
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class LinesMarks:
    """The lines over one axis; the axis of a sweep in which nothing differs has one value."""

    axis: SweepAxis
    lines: tuple[LineMark, ...]


def lines_marks(
    rows: Sequence[PointRow], zips: Sequence[Sequence[str]] = (), column: str = TIME
) -> LinesMarks:
    """Return the lines of rows, at least one; each row has the column.

    On the axis is the one with most values (the first of several), but for `compile.via`.
    """
    axes = axes_of(rows, zips)
    axis = _axis(rows, axes)
    others = [each for each in axes if each.keys != axis.keys]
    number_of = {place: number for number, place in enumerate(axis.values)}
    series: dict[tuple[AxisPlace, ...], dict[int, float]] = {}
    for row in rows:
        found = series.setdefault(tuple(each.of(row) for each in others), {})
        found[number_of[axis.of(row)]] = float(row[column])
    together: dict[tuple[tuple[int, float], ...], list[str]] = {}
    for places, points in series.items():
        together.setdefault(tuple(sorted(points.items())), []).append(_name(others, places))
    return LinesMarks(
        axis, tuple(LineMark(tuple(names), points) for points, names in together.items())
    )


def _axis(rows: Sequence[PointRow], axes: Sequence[SweepAxis]) -> SweepAxis:
    able = [axis for axis in axes if axis.keys != (SERIES_KEY,)] or list(axes)
    if able:
        return max(able, key=lambda axis: (axis.is_number(), len(axis.values)))
    keys = tuple(rows[0]["vary"])[:1]
    return SweepAxis(keys, (tuple(rows[0]["vary"][key] for key in keys),))


def _name(axes: Sequence[SweepAxis], places: Sequence[AxisPlace]) -> str:
    return ", ".join(
        f"{last_word(axis.keys[0])} {place_text(place)}"
        for axis, place in zip(axes, places, strict=True)
    )
