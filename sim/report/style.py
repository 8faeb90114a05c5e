"""How pictures look: one palette, one set of sizes, pages measured in inches. Draws no data.

Hues are Okabe and Ito's, which stay apart for all common kinds of colour vision; each phase of the
work keeps its hue everywhere: load blue, stream orange, drain green.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

INK, MUTED, HAIR, FAINT, PAPER = "#1d232b", "#6b7580", "#d5dade", "#f3f5f6", "#ffffff"
HUE = {"load": "#0072b2", "stream": "#e69f00", "next": "#f3bf4f", "drain": "#009e73"}
TINT = {"load": "#cfe3f1", "stream": "#fbe3b0", "next": "#fdeecd", "drain": "#c5e8dc"}
MID = {"load": "#9cc6e4", "stream": "#f6c768", "next": "#f9d892", "drain": "#86d0b8"}
TEXT = {"load": "#00486f", "stream": "#5f3f00", "next": "#5f3f00", "drain": "#00533c"}
STALLED, WAITING = "#d55e00", "#dfe3e6"

DPI = 150
TITLE, HEADING, BODY, SMALL, TINY = 17.0, 11.0, 9.0, 8.0, 6.5


class Page:
    """A figure with places given in inches from its top left corner."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width, height), dpi=DPI, facecolor=PAPER)
        FigureCanvasAgg(self.figure)

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Return bare axes (no frame, no ticks) at that place."""
        axes = self.figure.add_axes(
            (
                left / self.width,
                1 - (top + height) / self.height,
                width / self.width,
                height / self.height,
            )
        )
        axes.set_facecolor("none")
        axes.set_axis_off()
        return axes

    def text(self, left: float, top: float, text: str, **style: Any) -> None:
        """Write text with its top left corner at that place."""
        style = {"va": "top", "ha": "left", "color": INK, "fontsize": BODY, **style}
        place = (left / self.width, 1 - top / self.height)
        self.figure.text(*place, text, fontdict=None, **style)

    def save(self, path: str | Path) -> None:
        """Write a PNG; the file appears under its name only once it is complete."""
        path = Path(path)
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            self.figure.savefig(partial, format="png", dpi=DPI)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def inches(axes: Axes, width: float, height: float) -> None:
    """Let the axes count in inches, y downwards from the top."""
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)


def paper(lines: int, columns: int) -> npt.NDArray[np.float64]:
    """Return a white RGB plane [lines, columns, 3]."""
    return np.ones((lines, columns, 3))


def lay(
    image: npt.NDArray[np.float64],
    mask: npt.NDArray[np.bool_],
    colour: str,
    opacity: npt.NDArray[Any] | float = 1.0,
) -> None:
    """Lay a colour over the masked pixels of an RGB plane, in place; opacity 0 to 1."""
    weight = np.where(mask, np.clip(opacity, 0, 1), 0.0)[..., None]
    image += (np.array(to_rgb(colour)) - image) * weight


@lru_cache(maxsize=4096)
def text_inches(text: str, fontsize: float, weight: str = "normal") -> float:
    """Return how wide a line of text is drawn."""
    font = FontProperties(size=fontsize, weight=weight)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72
