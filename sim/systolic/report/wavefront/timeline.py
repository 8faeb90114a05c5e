"""A whole run on one strip: the labels of each unit, from the first cycle to the last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from systolic.hw.spec import Chip
from systolic.report.paper import style
from systolic.report.paper.page import Page
from systolic.report.summary.wording import number
from systolic.report.wavefront.bands import CycleAxis
from systolic.report.wavefront.draw_bands import Frame, draw_cycle_axis
from systolic.report.wavefront.draw_units import draw_units, draw_units_legend, units_height
from systolic.spans import Interval
from systolic.trace.records import Trace

WIDTH, MARGIN, NAMES, HEAD = 14.0, 0.55, 1.35, 1.4


def plot_timeline(chip: Chip, trace: Trace, path: str | Path, *, title: str) -> None:
    """Draw the labels of all units over the whole run and save the picture as a PNG."""
    timeline_page(chip, trace, title).save(path)


def timeline_page(
    chip: Chip,
    trace: Trace,
    title: str,
    *,
    page_of: Callable[[float, float], Page] = Page,
    cycles: Interval | None = None,
) -> Page:
    """Return the page of the picture, made by `page_of(width, height)`; cycles: None for all."""
    strip = units_height(trace)
    page = page_of(WIDTH, HEAD + strip + 0.7)
    page.text(MARGIN, 0.3, title, style.TITLE, weight="bold")
    page.text(MARGIN, 0.64, f"{chip.name}: {number(trace.cycles())} cycles", colour=style.MUTED)
    draw_units_legend(page, MARGIN, 0.98, trace)
    shown = cycles or Interval(0, max(trace.cycles(), 1))
    axis = CycleAxis(shown.first, shown.stop)
    frame = Frame(page, axis, MARGIN + NAMES, WIDTH - 2 * MARGIN - NAMES)
    draw_units(frame, HEAD, trace)
    draw_cycle_axis(frame, HEAD + strip + 0.08)
    return page
