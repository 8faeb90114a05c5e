"""The view `wavefront`: the picture of `systolic run`, also as SVG, PDF, a window, or a film."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from systolic.report.plots.look import Look
from systolic.report.plots.subject import PlotRun
from systolic.spans import Interval

if TYPE_CHECKING:
    from systolic.report.paper.page import Page
    from systolic.report.wavefront.animation import Film


def draw_wavefront(run: PlotRun, look: Look) -> Page:
    """Return the page."""
    from systolic.report.wavefront.picture import require_whole, wavefront_page

    require_whole(run.trace)
    return wavefront_page(
        run.chip,
        run.trace,
        look.title,
        page_of=_paper(look),
        cycles=_cycles(run, look),
        manner=look.manner,
    )


def film(run: PlotRun, look: Look) -> Film:
    """Return the film of the same run."""
    from systolic.report.wavefront.animation import Film
    from systolic.report.wavefront.picture import require_values, require_whole

    require_whole(run.trace)
    require_values(run.trace, look.manner)
    is_dark = look.theme_name == "dark"
    return Film(run.chip, run.trace, look.title, look.manner, _cycles(run, look), is_dark)


def _cycles(run: PlotRun, look: Look) -> Interval | None:
    return None if look.cycles is None else look.shown(run.trace.cycles())


def _paper(look: Look) -> Callable[[float, float], Page]:
    """Return the maker of pages of a format and a theme."""
    is_dark = look.theme_name == "dark"
    if look.format == "png":
        from systolic.report.paper.page import Page

        return partial(Page, is_dark=is_dark)
    from systolic.report.paper.vector_page import VectorPage

    return partial(VectorPage, form=look.format, is_dark=is_dark)
