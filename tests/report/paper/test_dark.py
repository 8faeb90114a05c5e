"""Are the colours of the wavefront picture apart, calm and legible on dark paper as on light?"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from support.colour_vision import VISION, contrast, lab
from systolic.report.paper import style
from systolic.report.paper.dark import darkened_name
from systolic.report.wavefront.draw_units import DMA_HUE, colours

SHOWN = (*(style.HUE[phase] for phase in ("load", "stream", "drain")), style.STALLED, DMA_HUE)
LABELS = ("loading", "streaming", "draining", "filling", "waiting for dma0", "stalled by dma")


def on_paper(colour: str, *, is_dark: bool) -> str:
    return darkened_name(colour) if is_dark else colour


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("is_dark", [False, True])
def test_phases_are_apart_from_each_other_and_from_the_paper(vision: str, *, is_dark: bool) -> None:
    shown = [on_paper(colour, is_dark=is_dark) for colour in (*SHOWN, style.PAPER)]
    for one, other in combinations(shown, 2):
        assert np.linalg.norm(lab(one, vision) - lab(other, vision)) >= 15, (one, other)


def test_no_phase_glares_on_dark_paper() -> None:
    """Each is brighter than the paper and clearly less bright than what is written."""
    paper, ink = (darkened_name(colour) for colour in (style.PAPER, style.INK))
    for colour in SHOWN:
        turned = darkened_name(colour)
        assert contrast(turned, paper) >= 2
        assert contrast(turned, ink) >= 1.3, turned


@pytest.mark.parametrize(("unit", "label"), list(product(("pe_array", "pooling", "dma0"), LABELS)))
@pytest.mark.parametrize("is_dark", [False, True])
def test_what_a_unit_did_is_legible(unit: str, label: str, *, is_dark: bool) -> None:
    found = (on_paper(each, is_dark=is_dark) for each in colours(unit, label, is_dark=is_dark))
    assert contrast(*found) >= 4
