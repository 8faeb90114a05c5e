"""The points of a sweep, run one after another or in several processes; each gives a row.

A row is a plain dict. It has the keys `sweep` and `vary`, and either the summary of the run with
or `error`. Nothing is printed or written here.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

from systolic.config import SweepPoint
from systolic.errors import SystolicError
from systolic.report.sweeps.pairs import PointRow
from systolic.run.execute import run
from systolic.run.processes import in_order
from systolic.run.provenance import plain


def sweep_rows(
    points: Sequence[SweepPoint], *, jobs: int = 1, values: bool = True
) -> Generator[PointRow, None, None]:
    """Yield the row of every point, in the order of the points, for any number of `jobs`.

    Args:
        points: the points that `systolic.config.expand` gives.
        jobs: how many points run at once, each in a process of its own. 1: all in this process.
        values: False: times only.

    Raises:
        KeyboardInterrupt: after all processes have ended and all finished rows were yielded.
        SystolicError: a process was ended from outside.

    """
    row = partial(point_row, values=values)
    yield from in_order(row, points, jobs=jobs, noun="point")


def point_row(point: SweepPoint, values: bool) -> PointRow:
    """Return the row of one point; if the point cannot be run, the row has the error."""
    row: dict[str, Any] = {"sweep": point.sweep, "vary": plain(point.varied)}
    try:
        result = run(point.config, values=values)
    except SystolicError as error:
        return {**row, "error": str(error)}
    except MemoryError:
        return {**row, "error": "this computer has too little memory for this"}
    except Exception as error:
        if os.environ.get("SYSTOLIC_DEBUG") == "1":
            raise
        return {**row, "error": f"a bug in systolic: {type(error).__name__}: {error}"}
    return {**row, **result.summary}
