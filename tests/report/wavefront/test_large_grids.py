"""Of a grid too large for single PEs: are colours said in words, and do they mean what they say?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.chips import ideal_chip
from support.runs import run_transpose
from systolic.hw.spec import Chip
from systolic.report.paper import style
from systolic.report.paper.page import Page
from systolic.report.wavefront.bands import CycleAxis
from systolic.report.wavefront.manner import BYS, By, Colouring, Manner
from systolic.report.wavefront.painter import NEGATIVE, POSITIVE, Painter, hex_of
from systolic.report.wavefront.pe_bands import line_band
from systolic.report.wavefront.pe_lines import PeLines
from systolic.report.wavefront.picture import wavefront_page
from systolic.spans import Interval
from systolic.trace.records import Trace

KINDS = ("psum_write", "read", "write")
Run = tuple[Chip, Trace]


def tiles(rows: int = 16, *, values: bool = True) -> Run:
    """Tiles of an 8 x 8 array, of positive numbers, of which the next is loaded meanwhile."""
    chip = ideal_chip(8, 8)
    data = np.arange(1, 16 * rows + 1, dtype=np.float32).reshape(rows, 16)
    kinds = KINDS if values else ()
    outcome = run_transpose(chip, f"f32[{rows},16]", data, grid=True, kinds=kinds, values=values)[1]
    return chip, outcome.trace


def words_on(run: Run, colouring: Colouring = "activity", cycles: Interval | None = None) -> str:
    """Return all that is written on the page."""
    texts: list[str] = []

    class Written(Page):
        def text(self, x: float, y: float, text: str, *style: Any, **more: Any) -> None:
            texts.append(text)
            super().text(x, y, text, *style, **more)

    manner = Manner("row", colouring)
    wavefront_page(*run, "title", page_of=Written, cycles=cycles, manner=manner)
    return "\n".join(texts)


@pytest.mark.parametrize("values", [True, False])
def test_hatching_is_explained(values: bool) -> None:
    assert "Blue hatching: the next weight waits" in words_on(tiles(values=values))


def test_the_choice_of_cycles_is_explained() -> None:
    run = tiles(64)
    shown = "shown are cycles 0 to"
    assert (
        "the first tile and the beginning of the next (other cycles can be asked for)"
        in words_on(run)
    )
    asked = words_on(run, cycles=Interval(0, 20))
    assert f"{shown} 19" in asked
    assert "first tile" not in asked


@pytest.mark.parametrize("by", BYS)
def test_positive_weights_have_the_colour_of_positive_values(by: By) -> None:
    _, trace = tiles()
    axis = CycleAxis(0, trace.cycles())
    lines = PeLines.of(by, 8, 8)
    band, painter = line_band(trace, axis, lines, "value"), Painter.of("value", trace.grid)
    plane = painter.plane(band, "load")
    assert plane is not None
    loading = band.layers["load"] > 0
    expected: dict[tuple[int, int], float] = {}
    for load in trace.grid.loads:
        number = trace.grid.shape.read_of(*load.weights.shape, load.columns)
        for (r, c), weight in np.ndenumerate(load.weights):
            at = (
                int(lines.line[r, c]),
                int(load.reads[number][r, c] + trace.grid.shape.delay()[r, c]),
            )
            expected[at] = max(expected.get(at, 0.0), float(weight))
    numbers = band.numbers["load"]
    found = {(int(a), int(b)): float(numbers[a, b]) for a, b in np.argwhere(~np.isnan(numbers))}
    assert found == expected
    assert min(expected.values()) > 0
    blue, orange = (np.array(style.rgb(colour)) for colour in (NEGATIVE, POSITIVE))
    for colour in plane[loading & ~np.isnan(plane[..., 0])]:
        rgb = np.array(style.rgb(hex_of(colour)))
        assert np.abs(rgb - orange).sum() < np.abs(rgb - blue).sum()
    assert painter.hue("load") not in (NEGATIVE, POSITIVE)
