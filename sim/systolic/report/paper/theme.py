"""The colours of a picture with scales, for light and for dark paper.

The hues are Okabe and Ito's, which stay apart for all common kinds of colour vision; a test
measures how far apart. What a unit does has the same hue in every view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

ThemeName = Literal["light", "dark"]
THEME_NAMES: tuple[ThemeName, ...] = get_args(ThemeName)

Activity = Literal["streaming", "loading", "filling", "draining", "waiting", "stalled"]
ACTIVITIES: tuple[Activity, ...] = get_args(Activity)
"""What a label says in its first word, in the order in which pictures stack them. Idle is paper."""


def activity_of(label: str) -> Activity | None:
    """Return what a label says in its first word; None for idle."""
    return next((each for each in ACTIVITIES if label.startswith(each)), None)


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours as "#rrggbb".

    paper, ink: the ground and what is written on it. muted: lesser words. hair: lines of scales.
    faint: the ground of lanes. activities: of labels. plain: of what has no name of its own.
    series: of things that only differ by name, such as operations and channels. on_series: letters
    on them.
    """

    paper: str
    ink: str
    muted: str
    hair: str
    faint: str
    activities: Mapping[Activity, str]
    plain: str
    series: tuple[str, ...]
    on_series: str

    def series_colour(self, place: int) -> str:
        """Return the colour of the thing at that place; they come round again."""
        return self.series[place % len(self.series)]


LIGHT = Theme(
    paper="#ffffff",
    ink="#1d232b",
    muted="#5d6772",
    hair="#d5dade",
    faint="#f1f3f5",
    activities={
        "streaming": "#e69f00",
        "loading": "#0072b2",
        "filling": "#f9dc9c",
        "draining": "#009e73",
        "waiting": "#b4bdc6",
        "stalled": "#d1300f",
    },
    plain="#c9d3dc",
    series=(
        "#86bbdd", "#f3c667", "#7fcdb4", "#dfa9c7", "#b592f0", "#f3f2a6",
        "#6c9c48", "#b4789c", "#e8a87c", "#cc9c3c", "#8490c0", "#cccc9c",
    ),
    on_series="#1d232b",
)  # fmt: skip
DARK = Theme(
    paper="#14181d",
    ink="#eef1f4",
    muted="#a3adb8",
    hair="#3a434d",
    faint="#1e242b",
    activities={
        "streaming": "#f0ac1c",
        "loading": "#3f9fdb",
        "filling": "#7a5b1b",
        "draining": "#1dbd8e",
        "waiting": "#566270",
        "stalled": "#ff5a36",
    },
    plain="#424b55",
    series=(
        "#33698c", "#84600f", "#226b53", "#7d4567", "#6142b5", "#4f4417",
        "#54186c", "#183c24", "#6c6c3c", "#7854a8", "#003c90", "#84303c",
    ),
    on_series="#ffffff",
)  # fmt: skip
THEMES: dict[ThemeName, Theme] = {"light": LIGHT, "dark": DARK}
