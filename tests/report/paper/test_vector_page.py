"""Does the page that matplotlib draws look like the page of pixels, and dark paper like light?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from support.chips import ideal_chip
from support.runs import run_transpose
from systolic.report.paper import style
from systolic.report.paper.dark import darkened
from systolic.report.paper.page import Page
from systolic.report.paper.theme import DARK
from systolic.report.paper.vector_page import VectorPage
from systolic.report.wavefront.picture import wavefront_page

KINDS = ("psum_write", "read", "write")


def pixels(page: Page, file: Path) -> Any:
    page.save(file)
    return imread(file)[..., :3]


@pytest.mark.slow
@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize("size", [4, 40])
def test_both_pages_cover_the_same_pixels(size: int, is_dark: bool, tmp_path: Path) -> None:
    """At 4 x 4 boxes and numbers, at 40 x 40 planes. Letters and edges may differ by a pixel."""
    chip = ideal_chip(size, size)
    data = np.arange(size * size, dtype=np.float32).reshape(size, size)
    trace = run_transpose(chip, f"f32[{size},{size}]", data, grid=True, kinds=KINDS)[1].trace
    kinds: tuple[Any, ...] = (Page, partial(VectorPage, form="png"))
    plain, drawn = (
        pixels(
            wavefront_page(chip, trace, "a", page_of=partial(kind, is_dark=is_dark)),
            tmp_path / "a.png",
        )
        for kind in kinds
    )
    rows = min(len(plain), len(drawn))  # a height is rounded, or rounded down
    assert max(len(plain), len(drawn)) - rows <= 1
    plain, drawn = plain[:rows], drawn[:rows]
    differs = np.abs(plain - drawn).max(axis=2) > 0.15
    assert differs.mean() < 0.03
    inner = differs[1:-1, 1:-1] & differs[:-2, 1:-1] & differs[2:, 1:-1]
    solid = inner & differs[1:-1, :-2] & differs[1:-1, 2:]
    assert solid.mean() < 0.002, "an area, not an edge, has another colour"


def test_later_drawings_cover_earlier_ones(tmp_path: Path) -> None:
    page = VectorPage(1, 1, "png")
    page.boxes([(0, 0, 1, 1)], "#0072b2")
    page.plane((0.25, 0.25, 0.5, 0.5), np.ones((1, 1, 3)))
    page.boxes([(0.4, 0.4, 0.2, 0.2)], "#e69f00")
    found = (pixels(page, tmp_path / "a.png") * 255).round()
    assert list(found[5, 5]) == list(style.rgb("#0072b2"))
    assert list(found[45, 45]) == [255, 255, 255]
    assert list(found[75, 75]) == list(style.rgb("#e69f00"))


def test_dark_paper_by_hand() -> None:
    def dark(colour: tuple[int, int, int]) -> tuple[int, ...]:
        return tuple(int(c) for c in darkened(np.array(colour, np.uint8)))

    assert dark((255, 255, 255)) == style.rgb(DARK.paper)
    assert dark((0, 0, 0)) == (255, 255, 255)
    red, green, blue = dark((200, 20, 20))
    assert red > green == pytest.approx(blue, abs=6)
    assert dark((0, 200, 0)) == (20, 205, 29), "green stays 200 of 255 parts, the rest is paper"
