"""A page for pictures with scales and ticks: matplotlib axes at places given in inches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from systolic.report.paper import style
from systolic.writing import replacing


class FigurePage:
    """A matplotlib figure with places given in inches from its top left corner."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width, height), dpi=style.DPI, facecolor=style.PAPER)
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

    def text(self, left: float, top: float, text: str, **look: Any) -> None:
        """Write text with its top left corner at that place."""
        look = {"va": "top", "ha": "left", "color": style.INK, "fontsize": style.BODY, **look}
        place = (left / self.width, 1 - top / self.height)
        self.figure.text(*place, text, fontdict=None, **look)

    def save(self, path: str | Path) -> None:
        """Write a PNG; the file appears under its name only once it is complete."""
        with replacing(Path(path)) as partial:
            self.figure.savefig(partial, format="png", dpi=style.DPI)
