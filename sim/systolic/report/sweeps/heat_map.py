"""A heat map of two keys: at each pair of values the best result that the other keys allow.

Not here: drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from systolic.report.sweeps.axes import SweepAxis, axes_of
from systolic.report.sweeps.pairs import PointRow
from systolic.report.sweeps.sensitivity import sensitivity_marks


@dataclass(frozen=True, slots=True)
class HeatMarks:
    """The cells of a heat map.

    across, down: the axes. cells: by place down and across; None where nothing was run. others:
    the axes over which each cell is the best.
    """

    across: SweepAxis
    down: SweepAxis
    cells: tuple[tuple[float | None, ...], ...]
    others: tuple[SweepAxis, ...]


def heat_marks(
    rows: Sequence[PointRow],
    objective: str,
    zips: Sequence[Sequence[str]] = (),
    large: Sequence[str] = (),
) -> HeatMarks | None:
    """Return the map over the two axes that explain most; None if there are less than two."""
    good = [row for row in rows if row.get(objective) is not None]
    order = {axis.keys: place for place, axis in enumerate(axes_of(good, zips))}
    by_share = [mark.axis for mark in sensitivity_marks(good, objective, zips)]
    if len(by_share) < 2:
        return None
    down, across = sorted(by_share[:2], key=lambda axis: order[axis.keys])
    best: Callable[[float, float], float] = max if objective in large else min
    found: dict[tuple[object, object], float] = {}
    for row in good:
        place = (down.of(row), across.of(row))
        value = float(row[objective])
        found[place] = best(found[place], value) if place in found else value
    cells = tuple(tuple(found.get((y, x)) for x in across.values) for y in down.values)
    return HeatMarks(across, down, cells, tuple(by_share[2:]))
