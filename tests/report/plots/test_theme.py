"""Are the colours of both themes apart for common kinds of colour vision, and legible?"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from support.colour_vision import VISION, contrast, lab
from systolic.report.paper.theme import THEMES, Theme, activity_of


@pytest.fixture(params=THEMES)
def theme(request: pytest.FixtureRequest) -> Theme:
    return THEMES[request.param]


@pytest.mark.parametrize("vision", VISION)
def test_activities_are_apart_from_each_other_and_from_the_paper(theme: Theme, vision: str) -> None:
    shown = [*theme.activities.values(), theme.faint]
    for one, other in combinations(shown, 2):
        assert np.linalg.norm(lab(one, vision) - lab(other, vision)) >= 11, (one, other)


@pytest.mark.parametrize("vision", VISION)
def test_things_that_differ_by_name_are_apart(theme: Theme, vision: str) -> None:
    """Less than activities, since names stand beside them too."""
    for one, other in combinations((*theme.series, theme.plain, theme.faint), 2):
        assert np.linalg.norm(lab(one, vision) - lab(other, vision)) >= 7, (one, other)


def test_words_are_legible(theme: Theme) -> None:
    """Contrast as WCAG counts it: 4.5 for small words."""
    assert contrast(theme.ink, theme.paper) >= 7
    assert contrast(theme.muted, theme.paper) >= 4.5
    for ground in (*theme.series, theme.plain, theme.activities["waiting"]):
        assert contrast(theme.ink, ground) >= 4.5
        assert contrast(theme.on_series, ground) >= 4.5


def test_what_a_label_says_in_its_first_word() -> None:
    assert activity_of("stalled by dma") == "stalled"
    assert activity_of("waiting for dma0") == "waiting"
    assert activity_of("streaming") == "streaming"
    assert activity_of("idle") is None
