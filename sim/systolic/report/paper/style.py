"""How pictures look: one palette, one set of sizes, and how colours cover each other.

The hues are Okabe and Ito's, which stay apart for all common kinds of colour vision. Each phase of
the work has the same hue everywhere: load blue, stream orange, drain green. Not here: any data.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

INK, MUTED, HAIR, FAINT, PAPER = "#1d232b", "#6b7580", "#d5dade", "#f3f5f6", "#ffffff"
HUE = {"load": "#0072b2", "stream": "#e69f00", "next": "#f3bf4f", "drain": "#009e73"}
TINT = {"load": "#cfe3f1", "stream": "#fbe3b0", "next": "#fdeecd", "drain": "#c5e8dc"}
MID = {"load": "#9cc6e4", "stream": "#f6c768", "next": "#f9d892", "drain": "#86d0b8"}
TEXT = {"load": "#00486f", "stream": "#5f3f00", "next": "#5f3f00", "drain": "#00533c"}
STALLED, WAITING = "#d55e00", "#dfe3e6"

DPI = 150
TITLE, HEADING, BODY, SMALL, TINY = 17.0, 11.0, 9.0, 8.0, 6.5


@cache
def rgb(colour: str) -> tuple[int, int, int]:
    """Return the red, green and blue, 0 to 255, of a colour like "#0072b2"."""
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue


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
    image += (np.array(rgb(colour)) / 255 - image) * weight
