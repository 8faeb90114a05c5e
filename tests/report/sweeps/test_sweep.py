"""Are the lines of a sweep's picture its points: connected, told apart, named in full?"""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.figure import Figure

from systolic.report.sweeps.sweep import axis_keys, draw_panel, series

SIZES = (8, 16, 32, 64)


def rows(*vary: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"vary": each, "time_ns": 10.0 + n} for n, each in enumerate(vary)]


def panel(points: list[dict[str, Any]]) -> Any:
    figure = Figure()
    axes = figure.add_subplot()
    draw_panel(axes, points)
    return axes


ZIPPED = rows(*({"chip.pe_array.rows": n, "chip.pe_array.cols": 2 * n} for n in SIZES))


def test_keys_that_vary_together_are_one_line() -> None:
    keys = axis_keys(ZIPPED)
    assert keys == ["chip.pe_array.rows", "chip.pe_array.cols"]
    assert series(ZIPPED, keys) == {
        "": [("8 / 16", 10.0), ("16 / 32", 11.0), ("32 / 64", 12.0), ("64 / 128", 13.0)]
    }
    axes = panel(ZIPPED)
    (line,) = axes.lines
    assert list(line.get_xdata()) == [0, 1, 2, 3]
    assert list(line.get_ydata()) == [10, 11, 12, 13]
    assert next(label.get_text() for label in axes.get_xticklabels()) == "8 / 16"


def test_keys_of_a_product_are_lines() -> None:
    points = rows(*({"a.n": n, "b.kind": kind} for kind in ("one", "two") for n in SIZES))
    assert axis_keys(points) == ["a.n"]
    assert list(series(points, ["a.n"])) == ["one", "two"]


@pytest.mark.parametrize("lines", [2, 3, 5])
def test_equal_lines_do_not_hide_each_other(lines: int) -> None:
    points = rows(*({"a.n": n, "b.k": k} for k in range(lines) for n in SIZES))
    for point in points:
        point["time_ns"] = 100.0
    drawn = panel(points).lines
    assert len({line.get_color() for line in drawn}) == lines
    assert drawn[0].is_dashed() is False
    assert all(line.is_dashed() for line in drawn[1:])
    sizes = [line.get_markersize() for line in drawn]
    assert sizes == sorted(set(sizes), reverse=True), "a larger marker is seen behind a smaller one"


def test_names_are_not_cut() -> None:
    kinds = ("outer_stationary", "output_stationary", "weight_stationary")
    points = rows(*({"a.n": n, "compile.dataflow": kind} for kind in kinds for n in SIZES))
    texts = {each.get_text() for each in panel(points).texts}
    assert set(kinds) <= texts
