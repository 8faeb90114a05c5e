"""Does the picture show the right numbers and colours? Read back from the figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from sim.layout import Layout, LayoutError, Shape
from sim.report.layout_picture import layout_picture, save_layout_picture


def numbers(figure: Figure) -> list[list[int]]:
    (axes,) = figure.axes
    cells = {(int(t.get_position()[1]), int(t.get_position()[0])): int(t.get_text())
             for t in axes.texts}  # fmt: skip
    rows, columns = (max(c[k] for c in cells) + 1 for k in (0, 1))
    return [[cells[r, c] for c in range(columns)] for r in range(rows)]


def colours(figure: Figure) -> dict[tuple[int, int], str]:
    (axes,) = figure.axes
    return {(int(p.get_y()), int(p.get_x())): to_hex(p.get_facecolor())
            for p in axes.patches if isinstance(p, Rectangle)}  # fmt: skip


def test_figure_1() -> None:
    figure = layout_picture(Shape.parse("f32[3,5]{1,0:T(2,2)}"))
    assert numbers(figure) == [
        [0, 1, 4, 5, 8, 9],
        [2, 3, 6, 7, 10, 11],
        [12, 13, 16, 17, 20, 21],
        [14, 15, 18, 19, 22, 23],
    ]
    colour = colours(figure)
    padding = {cell for cell, name in colour.items() if name == "#ffffff"}
    assert padding == {(3, c) for c in range(6)} | {(r, 5) for r in range(4)}
    tiles = [{colour[r, c] for r in (0, 1) for c in pair} for pair in ((0, 1), (2, 3))]
    assert [len(tile) for tile in tiles] == [1, 1]
    assert tiles[0] != tiles[1]


def test_figure_2_outlines_second_level_tiles() -> None:
    figure = layout_picture(Shape.parse("bf16[4,8]{1,0:T(2,4)(2,1)}"))
    assert numbers(figure)[:2] == [list(range(0, 15, 2)), list(range(1, 16, 2))]
    outlines = [p for p in figure.axes[0].patches if isinstance(p, FancyBboxPatch)]
    assert len(outlines) == 16


@pytest.mark.parametrize(
    "text", ["f32[]", "f32[7]", "f32[3,4]{0,1}", "f32[2,3,4]{2,1,0:T(2,2)}", "f32[5]{0:T(8,4)}"]
)
def test_other_ranks(text: str) -> None:
    shape = Shape.parse(text)
    shown = [number for row in numbers(layout_picture(shape)) for number in row]
    assert len(set(shown)) == len(shown) >= shape.num_elements()


def test_legacy_padding_is_drawn() -> None:
    shape = Shape("f32", (2, 3), Layout((0, 1), padded_dimensions=(3, 5)))
    assert numbers(layout_picture(shape)) == [[r + 3 * c for c in range(5)] for r in range(3)]


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match=r"^a picture shows 1 to 4096 cells, found 0 in f32\[0"):
        layout_picture(Shape("f32", (0, 3)))
    with pytest.raises(LayoutError, match=r"^the picture cannot be written to .*\.nonsense"):
        save_layout_picture(Shape("f32", (2, 3)), tmp_path / "x.nonsense")
