"""The view `layout`: the picture of an XLA shape, a cell for each place; large ones by a window."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from systolic.report.paper.saved import PictureFormat, write_figure
from systolic.report.plots.look import Look
from systolic.report.views import LayoutSubject

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class LayoutSheet:
    """The picture, and the format of its file."""

    figure: Figure
    form: PictureFormat

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_figure(self.figure, self.form, path)


def draw_layout(subject: LayoutSubject, look: Look) -> LayoutSheet:
    """Return the sheet; LayoutError if the shape has no elements, or not that index."""
    from systolic.report.layout_picture import layout_picture

    figure = layout_picture(subject.shape, look.title, subject.index, look.theme)
    return LayoutSheet(figure, look.format)
