"""How far apart colours are for common kinds of colour vision, and how well letters stand out.

Colour vision is simulated by the matrices of Machado, Oliveira and Fernandes (2009), severity 1.0,
in linear RGB; distance is that of CIELAB (1976); contrast is that of WCAG.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
         [0.004733, 0.691367, 0.303900]]
    ),
}  # fmt: skip
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
     [0.0193339, 0.1191920, 0.9503041]]
)  # fmt: skip
WHITE = np.array([0.95047, 1.0, 1.08883])


def linear(colour: str) -> Numbers:
    """Return red, green and blue of "#rrggbb" in linear RGB, 0 to 1."""
    channels = np.array(list(bytes.fromhex(colour[1:]))) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(colour: str, vision: str = "normal") -> Numbers:
    """Return a colour in CIELAB, as a kind of colour vision sees it."""
    ratio = TO_XYZ @ np.clip(VISION[vision] @ linear(colour), 0, 1) / WHITE
    cube = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * cube[1] - 16, 500 * (cube[0] - cube[1]), 200 * (cube[1] - cube[2])])


def contrast(one: str, other: str) -> float:
    """Return the ratio of relative luminances, 1 to 21."""
    light, dark = sorted((TO_XYZ[1] @ linear(c) + 0.05 for c in (one, other)), reverse=True)
    return float(light / dark)
