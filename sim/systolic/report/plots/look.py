"""How a picture is wanted: its title, format, theme, and the cycles that it shows."""

from __future__ import annotations

from dataclasses import dataclass

from systolic.errors import SystolicError
from systolic.report.paper.saved import PictureFormat
from systolic.report.paper.theme import THEMES, Theme, ThemeName
from systolic.report.wavefront.manner import PLAIN, Manner
from systolic.spans import Interval


@dataclass(frozen=True, slots=True)
class Look:
    """cycles: of the array, that the picture shows; None for all. arrows: semaphores are shown.
    manner: how the wavefront is drawn.
    """

    title: str
    format: PictureFormat = "png"
    theme_name: ThemeName = "light"
    cycles: Interval | None = None
    arrows: bool = False
    manner: Manner = PLAIN

    @property
    def theme(self) -> Theme:
        """Return the colours."""
        return THEMES[self.theme_name]

    def shown(self, run_cycles: int) -> Interval:
        """Return the cycles that are shown of a run of that many; SystolicError if there are none.

        A stop beyond the end is the end.
        """
        whole = Interval(0, max(run_cycles, 1))
        if self.cycles is None:
            return whole
        if self.cycles.first >= whole.stop:
            raise SystolicError(
                f"cycles {self.cycles.first} to {self.cycles.stop - 1} lie outside the run, which "
                f"has cycles 0 to {whole.stop - 1}"
            )
        return Interval(self.cycles.first, min(self.cycles.stop, whole.stop))
