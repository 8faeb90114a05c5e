"""What the colours of a wavefront picture mean: phases, numbers of vectors, or values."""

from __future__ import annotations

import numpy as np

from systolic.report.paper import style
from systolic.report.paper.lettering import text_inches
from systolic.report.paper.page import Page
from systolic.report.summary.wording import number
from systolic.report.wavefront.bands import Phase
from systolic.report.wavefront.manner import Colouring
from systolic.report.wavefront.painter import Painter

RAMP_WIDTH, RAMP_STEPS = 2.6, 64
NAMED: dict[Colouring, tuple[Phase, ...]] = {
    "activity": ("drain", "stream", "load"), "vector": ("drain", "load"), "value": (),
}  # fmt: skip
"""The phases that keep their colours, from the right."""


def draw_legend(page: Page, right: float, painter: Painter) -> None:
    """Draw what colours mean, up to `right` inches: phases, numbers of vectors, or values."""
    if painter.colouring != "activity":
        right = _draw_ramp(page, right, painter)
    for phase in NAMED[painter.colouring]:
        page.text(right, 0.36, phase, style.HEADING, style.HUE[phase], weight="bold", ha="right")
        right -= text_inches(phase, style.HEADING, "bold") + 0.22


def _draw_ramp(page: Page, right: float, painter: Painter) -> float:
    """Draw the scale of numbers; return how far left it reaches."""
    if painter.colouring == "vector":
        ends, what = ("0", number(painter.last_vector)), "number of the vector"
        shares = np.linspace(0, painter.last_vector, RAMP_STEPS)
    else:
        ends, what = ("-largest", "largest of its band"), "0"
        shares = np.linspace(-1, 1, RAMP_STEPS)
    left = right - RAMP_WIDTH
    page.plane((left, 0.34, RAMP_WIDTH, 0.14), painter.paint(shares[None, :], 1.0))
    page.text(left, 0.53, ends[0], style.TINY, style.MUTED)
    page.text(right, 0.53, ends[1], style.TINY, style.MUTED, ha="right")
    page.text((left + right) / 2, 0.53, what, style.TINY, style.MUTED, ha="center")
    return left - 0.3
