"""Does what is drawn on a page land where matplotlib would put it, and come out of the file?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread

from systolic.report.paper import style
from systolic.report.paper.figure_page import FigurePage
from systolic.report.paper.lettering import lettering, text_inches
from systolic.report.paper.page import Page, pixel
from systolic.report.paper.png import png_bytes

WHITE = (255, 255, 255)
MATPLOTLIB = {"top": "top", "middle": "center_baseline", "bottom": "bottom"}


def ink(pixels: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """How dark each pixel is, 0 to 1."""
    return 1 - pixels[..., :3].mean(axis=2) / 255


def extent(pixels: npt.NDArray[Any]) -> tuple[int, int, int, int]:
    rows, columns = np.nonzero(ink(pixels) > 0.1)
    return int(columns.min()), int(rows.min()), int(columns.max()), int(rows.max())


def by_matplotlib(x: float, y: float, text: str, size: float, **how: Any) -> npt.NDArray[Any]:
    """The same text on a figure of the same size, 4 x 2 inches."""
    figure = Figure(figsize=(4, 2), dpi=style.DPI)
    canvas = FigureCanvasAgg(figure)
    how["va"] = MATPLOTLIB[how["va"]]
    figure.text(x / 4, 1 - y / 2, text, fontsize=size, **how)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


@pytest.mark.parametrize("weight", ["normal", "bold"])
@pytest.mark.parametrize("size", [6.0, 8.0, 11.2, 17.0])
@pytest.mark.parametrize(("ha", "va"), [("left", "top"), ("center", "middle"), ("right", "bottom")])
@pytest.mark.parametrize("text", ["0", "-1.5e7", "13", "streaming, idle"])
def test_text_lands_where_matplotlib_puts_it(
    text: str, ha: Any, va: Any, size: float, weight: Any
) -> None:
    page = Page(4, 2)
    page.text(2.013, 1.007, text, size, "#000000", weight=weight, ha=ha, va=va)
    theirs = by_matplotlib(2.013, 1.007, text, size, ha=ha, va=va, weight=weight)
    np.testing.assert_allclose(extent(page.pixels), extent(theirs), atol=2)
    assert ink(page.pixels).sum() == pytest.approx(ink(theirs).sum(), rel=0.1)


def test_widths_are_those_drawn() -> None:
    page = Page(4, 2)
    page.text(0.5, 0.5, "HHHHHH", 12)
    first, _, last, _ = extent(page.pixels)
    assert (last - first) / style.DPI == pytest.approx(text_inches("HHHHHH", 12), abs=0.05)
    assert text_inches("HHH", 12, "bold") > text_inches("HHH", 12)


@pytest.mark.parametrize("text", ["", " "])
def test_nothing_to_write(text: str) -> None:
    page = Page(1, 1)
    page.text(0.5, 0.5, text)
    assert (page.pixels == 255).all()


def test_letters_are_set_once() -> None:
    assert lettering("17", 8.0) is lettering("17", 8.0)


@pytest.mark.parametrize(("x", "y"), [(-0.1, 0.5), (0.9, 0.5), (0.5, -0.02), (0.5, 0.95), (5, 5)])
def test_text_is_cut_at_the_edge_of_the_page(x: float, y: float) -> None:
    page, larger = Page(1, 1), Page(8, 8)
    page.text(x, y, "a long line", backed=True)
    larger.text(x + 1, y + 1, "a long line")
    np.testing.assert_array_equal(page.pixels, larger.pixels[150:300, 150:300])


def test_faint_text_is_paler() -> None:
    strong, faint = Page(1, 1), Page(1, 1)
    strong.text(0.5, 0.5, "8")
    faint.text(0.5, 0.5, "8", opacity=0.45)
    assert ink(faint.pixels).sum() == pytest.approx(0.45 * ink(strong.pixels).sum(), rel=0.05)


def test_backed_text_covers_what_lies_below() -> None:
    page = Page(1, 1)
    page.boxes([(0, 0, 1, 1)], style.INK)
    page.text(0.5, 0.5, "8", colour=style.INK, ha="center", backed=True)
    assert (page.pixels == 255).all(axis=2).any()


def test_boxes_fill_whole_pixels() -> None:
    page = Page(1, 1)
    page.boxes([(0.1, 0.2, 0.4, 0.2)], style.HUE["load"])
    filled = (page.pixels == style.rgb(style.HUE["load"])).all(axis=2)
    assert filled[30:60, 15:75].all()
    assert filled.sum() == 30 * 60


def test_joints_are_white_on_both_sides_of_an_edge() -> None:
    page = Page(1, 1)
    page.boxes([(0, 0, 1, 1)], style.FAINT)
    page.boxes([(0.2, 0.2, 0.4, 0.4)], style.INK, joint=0.8)
    row = [tuple(int(v) for v in p) for p in page.pixels[60]]
    assert row[28:32] == [style.rgb(style.FAINT), WHITE, WHITE, style.rgb(style.INK)]
    assert row[88:92] == [style.rgb(style.INK), WHITE, WHITE, style.rgb(style.FAINT)]


def test_the_smallest_boxes_keep_their_colour_in_spite_of_joints() -> None:
    page = Page(1, 1)
    page.boxes([(0.2, 0.2, 1.5 / style.DPI, 0.4)], style.INK, joint=0.8)
    assert (page.pixels == style.rgb(style.INK)).all(axis=2).any()


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (30, 60), (500, 700)])
def test_planes_cover_their_box_cell_by_cell(shape: tuple[int, int]) -> None:
    plane = np.zeros((*shape, 3))
    plane[..., 0] = np.arange(shape[0])[:, None] / shape[0]
    plane[..., 1] = np.arange(shape[1]) / shape[1]
    page = Page(1, 1)
    page.plane((0.1, 0.2, 0.4, 0.2), plane)
    area = page.pixels[30:60, 15:75]
    assert (page.pixels[..., 2] == 0).sum() == area.shape[0] * area.shape[1]
    middle = (np.arange(30) + 0.5) / 30 * shape[0] // 1 / shape[0]
    np.testing.assert_allclose(area[:, 0, 0], middle * 255, atol=0.51)
    assert (np.diff(area[0, :, 1].astype(int)) >= 0).all()


def test_hairlines_at_the_edge_of_the_page_are_seen() -> None:
    page = Page(1, 1)
    page.upright(1.0, 0.2, 0.4, style.INK, 0.5)
    assert (ink(page.pixels)[30:60, -1] > 0.4).all()
    assert np.count_nonzero(ink(page.pixels)) == 30


def test_edges_are_rounded_alike() -> None:
    assert [pixel(n / style.DPI) for n in (0.49, 0.51, 1.51, 2.51)] == [0, 1, 2, 3]


def test_png_holds_the_pixels(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (37, 53, 3), np.uint8)
    (tmp_path / "a.png").write_bytes(png_bytes(pixels, 150))
    read = imread(tmp_path / "a.png")
    np.testing.assert_array_equal(np.rint(read * 255), pixels)


def test_a_page_with_axes_has_the_same_size(tmp_path: Path) -> None:
    for page in (Page(4, 3), FigurePage(4, 3)):
        page.save(tmp_path / "a.png")
        assert imread(tmp_path / "a.png").shape[:2] == (450, 600)


def test_the_picture_of_a_run_loads_no_figures() -> None:
    module = "systolic.report.wavefront.picture"
    program = f"import sys, {module}; sys.exit('matplotlib.figure' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
