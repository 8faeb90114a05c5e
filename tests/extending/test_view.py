"""docs/extending.md, "A view": a toy view, added by its row."""

from __future__ import annotations

from matplotlib.image import imread

from support.command_line import refused, run_command
from systolic.report.plots.look import Look
from systolic.report.plots.sheet import HEAD, Sheet
from systolic.report.plots.subject import PlotRun
from systolic.report.plots.table import PLOTS, Plot
from systolic.shipped import CONFIGS

FIG_3 = CONFIGS / "runs" / "transpose_fig3.toml"


def draw_starts(run: PlotRun, look: Look) -> Sheet:
    """Return a sheet with a point for each instruction, at its start."""
    sheet = Sheet(look, HEAD + 2, "starts of instructions", [(look.theme.ink, "a start")])
    axes = sheet.axes(HEAD, 1.5)
    starts = [each.start for each in run.trace.times]
    axes.scatter(starts, range(len(starts)), color=look.theme.ink)
    return sheet


def test_a_view_is_a_row(tmp_path, monkeypatch):
    monkeypatch.setitem(PLOTS, "starts", Plot(draw_starts, "starts of instructions", "run"))
    file = tmp_path / "a.png"
    assert run_command("plot", "starts", FIG_3, "--out", file) == (0, f"{file}\n", "")
    assert imread(file).shape[:2] == (round((HEAD + 2) * 150), 1800)
    assert run_command("plot", "--list")[1].endswith("starts        starts of instructions\n")
    assert refused("plot", "starts", FIG_3, "--out", file, "--cycles", "1:2") == (
        "--cycles: means nothing to the view starts"
    )


def test_a_view_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def failing(run: PlotRun, look: Look) -> Sheet:
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(PLOTS, "failing", Plot(failing, "nothing", "run"))
    assert refused("plot", "failing", FIG_3, "--out", tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []
