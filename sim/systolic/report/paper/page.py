"""A page of pixels for pictures made of boxes, colour planes, upright lines and text.

Places and sizes are in inches from the top left corner; sizes of text and joints are in points.
Every edge falls on a pixel, so that all edges are sharp and no drawing library is needed. Pictures
with scales and ticks are drawn on a `figure_page` instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from systolic.report.paper import style
from systolic.report.paper.dark import darkened
from systolic.report.paper.lettering import ASCENT, DESCENT, Lettering, Weight, lettering
from systolic.report.paper.png import png_bytes
from systolic.writing import replacing

PageBox: TypeAlias = tuple[float, float, float, float]
"""Left, top, width, height."""

Horizontal = Literal["left", "center", "right"]
Vertical = Literal["top", "middle", "bottom"]

POINT = style.DPI / 72
BEFORE: dict[Horizontal, float] = {"left": 0.0, "center": 0.5, "right": 1.0}
BELOW: dict[Vertical, float] = {"top": ASCENT, "middle": ASCENT / 2, "bottom": -DESCENT}
"""How far the baseline lies below the given place of a text, as a share of the font's size."""

BACKING_MARGIN = 0.6


class Page:
    """White paper; later drawings cover earlier ones."""

    def __init__(self, width: float, height: float, *, is_dark: bool = False) -> None:
        self.width, self.height, self.is_dark = width, height, is_dark
        self.pixels = np.full((pixel(height), pixel(width), 3), 255, np.uint8)

    def boxes(self, boxes: Iterable[PageBox], fill: str, joint: float = 0.0) -> None:
        """Draw boxes with white joints of that width, half of it inside and half outside."""
        colour, pad = style.rgb(fill), math.ceil(joint * POINT / 2)
        for left, top, width, height in boxes:
            x, y, right, bottom = _edges(left, top, width, height)
            if pad:
                self._area(x - pad, y - pad, right + pad, bottom + pad)[...] = 255
            # Joints take at most two thirds of a box, so that a small box is still seen.
            across, down = min(pad, (right - x) // 3), min(pad, (bottom - y) // 3)
            self._area(x + across, y + down, right - across, bottom - down)[...] = colour

    def plane(self, box: PageBox, plane: npt.NDArray[np.float64]) -> None:
        """Draw an RGB plane [lines, columns, 3] of values 0 to 1; each of its cells is a box."""
        x, y, right, bottom = _edges(*box)
        area = self._area(x, y, right, bottom)
        lines = _cells(len(area), len(plane))
        columns = _cells(area.shape[1], plane.shape[1])
        shades = np.rint(plane * 255).astype(np.uint8)
        area[...] = shades[lines[:, None], columns[None, :]]

    def upright(self, x: float, top: float, bottom: float, colour: str, opacity: float) -> None:
        """Draw a hairline, one pixel wide, from top to bottom."""
        left = min(pixel(x), self.pixels.shape[1] - 1)
        area = self._area(left, pixel(top), left + 1, pixel(bottom))
        _cover(area, colour, np.full(area.shape[:2], opacity))

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
        """Write one line of text at (x, y).

        ha, va: which point of the text lies there: its left, center or right, its top, middle or
        bottom. The "middle" is the middle of capitals and digits. backed: on a white ground, so
        that the text can be read above other drawings.
        """
        letters = lettering(text, size, weight)
        left = x * style.DPI - BEFORE[ha] * letters.advance
        baseline = y * style.DPI + BELOW[va] * size * POINT
        if backed:
            pad = BACKING_MARGIN * POINT
            top, bottom = baseline - ASCENT * size * POINT, baseline + DESCENT * size * POINT
            right = left + letters.advance
            backing = (round(v) for v in (left - pad, top - pad, right + pad, bottom + pad))
            self._area(*backing)[...] = 255
        self._write(
            round(left) + letters.left, round(baseline) - letters.rise, letters, colour, opacity
        )

    def save(self, path: str | Path) -> None:
        """Write a PNG; the file appears under its name only once it is complete."""
        with replacing(Path(path)) as partial:
            pixels = darkened(self.pixels) if self.is_dark else self.pixels
            partial.write_bytes(png_bytes(pixels, style.DPI))

    def _write(self, x: int, y: int, letters: Lettering, colour: str, opacity: float) -> None:
        height, width = letters.coverage.shape
        area = self._area(x, y, x + width, y + height)
        inside = letters.coverage[max(-y, 0) :, max(-x, 0) :][: len(area), : area.shape[1]]
        _cover(area, colour, inside * (opacity / 255))

    def _area(self, left: int, top: int, right: int, bottom: int) -> npt.NDArray[np.uint8]:
        """Return the pixels of an area, as far as they lie on the page."""
        return self.pixels[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]


def pixel(inches: float) -> int:
    """Return the nearest edge between pixels."""
    return math.floor(inches * style.DPI + 0.5)


def _edges(left: float, top: float, width: float, height: float) -> tuple[int, int, int, int]:
    return pixel(left), pixel(top), pixel(left + width), pixel(top + height)


def _cells(pixels: int, cells: int) -> npt.NDArray[np.int64]:
    """Return which cell the middle of each pixel lies in."""
    return np.asarray((2 * np.arange(pixels) + 1) * cells // (2 * max(pixels, 1)))


def _cover(area: npt.NDArray[np.uint8], colour: str, opacity: npt.NDArray[Any]) -> None:
    area[...] = area + (np.array(style.rgb(colour)) - area) * opacity[..., None] + 0.5
