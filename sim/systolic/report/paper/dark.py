"""Colours of light paper on dark paper: lightness is turned round, hues stay what they are.

If lightness alone were turned round, a full colour that is dark on white would glare: a green would
become mint. So the purer a colour is, the less bright it may become.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from systolic.report.paper import style
from systolic.report.paper.theme import DARK

PURE_FROM, DIMMED_BY = 90, 0.7
"""The difference of channels from which a colour is dimmed, and by how much for each step more."""


def darkened(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return colours [..., 3], 0 to 255: white as dark paper, black as white.

    All channels are raised or lowered together, and so they keep their distances, which are hue and
    saturation. The largest becomes 255 less the smallest, or less than that if the colour is pure.
    """
    wide = pixels.astype(np.float64)
    most, least = wide.max(-1, keepdims=True), wide.min(-1, keepdims=True)
    purity = most - least
    dimmed = np.maximum(purity, 255 - DIMMED_BY * np.maximum(0, purity - PURE_FROM))
    turned = wide - most + np.minimum(255 - least, dimmed)
    paper = np.array(style.rgb(DARK.paper))
    return np.asarray((paper + turned * ((255 - paper) / 255)).round().astype(np.uint8))


def darkened_name(colour: str) -> str:
    """Return a colour such as "#0072b2" as it is on dark paper."""
    red, green, blue = darkened(np.array(style.rgb(colour), np.uint8))
    return f"#{red:02x}{green:02x}{blue:02x}"


def letters_on(ground: str, *, is_dark: bool) -> str:
    """Return the colour of letters on a ground: ink or paper, whichever differs more in brightness.

    Both are colours of light paper, which dark paper turns.
    """
    turned = darkened_name if is_dark else str
    there = _brightness(turned(ground))

    def contrast(letters: str) -> float:
        dim, bright = sorted((there, _brightness(turned(letters))))
        return (bright + 0.05) / (dim + 0.05)

    return max((style.INK, style.PAPER), key=contrast)


def _brightness(colour: str) -> float:
    """Return the relative luminance of a colour, 0 to 1, as WCAG defines it."""
    parts = [each / 255 for each in style.rgb(colour)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
