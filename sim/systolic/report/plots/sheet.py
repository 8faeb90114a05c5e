"""The sheet of paper of a view: head, legend, axes at places in inches, and the file.

Matplotlib is used by its objects, without pyplot, and loaded when a sheet is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from systolic.errors import shortened
from systolic.hw.spec import Chip
from systolic.report.paper import style
from systolic.report.paper.saved import write_figure
from systolic.report.paper.theme import Theme
from systolic.report.plots.look import Look
from systolic.report.plots.subject import PlotRun
from systolic.report.summary.wording import number, plural
from systolic.spans import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, MARGIN, HEAD, FOOT = 12.0, 0.45, 1.35, 0.7
NAMES, NOTES = 1.3, 2.35
"""Room at the left of axes for names of lanes, and at the right for their figures."""
MIDDLE = WIDTH - 2 * MARGIN - NAMES - NOTES
"""How wide axes are that have names and figures beside them."""
NAMES_END, NOTES_START = MARGIN + NAMES - 0.12, MARGIN + NAMES + MIDDLE + 0.12
"""Where names of lanes end, and their figures begin."""
LONGEST_TITLE = 75
COLUMNS = round(MIDDLE * style.DPI)
"""The most columns that a picture resolves: pixels of a PNG."""

Swatch = tuple[str, str]
"""A colour, and what it means."""


class Sheet:
    """Paper with a head; axes below it are placed by inches from its top left corner."""

    def __init__(self, look: Look, height: float, said: str, legend: Sequence[Swatch] = ()) -> None:
        from matplotlib.figure import Figure

        self.look, self.height = look, height
        self.theme: Theme = look.theme
        self.figure = Figure(figsize=(WIDTH, height), dpi=style.DPI, facecolor=self.theme.paper)
        title = shortened(look.title, LONGEST_TITLE)
        self.text(MARGIN, 0.26, title, fontsize=style.TITLE - 2, weight="bold")
        self.text(MARGIN, 0.6, said, color=self.theme.muted)
        self.swatches(legend, MARGIN, 0.97)

    def text(self, left: float, top: float, text: str, **kind: Any) -> None:
        """Write text with its top left corner at that place."""
        kind = {"va": "top", "color": self.theme.ink, "fontsize": style.BODY, **kind}
        self.figure.text(
            left / WIDTH, 1 - top / self.height, text, fontdict=None, parse_math=False, **kind
        )

    def beside(self, middle: float, name: str, note: str, size: float = style.BODY) -> None:
        """Write a lane's name left of its axes, in letters of a size, and a note right of them."""
        self.text(NAMES_END, middle, name, ha="right", va="center_baseline", fontsize=size)
        self.text(
            NOTES_START,
            middle,
            note,
            va="center_baseline",
            fontsize=style.TINY + 0.5,
            color=self.theme.muted,
        )

    def axes(
        self, top: float, height: float, left: float = MARGIN + NAMES, width: float = MIDDLE
    ) -> Axes:
        """Return bare axes at that place: without frame, ticks, or ground."""
        axes = self.figure.add_axes(
            (left / WIDTH, 1 - (top + height) / self.height, width / WIDTH, height / self.height)
        )
        axes.set_facecolor("none")
        for side in axes.spines.values():
            side.set_visible(False)
        axes.tick_params(
            colors=self.theme.muted,
            labelsize=style.SMALL,
            length=3,
            width=0.6,
            color=self.theme.hair,
        )
        axes.xaxis.label.set(color=self.theme.muted, fontsize=style.SMALL)
        axes.yaxis.label.set(color=self.theme.muted, fontsize=style.SMALL)
        axes.xaxis.set_visible(False)
        axes.yaxis.set_visible(False)
        return axes

    def swatches(self, swatches: Sequence[Swatch], left: float, middle: float) -> None:
        """Write what colours mean, side by side."""
        from matplotlib.patches import Rectangle

        from systolic.report.paper.lettering import text_inches

        for colour, words in swatches:
            corner = left / WIDTH, 1 - (middle + 0.06) / self.height
            square = Rectangle(
                corner,
                0.12 / WIDTH,
                0.12 / self.height,
                facecolor=colour,
                linewidth=0,
                transform=self.figure.transFigure,
            )
            self.figure.add_artist(square)
            self.text(left + 0.18, middle, words, fontsize=style.SMALL, va="center")
            left += 0.18 + text_inches(words, style.SMALL) + 0.25

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_figure(self.figure, self.look.format, path)


def said_of(run: PlotRun, cycles: Interval) -> str:
    """Return the line below the title: chip, length, and which cycles are shown of it."""
    whole = run.trace.cycles()
    text = f"{chip_text(run.chip)}; {plural(whole, 'cycle')}"
    if cycles != Interval(0, max(whole, 1)):
        text += f"; shown are cycles {number(cycles.first)} to {number(cycles.stop - 1)}"
    return text


def chip_text(chip: Chip) -> str:
    """Return a chip's name and the size of its array."""
    return f"{chip.name}: {chip.pe_array.rows} x {chip.pe_array.cols} PEs"


def cycle_scale(axes: Axes, run: PlotRun, cycles: Interval) -> None:
    """Give axes in cycles of the array their scale and its unit, at the foot."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_xlim(cycles.first, cycles.stop)
    axes.xaxis.set_visible(True)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value))))
    nanoseconds = run.period * 1000 / run.chip.ticks_mhz
    axes.set_xlabel(f"cycle of the array ({nanoseconds:.4g} ns each)")


def window_ticks(run: PlotRun, cycles: Interval) -> Interval:
    """Return the ticks of cycles of the array."""
    return Interval(cycles.first * run.period, cycles.stop * run.period)
