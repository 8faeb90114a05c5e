"""What a sweep found: its rows, the best of them, the knee, and which key matters, in words.

Not here: pictures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from systolic.report.summary.wording import number, percent
from systolic.report.sweeps.axes import last_word, place_text
from systolic.report.sweeps.front import front_marks
from systolic.report.sweeps.lines import TIME
from systolic.report.sweeps.pairs import PointRow
from systolic.report.sweeps.sensitivity import sensitivity_marks


@dataclass(frozen=True, slots=True)
class SweepRows:
    """A sweep that was run: its rows without those that failed, and what its table says.

    zips: groups of keys that go together. objectives: the columns that pictures show. large: the
    objectives where more is better.
    """

    name: str
    description: str
    rows: Sequence[PointRow]
    zips: Sequence[Sequence[str]] = ()
    objectives: Sequence[str] = (TIME,)
    large: Sequence[str] = ()

    def good(self) -> SweepRows:
        """Return the sweep without rows that failed, and with the objectives that its rows have."""
        rows = [row for row in self.rows if row.get("error") is None]
        has = [name for name in self.objectives if all(row.get(name) is not None for row in rows)]
        return replace(self, rows=rows, objectives=has or ["cycles"])

    def best(self, objective: str) -> PointRow:
        """Return the row with the best value of an objective; of equal ones the first."""
        sign = -1 if objective in self.large else 1
        return min(self.rows, key=lambda row: sign * row[objective])

    def ordered(self) -> list[PointRow]:
        """Return the rows from the best of the first objective to the worst."""
        first = self.objectives[0]
        return sorted(self.rows, key=lambda row: row[first], reverse=first in self.large)


def words(sweep: SweepRows) -> Iterator[str]:
    """Yield sentences on a sweep: the best points, the knee, the key that matters most."""
    good = sweep.good()
    if not good.rows:
        return
    for objective in good.objectives:
        row = good.best(objective)
        which = "most" if objective in good.large else "least"
        yield f"{which} {objective}: {value_text(row[objective])} at {point_text(row)}"
    if len(good.objectives) > 1:
        x, y = good.objectives[:2]
        knee = front_marks(good.rows, x, y, good.large).knee
        if knee is not None:
            row = good.rows[knee.row]
            values = f"{x} {value_text(row[x])}, {y} {value_text(row[y])}"
            yield f"knee of the front: {values} at {point_text(row)}"
    marks = sensitivity_marks(good.rows, good.objectives[0], good.zips)
    if marks and marks[0].share > 0:
        first = marks[0]
        yield (
            f"{first.axis.name} explains {percent(first.share, 1)} of the variance of "
            f"{good.objectives[0]}, best at {place_text(first.best)}"
        )


def point_text(row: PointRow) -> str:
    """Return the varied values of a row: ``rows 32, cols 32``."""
    return ", ".join(f"{last_word(key)} {value}" for key, value in row["vary"].items())


def value_text(value: float) -> str:
    """Return a result as people write it."""
    return number(value) if isinstance(value, int) else f"{value:.4g}"
