"""Bars of counts, row by row: the counts of a row side by side, its name and a note beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from systolic.report.paper import style
from systolic.report.plots.marks import boxes
from systolic.report.plots.sheet import Sheet
from systolic.report.summary.wording import number

BAR = 0.2
"""The height of a row in inches."""


class CountedBar(NamedTuple):
    """A bar of counts that stand side by side, and words on it."""

    name: str
    counts: tuple[int, ...]
    note: str


def draw_bars(
    sheet: Sheet, top: float, bars: Sequence[CountedBar], scale: str, colours: Sequence[str]
) -> None:
    """Draw a bar for each row; scale: the name of the scale below them; colours: of the counts."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes = sheet.axes(top, len(bars) * BAR)
    ends = np.cumsum([(0, *bar.counts) for bar in bars], axis=1)
    axes.set_xlim(0, max(1, int(ends.max())))
    axes.set_ylim(len(bars), 0)
    rows = np.arange(len(bars))
    for place, colour in enumerate(colours):
        boxes(axes, (ends[:, place], ends[:, place + 1]), (rows + 0.1, rows + 0.9), colour)
    axes.xaxis.set_visible(True)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value))))
    axes.set_xlabel(scale)
    for row, bar in enumerate(bars):
        sheet.beside(top + (row + 0.5) * BAR, bar.name, bar.note, style.SMALL)
