"""The file of a matplotlib figure: whole or not at all, and the same bytes for the same picture."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from systolic.report.paper import style
from systolic.writing import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PictureFormat = Literal["png", "svg", "pdf"]
PICTURE_FORMATS: tuple[PictureFormat, ...] = get_args(PictureFormat)

DATES = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""The entries without which the same picture is the same file."""
SETTINGS: Any = {"svg.hashsalt": "systolic"}
ENCODING: dict[str, dict[str, Any]] = {"png": {"pil_kwargs": {"compress_level": 1}}}
"""Pictures are flat areas: a higher level takes several times as long, and saves a few percent."""


def write_figure(figure: Figure, form: PictureFormat, path: Path) -> None:
    """Write a figure to a file.

    It is made in memory first: of a disk that is full matplotlib's PDF writer says that a file is
    closed.
    """
    import matplotlib

    made = io.BytesIO()
    with matplotlib.rc_context(SETTINGS):
        figure.savefig(
            made,
            format=form,
            dpi=style.DPI,
            metadata=DATES[form],
            facecolor=figure.get_facecolor(),
            **ENCODING.get(form, {}),
        )
    with replacing(path) as partial:
        partial.write_bytes(made.getvalue())
