"""The colours of numbers: which vector is where, or how large a value is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from systolic.report.paper import style
from systolic.report.summary.wording import value_text
from systolic.report.wavefront.bands import Band, Phase, Shares
from systolic.report.wavefront.manner import Colouring
from systolic.trace.grid import GridHistory

VECTORS = ("#fdeab0", "#fcc04a", "#f0803c", "#d04a6c", "#93308c", "#46196a")
"""From the first vector to the last: their lightness falls, so they stay apart without hue too."""
NEGATIVE, ZERO, POSITIVE = "#0072b2", "#e0e4e8", "#d55e00"
DARK_INK_FROM = 0.45
"""Grounds lighter than this, 0 to 1, bear dark letters."""


@dataclass(frozen=True, slots=True)
class Painter:
    """What colours say in a picture. last_vector: the largest number of a vector in the run."""

    colouring: Colouring = "activity"
    last_vector: int = 0

    @classmethod
    def of(cls, colouring: Colouring, history: GridHistory) -> Painter:
        """Return the painter of a run."""
        return cls(colouring, max((len(one.injections) for one in history.matmuls), default=1) - 1)

    def paint(self, numbers: npt.NDArray[Any], largest: float) -> Shares:
        """Return the colours [..., 3] of numbers, each 0 to 1; NaN where a number is NaN.

        largest: the magnitude of the deepest colour, of values.
        """
        if self.colouring == "vector":
            return _ramp(VECTORS, numbers / max(self.last_vector, 1))
        share = np.clip(numbers / (largest or 1.0), -1, 1)
        depth = np.sqrt(np.abs(share))  # so that small values are not taken for zeros
        is_negative = np.expand_dims(share < 0, -1)
        return np.where(is_negative, _ramp((ZERO, NEGATIVE), depth), _ramp((ZERO, POSITIVE), depth))

    def number(self, vector: npt.NDArray[Any], value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return which of a PE's numbers is coloured: of its vector, or of its sum."""
        return np.asarray(vector if self.colouring == "vector" else value, np.float64)

    def hue(self, phase: Phase) -> str:
        """Return the colour of a phase that has no number. Blue is a negative value, if it has."""
        return style.MUTED if self.colouring == "value" else style.HUE[phase]

    def plane(self, band: Band, phase: Phase) -> Shares | None:
        """Return the colours [lines, columns, 3] of a phase of a band; None if it has none."""
        numbers = band.numbers.get(phase)
        return None if numbers is None else self.paint(numbers, largest_of(band))

    def cell(
        self, band: Band, phase: Phase, at: tuple[int, int], *, is_pale: bool
    ) -> tuple[str, str]:
        """Return the colours of a cell at (line, column) and of its letters.

        is_pale: activity is shown paler there.
        """
        numbers = band.numbers.get(phase)
        if numbers is None or np.isnan(numbers[at]):
            return (style.TINT if is_pale else style.MID)[phase], style.TEXT[phase]
        fill = hex_of(self.paint(numbers[at], largest_of(band)))
        return fill, ink_on(fill)

    def place_text(self, band: Band) -> str:
        """Return the memory that a band shows, and how large its values are."""
        if self.colouring != "value" or not band.numbers:
            return band.place
        size = value_text(np.float32(largest_of(band)))
        return ", ".join(filter(None, (band.place, f"to {size}")))


def largest_of(band: Band) -> float:
    """Return the largest finite magnitude of a band's numbers; 0 if it has none."""
    planes = [np.abs(plane[np.isfinite(plane)]) for plane in band.numbers.values()]
    return max((float(plane.max(initial=0.0)) for plane in planes), default=0.0)


def _ramp(colours: tuple[str, ...], share: npt.NDArray[Any]) -> Shares:
    """Return colours between the colours of a ramp; share: 0 to 1, NaN for none."""
    stops = np.linspace(0, 1, len(colours))
    channels = np.array([style.rgb(colour) for colour in colours]) / 255
    return np.stack([np.interp(share, stops, channel) for channel in channels.T], axis=-1)


def hex_of(colour: npt.NDArray[np.float64]) -> str:
    """Return a colour [3], 0 to 1, as "#rrggbb"."""
    red, green, blue = (round(255 * float(part)) for part in colour)
    return f"#{red:02x}{green:02x}{blue:02x}"


def ink_on(fill: str) -> str:
    """Return the colour of letters on a ground."""
    red, green, blue = style.rgb(fill)
    light = (0.299 * red + 0.587 * green + 0.114 * blue) / 255
    return style.INK if light > DARK_INK_FROM else style.PAPER
