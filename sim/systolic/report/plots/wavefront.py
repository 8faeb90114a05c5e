"""The view `wavefront`: the picture that `systolic run` writes, also as SVG, PDF, and a window."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from systolic.report.plots.look import Look
from systolic.report.plots.subject import PlotRun

if TYPE_CHECKING:
    from systolic.report.paper.page import Page


def draw_wavefront(run: PlotRun, look: Look) -> Page:
    """Return the page."""
    from systolic.report.paper.page import Page
    from systolic.report.wavefront.picture import wavefront_page

    cycles = None if look.cycles is None else look.shown(run.trace.cycles())
    is_dark = look.theme_name == "dark"
    if look.format == "png":
        page_of = partial(Page, is_dark=is_dark)
        return wavefront_page(run.chip, run.trace, look.title, page_of=page_of, cycles=cycles)
    from systolic.report.paper.vector_page import VectorPage

    drawn_page = partial(VectorPage, form=look.format, is_dark=is_dark)
    return wavefront_page(run.chip, run.trace, look.title, page_of=drawn_page, cycles=cycles)
