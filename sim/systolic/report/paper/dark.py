"""Colours of light paper on dark paper: lightness is turned round, hues stay what they are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from systolic.report.paper import style
from systolic.report.paper.theme import DARK


def darkened(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return colours [..., 3], 0 to 255: white as dark paper, black as white.

    The largest and the smallest of red, green and blue change places as 255 less each, and so all
    three keep their distances, which are hue and saturation.
    """
    wide = pixels.astype(np.int16)
    turned = wide + 255 - wide.max(-1, keepdims=True) - wide.min(-1, keepdims=True)
    paper = np.array(style.rgb(DARK.paper))
    return np.asarray((paper + turned * ((255 - paper) / 255)).round().astype(np.uint8))


def darkened_name(colour: str) -> str:
    """Return a colour like "#0072b2" so."""
    red, green, blue = darkened(np.array(style.rgb(colour), np.uint8))
    return f"#{red:02x}{green:02x}{blue:02x}"
