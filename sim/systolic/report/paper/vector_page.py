"""A page of boxes, planes and text as matplotlib draws it, for files that have no pixels.

It takes what `Page` takes, in inches from the top left corner, and looks the same. PNG files are
made by `Page`, because matplotlib takes longer to load than they take to draw.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from systolic.report.paper import style
from systolic.report.paper.dark import darkened, darkened_name
from systolic.report.paper.lettering import Weight
from systolic.report.paper.page import (
    BACKING_MARGIN,
    BELOW,
    Horizontal,
    Page,
    PageBox,
    Vertical,
)
from systolic.report.paper.saved import PictureFormat, write_figure

POINTS = 72
HAIR_POINTS = POINTS / style.DPI


class VectorPage(Page):
    """The same paper, drawn by matplotlib."""

    def __init__(
        self, width: float, height: float, form: PictureFormat, *, is_dark: bool = False
    ) -> None:
        from matplotlib.figure import Figure

        self.width, self.height, self.form, self.is_dark = width, height, form, is_dark
        self.figure = Figure(figsize=(width, height), facecolor=self._colour(style.PAPER))
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.axes.set(xlim=(0, width), ylim=(height, 0), autoscale_on=False)
        self._drawn = 0

    def _colour(self, colour: str) -> str:
        return darkened_name(colour) if self.is_dark else colour

    def _above(self) -> int:
        """Return the place above all that has been drawn: later drawings cover earlier ones."""
        self._drawn += 1
        return self._drawn

    def boxes(self, boxes: Iterable[PageBox], fill: str, joint: float = 0.0) -> None:
        """Draw boxes with joints of that width, half of it inside and half outside."""
        every, pad = list(boxes), joint / POINTS / 2
        if pad:
            self._fill([_grown(box, pad) for box in every], style.PAPER)
        self._fill([_grown(box, -min(pad, box[2] / 3, box[3] / 3)) for box in every], fill)

    def _fill(self, boxes: list[PageBox], fill: str) -> None:
        from matplotlib.collections import PolyCollection

        corners: Any = [
            [(x, y), (x + wide, y), (x + wide, y + high), (x, y + high)]
            for x, y, wide, high in boxes
        ]
        colour = self._colour(fill)
        self.axes.add_collection(
            PolyCollection(corners, facecolors=colour, linewidths=0, zorder=self._above()),
            autolim=False,
        )

    def plane(self, box: PageBox, plane: npt.NDArray[np.float64]) -> None:
        """Draw an RGB plane [lines, columns, 3] of values 0 to 1; each of its cells is a box."""
        x, y, wide, high = box
        pixels = np.rint(plane * 255).astype(np.uint8)
        self.axes.imshow(
            darkened(pixels) if self.is_dark else pixels,
            interpolation="none",
            aspect="auto",
            extent=(x, x + wide, y + high, y),
            zorder=self._above(),
        )

    def upright(self, x: float, top: float, bottom: float, colour: str, opacity: float) -> None:
        """Draw a hairline from top to bottom."""
        self.axes.plot(
            [x, x],
            [top, bottom],
            color=self._colour(colour),
            alpha=opacity,
            linewidth=HAIR_POINTS,
            solid_capstyle="butt",
            zorder=self._above(),
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = style.BODY,
        colour: str = style.INK,
        *,
        weight: Weight = "normal",
        ha: Horizontal = "left",
        va: Vertical = "top",
        opacity: float = 1.0,
        backed: bool = False,
    ) -> None:
        """Write one line of text at (x, y), as `Page` does."""
        ground = {
            "facecolor": self._colour(style.PAPER),
            "edgecolor": "none",
            "pad": BACKING_MARGIN,
        }
        self.axes.text(
            x,
            y + BELOW[va] * size / POINTS,
            text,
            fontsize=size,
            color=self._colour(colour),
            weight=weight,
            ha=ha,
            va="baseline",
            alpha=opacity,
            bbox=ground if backed else None,
            zorder=self._above(),
            parse_math=False,
        )

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        write_figure(self.figure, self.form, Path(path))


def _grown(box: PageBox, by: float) -> PageBox:
    x, y, wide, high = box
    return x - by, y - by, wide + 2 * by, high + 2 * by
