"""Lines of text as bitmaps, set in the font that comes with matplotlib.

Of matplotlib only its binding of FreeType is loaded, because figures and axes take longer to import
than a picture takes to draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib import ft2font
from matplotlib.ft2font import FT2Font

from systolic.report.paper.style import DPI

Weight = Literal["normal", "bold"]
FILES: dict[Weight, str] = {"normal": "DejaVuSans.ttf", "bold": "DejaVuSans-Bold.ttf"}

ASCENT, DESCENT = 0.76, 0.24
"""How far the font reaches above and below the baseline, as a share of its size."""

SUBPIXELS = 64
"""FreeType counts lengths in this part of a pixel."""


# Before matplotlib 3.10 flags were plain numbers.
HINTING: Any = getattr(ft2font, "LoadFlags", int)(0)


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
    font = _font(weight)
    font.set_size(size, DPI)
    font.set_text(text, 0.0, flags=HINTING)
    font.draw_glyphs_to_bitmap(antialiased=True)
    advance, height = (extent / SUBPIXELS for extent in font.get_width_height())
    return Lettering(
        np.array(font.get_image(), np.uint8),
        left=math.floor(font.get_bitmap_offset()[0] / SUBPIXELS),
        # A letter that ends on an edge between pixels has a spare row above it.
        rise=math.floor(height - font.get_descent() / SUBPIXELS) + 1,
        advance=advance,
    )


def text_inches(text: str, size: float, weight: Weight = "normal") -> float:
    """Return how wide a line of text is drawn."""
    return lettering(text, size, weight).advance / DPI


@cache
def _font(weight: Weight) -> FT2Font:
    return FT2Font(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / FILES[weight]))
