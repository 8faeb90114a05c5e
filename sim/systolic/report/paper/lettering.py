"""Lines of text as bitmaps, set by Pillow in the font that comes with matplotlib.

Matplotlib itself is not loaded: that takes longer than a picture takes to draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from systolic.report.paper.style import DPI

Weight = Literal["normal", "bold"]
FILES: dict[Weight, str] = {"normal": "DejaVuSans.ttf", "bold": "DejaVuSans-Bold.ttf"}

ASCENT, DESCENT = 0.76, 0.24
"""How far the font reaches above and below the baseline, as a share of its size."""

POINTS = 72


@dataclass(frozen=True, slots=True, eq=False)
class Lettering:
    """A line of text in pixels: coverage [height, width], 0 to 255.

    rise: how far the first row lies above the baseline. left: where the first column lies, from the
    beginning of the line. advance: how far the line reaches.
    """

    coverage: npt.NDArray[np.uint8]
    left: int
    rise: int
    advance: float


@lru_cache(maxsize=8192)
def lettering(text: str, size: float, weight: Weight = "normal") -> Lettering:
    """Return a line of text in a size in points."""
    font = _font(weight, size)
    left, top, right, bottom = (round(edge) for edge in font.getbbox(text, anchor="ls"))
    image = Image.new("L", (max(right - left, 1), max(bottom - top, 1)))
    ImageDraw.Draw(image).text((-left, -top), text, fill=255, font=font, anchor="ls")
    return Lettering(np.array(image, np.uint8), left, -top, font.getlength(text))


def text_inches(text: str, size: float, weight: Weight = "normal") -> float:
    """Return how wide a line of text is drawn."""
    return lettering(text, size, weight).advance / DPI


@cache
def _font(weight: Weight, size: float) -> ImageFont.FreeTypeFont:
    found = find_spec("matplotlib")
    assert found is not None
    assert found.origin is not None
    file = Path(found.origin).parent / "mpl-data" / "fonts" / "ttf" / FILES[weight]
    pixels = size * DPI / POINTS
    return ImageFont.truetype(str(file), pixels, layout_engine=ImageFont.Layout.BASIC)
