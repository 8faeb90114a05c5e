"""Do the marks of a sweep's pictures say what the rows say?"""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

from systolic.report.sweeps.axes import axes_of, place_text
from systolic.report.sweeps.found import SweepRows, words
from systolic.report.sweeps.front import front_marks
from systolic.report.sweeps.heat_map import heat_marks
from systolic.report.sweeps.lines import lines_marks
from systolic.report.sweeps.pictures import KINDS, draw_found, line_name
from systolic.report.sweeps.sensitivity import sensitivity_marks

ZIPPED = (("chip.rows", "chip.cols"),)


def row(vary: dict[str, Any], **results: Any) -> dict[str, Any]:
    return {"sweep": "s", "vary": vary, **results}


def grid(time: Any) -> list[dict[str, Any]]:
    """Return rows over zipped rows and cols, a latency, and a drain that changes nothing."""
    return [
        row(
            {"chip.rows": n, "chip.cols": n, "latency": latency, "drain": drain},
            time_ns=time(n, latency),
            cycles=int(time(n, latency)),
        )
        for n, latency, drain in itertools.product((2, 4, 8), (0, 10), ("row", "block"))
    ]


def test_zipped_keys_are_one_axis() -> None:
    rows = grid(lambda n, latency: 100.0 / n + latency)
    assert [axis.keys for axis in axes_of(rows, ZIPPED)] == [
        ("chip.rows", "chip.cols"), ("latency",), ("drain",),
    ]  # fmt: skip
    assert [place_text(place) for place in axes_of(rows, ZIPPED)[0].values] == ["2", "4", "8"]
    assert place_text((2, 4)) == "2 x 4"


def test_equal_lines_are_one_with_both_names() -> None:
    found = lines_marks(grid(lambda n, latency: 100.0 / n + latency), ZIPPED)
    assert found.axis.keys == ("chip.rows", "chip.cols")
    assert [line.names for line in found.lines] == [
        ("latency 0, drain row", "latency 0, drain block"),
        ("latency 10, drain row", "latency 10, drain block"),
    ]
    assert found.lines[1].points == ((0, 60.0), (1, 35.0), (2, 22.5))
    assert line_name(found.lines[0]) == "latency 0, drain row +1"


def test_one_row_is_a_line() -> None:
    found = lines_marks([row({"a": 1}, time_ns=3.0)])
    assert (found.axis.values, found.lines[0].points) == (((1,),), ((0, 3.0),))


PLACES = [(1, 9), (2, 4), (3, 3.9), (9, 1), (5, 5), (2, 4), (1, 10)]


@pytest.mark.parametrize("large", [(), ("y",)])
def test_the_front_is_what_no_other_point_beats(large: tuple[str, ...]) -> None:
    sign = -1 if large else 1
    rows = [row({"n": n}, x=x, y=sign * y) for n, (x, y) in enumerate(PLACES)]
    found = front_marks([*rows, row({"n": 9}, x=None, y=None)], "x", "y", large)
    assert len(found.marks) == len(PLACES)
    for mark in found.front:  # by the definition
        assert not any(
            a <= mark.x and b <= sign * mark.y and (a, b) != (mark.x, sign * mark.y)
            for a, b in PLACES
        )
    assert [(m.x, sign * m.y) for m in found.front] == [(1, 9), (2, 4), (3, 3.9), (9, 1)]
    assert found.knee is not None
    assert (found.knee.x, sign * found.knee.y) == (2, 4)


def test_a_straight_front_has_no_knee() -> None:
    rows = [row({"n": n}, x=n, y=4 - n) for n in range(5)]
    assert front_marks(rows, "x", "y").knee is None


def test_the_share_of_a_key_is_that_of_the_variance() -> None:
    """log time = a(rows) + b(latency): the shares are the variances of a and b."""
    a, b = {2: 0.0, 4: 1.0, 8: 2.0}, {0: 0.0, 10: 0.5}
    rows = grid(lambda n, latency: math.exp(a[n] + b[latency]))
    variance_a, variance_b = 2 / 3, 1 / 16
    marks = sensitivity_marks(rows, "time_ns", ZIPPED)
    assert [mark.axis.name for mark in marks] == ["rows, cols", "latency", "drain"]
    whole = variance_a + variance_b
    assert [mark.share for mark in marks] == pytest.approx(
        [variance_a / whole, variance_b / whole, 0.0]
    )
    assert (marks[0].best, marks[0].worst) == ((2, 2), (8, 8))


def test_a_key_that_only_looks_important_in_a_sample_is_not() -> None:
    shares = []
    for seed in range(40):
        rows = [row({"a": (n * 7 + seed) % 5, "b": n % 6}, t=1.0 + (n * n * 37 + seed) % 11)
                for n in range(12)]  # fmt: skip
        shares += [mark.share for mark in sensitivity_marks(rows, "t") if mark.axis.name == "a"]
    assert sum(shares) / len(shares) < 0.35


def test_a_cell_is_the_best_of_the_other_keys() -> None:
    rows = grid(lambda n, latency: 100.0 / n + latency)
    rows[0] = {**rows[0], "time_ns": 55.0}  # its twin with the other drain is better
    found = heat_marks(rows, "time_ns", ZIPPED)
    assert found is not None
    assert (found.down.name, found.across.name) == ("rows, cols", "latency")
    assert found.cells == ((50.0, 60.0), (25.0, 35.0), (12.5, 22.5))
    assert [axis.name for axis in found.others] == ["drain"]
    assert heat_marks([r for r in rows if r["vary"]["latency"] == 0][:1], "time_ns") is None


def test_a_cell_without_run_is_empty() -> None:
    rows = [row({"a": a, "b": b}, t=1.0 + a + b) for a in (1, 2) for b in (1, 2) if a + b < 4]
    found = heat_marks(rows, "t")
    assert found is not None
    assert found.cells == ((3.0, 4.0), (4.0, None))


def test_words() -> None:
    rows = [row({"n": n}, x=x, y=y) for n, (x, y) in enumerate(PLACES)]
    sweep = SweepRows("s", "", [*rows, row({"n": 9}, error="no")], objectives=("x", "y"))
    assert list(words(sweep))[:3] == [
        "least x: 1 at n 0",
        "least y: 1 at n 3",
        "knee of the front: x 2, y 4 at n 1",
    ]


def test_every_picture_is_drawn_where_it_can_be(tmp_path: Path) -> None:
    rows = grid(lambda n, latency: 100.0 / n + latency)
    rows = [{**r, "dram_bytes": 100 * r["vary"]["chip.rows"]} for r in rows]
    sweep = SweepRows(
        "costs $x^{2$", "a % and $y^{", rows, ZIPPED, objectives=("cycles", "dram_bytes")
    )
    lone = SweepRows("lone", "", rows[:1])
    for kind in KINDS:
        draw_found(kind, [sweep, lone], tmp_path / f"{kind}.png", title="$x^{2$")
        assert imread(tmp_path / f"{kind}.png").shape[0] > 300
        draw_found(kind, [lone], tmp_path / f"{kind}.png", title="")
    assert not list(tmp_path.iterdir())
