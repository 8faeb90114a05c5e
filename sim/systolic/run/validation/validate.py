"""Each row of a table held against its published figure: what we get, and how far off it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from systolic.errors import SystolicError
from systolic.run.validation.measures import measured
from systolic.run.validation.table import ValidationRow

ROUNDING = 1e-9
"""The share of a value by which sums of floats may differ from the number that they stand for."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A row with its value. deviation: ours less published, in the row's unit.

    missing: the rule or the schedule that we do not have, if the row says so.
    """

    id: str
    what: str
    unit: str
    published: float
    ours: float
    deviation: float
    tolerance: float
    ok: bool
    source: str
    reason: str
    missing: str

    @property
    def is_known(self) -> bool:
        """Return whether the row is outside its tolerance for a reason that the table names."""
        return not self.ok and bool(self.missing)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


def validate(rows: Iterable[ValidationRow]) -> Iterator[Judged]:
    """Yield each row with its value, in order; SystolicError names the row that cannot be run."""
    for row in rows:
        yield judged(row)


def judged(row: ValidationRow) -> Judged:
    """Return a row with its value."""
    try:
        ours = measured(row)
    except SystolicError as error:
        text = str(error)
        where = "" if text.startswith(row.where) else f"{row.where}: "
        raise type(error)(f"{where}{text}") from None
    deviation = ours - row.published
    slack = ROUNDING * max(abs(ours), abs(row.published))
    return Judged(
        id=row.id,
        what=row.what,
        unit=row.unit,
        published=row.published,
        ours=ours,
        deviation=deviation,
        tolerance=row.tolerance,
        ok=abs(deviation) <= row.tolerance + slack,
        source=row.source,
        reason=row.reason,
        missing=row.missing,
    )
