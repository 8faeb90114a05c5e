"""`systolic.plot`: views from Python, and what it refuses."""

from __future__ import annotations

import pytest

import systolic
from support.command_line import run_command
from systolic.errors import SystolicError
from systolic.shipped import CONFIGS
from systolic.spans import Interval

FIG3 = CONFIGS / "runs" / "transpose_fig3.toml"


@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_it_is_the_picture_of_the_command(tmp_path, form):
    made = systolic.plot(
        systolic.run(FIG3), "timeline", tmp_path / f"a.{form}", cycles=Interval(4, 14)
    )
    command = ("plot", "timeline", FIG3, "--cycles", "4:14", "--out", tmp_path / f"b.{form}")
    assert run_command(*command)[0] == 0
    assert made.read_bytes() == (tmp_path / f"b.{form}").read_bytes()


@pytest.mark.parametrize(
    ("view", "file", "theme", "expected"),
    [
        ("timelin", "a.png", "light", 'perhaps "timeline" was meant'),
        ("timeline", "a.gif", "light", 'format: needs one of "png", "svg", "pdf", found "gif"'),
        ("timeline", "a.png", "drak", 'perhaps "dark" was meant'),
        ("wavefront", "a.png", "light", "view wavefront: needs a run with grid=True"),
        ("layout", "a.png", "light", "view layout: shows a shape, not a run"),
    ],
)
def test_what_is_refused(tmp_path, view, file, theme, expected):
    with pytest.raises(SystolicError) as refused:
        systolic.plot(systolic.run(FIG3), view, tmp_path / file, theme=theme)
    assert expected in str(refused.value)
    assert not list(tmp_path.iterdir())
