"""Are the rows of bench_moves.csv what its script gives today?"""

from __future__ import annotations

import runpy
from dataclasses import replace
from typing import Any

import pytest

from support.documents import ROOT

BENCHMARKS = ROOT / "benchmarks"
SCRIPT: Any = runpy.run_path(str(BENCHMARKS / "bench_moves.py"), run_name="bench_moves")
ROWS = SCRIPT["read"](BENCHMARKS / "bench_moves.csv")

# Quick works of every kind and of both homes, one of them refused, one without a bound.
QUICK = (3, 4, 5, 7, 9, 10, 12)


@pytest.mark.parametrize("number", QUICK)
def test_a_row_is_what_is_measured_today(number: int) -> None:
    row = ROWS[number]
    # No limit: where the kernel is compiled for the first time, that alone may take so long.
    found = SCRIPT["measured"](SCRIPT["drawn"](number), limit_s=None, bound=row.bound)
    assert replace(found, cpu_s=row.cpu_s) == row


def test_rows_are_of_the_works_that_their_numbers_draw() -> None:
    for number, row in ROWS.items():
        work = SCRIPT["drawn"](number)
        assert (row.work, row.chip, row.home) == (work.text, work.chip, work.home)


def test_a_row_has_cycles_or_the_reason_why_not() -> None:
    for row in ROWS.values():
        if row.cycles is None:
            assert row.note == SCRIPT["OVER"] or row.note.startswith(SCRIPT["REFUSED"]), row
        else:
            assert row.note == ("" if row.ratio is not None else SCRIPT["NO_BOUND"]), row
            assert (row.ratio is None) == (row.bound == 0 < row.cycles), row
