"""The Pareto front of two objectives: the points that no other point beats in both, and its knee.

Not here: drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from systolic.report.sweeps.pairs import PointRow

LEAST_FOR_KNEE = 3


@dataclass(frozen=True, slots=True)
class FrontMark:
    """A point of the picture: its place, and whether it is on the front. row: its number."""

    row: int
    x: float
    y: float
    is_on_front: bool


@dataclass(frozen=True, slots=True)
class FrontMarks:
    """All points, the front from its left end to its right, and the knee; None if it has none."""

    marks: tuple[FrontMark, ...]
    front: tuple[FrontMark, ...]
    knee: FrontMark | None


def front_marks(rows: Sequence[PointRow], x: str, y: str, large: Sequence[str] = ()) -> FrontMarks:
    """Return the marks of rows that have both objectives, the columns `x` and `y`.

    large: objectives where more is better; of all others less is.
    """
    signs = [-1.0 if name in large else 1.0 for name in (x, y)]
    places = [
        (number, float(row[x]), float(row[y]))
        for number, row in enumerate(rows)
        if row.get(x) is not None and row.get(y) is not None
    ]
    best, ends = set(), float("inf")
    for number, _, b in sorted(places, key=lambda p: (signs[0] * p[1], signs[1] * p[2])):
        if signs[1] * b < ends:
            best.add(number)
            ends = signs[1] * b
    marks = tuple(FrontMark(number, a, b, number in best) for number, a, b in places)
    front = tuple(sorted((m for m in marks if m.is_on_front), key=lambda m: m.x))
    return FrontMarks(marks, front, _knee(front, signs))


def _knee(front: Sequence[FrontMark], signs: Sequence[float]) -> FrontMark | None:
    """Return the point farthest below the line from one end of the front to the other.

    Both objectives are scaled to the range of the front.
    """
    if len(front) < LEAST_FOR_KNEE:
        return None
    xs, ys = [signs[0] * m.x for m in front], [signs[1] * m.y for m in front]
    wide, high = max(xs) - min(xs), max(ys) - min(ys)

    def below(mark: FrontMark) -> float:
        return 1 - (signs[0] * mark.x - min(xs)) / wide - (signs[1] * mark.y - min(ys)) / high

    found = max(front, key=below)
    return found if below(found) > 0 else None
