"""Does the picture show the right numbers and colours? Read back from the figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from systolic.layout import Layout, LayoutError, Shape
from systolic.report.layout_picture import layout_picture, picture_window, save_layout_picture


def numbers(figure: Figure) -> list[list[int]]:
    (axes,) = figure.axes
    cells = {
        (int(t.get_position()[1]), int(t.get_position()[0])): int(t.get_text()) for t in axes.texts
    }
    rows, columns = (max(c[k] for c in cells) + 1 for k in (0, 1))
    return [[cells[r, c] for c in range(columns)] for r in range(rows)]


def colours(figure: Figure) -> dict[tuple[int, int], str]:
    (axes,) = figure.axes
    return {
        (int(p.get_y()), int(p.get_x())): to_hex(p.get_facecolor())
        for p in axes.patches
        if isinstance(p, Rectangle)
    }


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


def window_numbers(figure: Figure) -> dict[tuple[int, int], int]:
    (axes,) = figure.axes
    return {
        (int(t.get_position()[1]), int(t.get_position()[0])): int(t.get_text()) for t in axes.texts
    }


@pytest.mark.slow
@pytest.mark.parametrize("index", [None, (0, 0), (130, 77), (4095, 4095)])
def test_a_large_shape_is_shown_by_a_window(index: tuple[int, int] | None) -> None:
    shape = Shape.parse("f32[4096,4096]{1,0:T(8,128)}")
    figure, window = layout_picture(shape, index=index), picture_window(shape, index)
    shown = window_numbers(figure)
    assert len(shown) == 256
    assert index is None or index in shown
    assert shown == {(r, c): shape.linear_index((r, c)) for r, c in shown}
    assert str(window) in figure.axes[0].get_xlabel()
    marks = [p for p in figure.axes[0].patches if isinstance(p, Rectangle) and not p.get_fill()]
    assert [(int(p.get_y()), int(p.get_x())) for p in marks] == ([] if index is None else [index])


def test_a_window_of_stacked_dimensions_and_of_a_vector() -> None:
    shape = Shape.parse("s8[5,70,90]{2,1,0:T(8,10)}")
    shown = window_numbers(layout_picture(shape, index=(4, 69, 89)))
    assert shown[4 * 72 + 69, 89] == shape.linear_index((4, 69, 89))
    vector = Shape.parse("f32[1000]{0:T(4)}")
    assert window_numbers(layout_picture(vector, index=(999,)))[0, 999] == 999


@settings(max_examples=200, deadline=None)
@given(
    st.tuples(st.integers(1, 200), st.integers(1, 200)),
    st.tuples(st.integers(1, 140), st.integers(1, 140)),
    st.data(),
)
def test_a_window_shows_the_element_and_whole_tiles(dims, tile, data: st.DataObject) -> None:
    shape = Shape("f32", dims, Layout((1, 0), [tile]))
    index = tuple(data.draw(st.integers(0, size - 1)) for size in dims)
    window = picture_window(shape, index)
    for extent, size, step, wanted in zip(
        (window.rows, window.columns), dims, tile, index, strict=True
    ):
        assert extent.size == -(-size // step) * step
        assert extent.first <= wanted < extent.stop <= extent.size
        assert extent.is_whole == (extent.size <= 32)
        if 2 * step <= 16 and not extent.is_whole:
            assert extent.first % step == extent.stop % step == 0


def test_neighbouring_tiles_differ_in_colour() -> None:
    colour = colours(layout_picture(Shape.parse("f32[32,32]{1,0:T(4,4)}")))
    for row, column in ((r, c) for r in range(28) for c in range(28)):
        assert (colour[row, column] == colour[row, column + 1]) == (column % 4 != 3)
        assert (colour[row, column] == colour[row + 1, column]) == (row % 4 != 3)


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match=r"^f32\[0,3\]\{1,0\} has no elements: there is nothing"):
        layout_picture(Shape("f32", (0, 3)))
    with pytest.raises(LayoutError, match=r"^the picture cannot be written to .*\.nonsense"):
        save_layout_picture(Shape("f32", (2, 3)), tmp_path / "x.nonsense")
