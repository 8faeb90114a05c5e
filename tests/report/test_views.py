"""Does every view of the table draw its picture, and do the commands ask the table?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from support.chips import ideal_chip
from support.runs import run_transpose
from systolic.layout import Shape
from systolic.report.views import (
    NO_RECORDS,
    VIEWS,
    WAVEFRONT,
    ComparisonSubject,
    LayoutSubject,
    Records,
    RunSubject,
    SweepSubject,
    View,
)

CLI = Path(__file__).resolve().parents[2] / "sim" / "systolic" / "cli"


def point(via: str, rows: int, time_ns: float) -> dict[str, Any]:
    vary = {"compile.via": via, "workload.shape": f"f32[{rows},4]"}
    return {"sweep": "rows", "vary": vary, "time_ns": time_ns}


POINTS = [point("pe", 4, 10.0), point("dram", 4, 20.0), point("pe", 8, 15.0), point("dram", 8, 60)]


def subject(name: str) -> Any:
    if name in ("wavefront", "timeline"):
        chip, data = ideal_chip(3, 4), np.ones((3, 4), np.float32)
        return RunSubject(chip, run_transpose(chip, "f32[3,4]", data, grid=True)[1].trace)
    return {
        "layout": LayoutSubject(Shape.parse("f32[4,6]{1,0:T(2,3)}"), (1, 2)),
        "sweep": SweepSubject([("rows", "By rows.", POINTS)]),
        "comparison": ComparisonSubject(POINTS, {"rows": "By rows."}),
    }[name]


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_draws_one_file(name: str, tmp_path: Path) -> None:
    VIEWS[name].draw(subject(name), tmp_path / "a.png", "A title")
    assert min(imread(tmp_path / "a.png").shape[:2]) > 100
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_a_view_records_nothing_of_a_run_too_large_for_it() -> None:
    most = WAVEFRONT.records.most_elements
    assert most is not None
    assert WAVEFRONT.records.of(most) is WAVEFRONT.records
    assert WAVEFRONT.records.of(most + 1) is NO_RECORDS
    assert Records(("load",)).of(1 << 60) == Records(("load",))


def test_an_unknown_kind_of_word_fails_when_the_table_is_made() -> None:
    with pytest.raises(ValueError, match=r"^unknown word kinds \['red'\]$"):
        View(print, Records(("red", "read")))


def test_no_command_names_a_drawing_function() -> None:
    named = [path.name for path in CLI.glob("*.py") if "plot_" in path.read_text(encoding="utf-8")]
    assert not named
