"""Do the pictures come out: of the right size, with something on them, for every kind of run?"""

from __future__ import annotations

import colorsys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from support.blocks import block_images, block_program
from support.chips import ideal_chip
from support.runs import run_transpose
from systolic.errors import SystolicError
from systolic.hw.spec import Chip
from systolic.machine import simulate
from systolic.report.paper.lettering import text_inches
from systolic.report.paper.page import Page
from systolic.report.sweeps.comparison import axis_name, plot_comparison, tick_text
from systolic.report.sweeps.pairs import comparisons
from systolic.report.wavefront.bands import CycleAxis
from systolic.report.wavefront.draw_bands import caption_places, tick_step
from systolic.report.wavefront.draw_panels import strength
from systolic.report.wavefront.draw_units import colours, name_list
from systolic.report.wavefront.picture import plot_wavefront
from systolic.report.wavefront.timeline import plot_timeline, timeline_page
from systolic.trace.labels import LabelInterval
from systolic.trace.records import Trace

KINDS = ("psum_write", "read", "write")


def tiles(chip: Chip, m: int, n: int, **options: Any) -> Trace:
    data = np.arange(1, m * n + 1, dtype=np.float32).reshape(m, n)
    return run_transpose(chip, f"f32[{m},{n}]", data, grid=True, **options)[1].trace


def check(path: Path, width: int = 2250) -> None:
    """A PNG of that width, neither blank nor full, and no trace of a half-written one."""
    image = imread(path)[..., :3]
    assert image.shape[1] == width
    assert image.shape[0] > 300
    white = (image == 1).all(axis=2).mean()
    assert 0.2 < white < 0.995
    assert [p.name for p in path.parent.iterdir()] == [path.name]


SHAPES: list[tuple[int, int, int, int, dict[str, Any]]] = [
    (4, 4, 4, 4, {}),
    (1, 1, 1, 1, {}),
    (2, 3, 2, 3, {}),
    (3, 2, 6, 5, {}),
    (4, 4, 8, 12, {"state_buffer": {"banks": 1}}),
    (4, 4, 4, 4, {"pe_array": {"weight_path": "top"}}),
    (4, 6, 4, 6, {"pe_array": {"hop": [2, 1], "cell": [2, 2], "entry_cycles": 3}}),
    (4, 4, 8, 8, {"pe_array": {"weight_buffer": "single"}, "result_buffer": {"banks": 1}}),
    (3, 40, 3, 40, {}),
    (40, 3, 40, 3, {}),
    (128, 64, 128, 64, {}),
    (128, 64, 300, 256, {}),
    (4, 4, 4, 4, {"clock": {"core": 3000, "slow": 1000}, "activation": {"clock": "slow"}}),
]


@pytest.mark.parametrize(("rows", "cols", "m", "n", "tables"), SHAPES)
def test_wavefront(rows: int, cols: int, m: int, n: int, tables: Any, tmp_path: Path) -> None:
    chip = ideal_chip(rows, cols, **tables)
    path = tmp_path / "wavefront.png"
    plot_wavefront(chip, tiles(chip, m, n, kinds=KINDS), path, title=f"{m} x {n}")
    check(path)


@pytest.mark.parametrize("drain", ["row", "partition"])
def test_wavefront_of_every_drain(drain: Any, tmp_path: Path) -> None:
    chip = ideal_chip(4, 4)
    program, images = block_program(4, 4, drain), block_images(np.ones((4, 4)))
    trace = simulate(chip, program, images, grid=True, kinds=KINDS).trace
    plot_wavefront(chip, trace, tmp_path / "w.png", title=drain)
    check(tmp_path / "w.png")


@pytest.mark.parametrize("size", [4, 16])
def test_wavefront_of_times_only(size: int, tmp_path: Path) -> None:
    chip = ideal_chip(size, size)
    images = block_images(np.ones((size, size)))
    trace = simulate(chip, block_program(size, size), images, grid=True, values=False).trace
    plot_wavefront(chip, trace, tmp_path / "w.png", title="times only")
    check(tmp_path / "w.png")


@pytest.mark.parametrize("size", [4, 16])
def test_wavefront_of_nan_and_infinity(size: int, tmp_path: Path) -> None:
    chip = ideal_chip(size, size)
    values = np.full((size, size), np.nan)
    values[1] = np.inf
    trace = simulate(chip, block_program(size, size), block_images(values), grid=True).trace
    plot_wavefront(chip, trace, tmp_path / "w.png", title="NaN")
    check(tmp_path / "w.png")


def test_a_run_without_multiplies_is_a_timeline(tmp_path: Path) -> None:
    chip = ideal_chip(4, 4)
    trace = tiles(chip, 4, 4)
    idle = replace(trace, grid=replace(trace.grid, loads=(), matmuls=()))
    plot_wavefront(chip, idle, tmp_path / "w.png", title="nothing multiplied")
    check(tmp_path / "w.png", width=2100)


def test_timeline(tmp_path: Path) -> None:
    chip = ideal_chip(4, 4)
    plot_timeline(chip, tiles(chip, 40, 40), tmp_path / "t.png", title="timeline")
    check(tmp_path / "t.png", width=2100)


class _Remembering(Page):
    """A page that remembers its texts and the fills of its boxes, in order."""

    def __init__(self, width: float, height: float) -> None:
        super().__init__(width, height)
        self.texts: list[str] = []
        self.fills: list[str] = []

    def text(self, x: float, y: float, text: str, *args: Any, **how: Any) -> None:
        self.texts.append(text)
        super().text(x, y, text, *args, **how)

    def boxes(self, boxes: Any, fill: str, joint: float = 0.0) -> None:
        self.fills.append(fill)
        super().boxes(boxes, fill, joint)


def test_the_legend_of_a_timeline_names_the_colours_that_it_shows() -> None:
    """4 x 4 on the chip: no DMA, and no port is refused. Swatches come before all labels."""
    chip = ideal_chip(4, 4)
    page = timeline_page(chip, tiles(chip, 4, 4), "t", page_of=_Remembering)
    assert isinstance(page, _Remembering)
    named = ["weights load", "vectors stream", "an engine works", "waiting"]
    assert page.texts[2:7] == [*named, "pale: filling, draining"]
    swatches, drawn = page.fills[:4], {*page.fills[4:]}
    assert len({*swatches}) == 4
    assert {*swatches} < drawn


def test_timeline_of_an_empty_run(tmp_path: Path) -> None:
    chip = ideal_chip(4, 4)
    trace = replace(tiles(chip, 4, 4), ticks=0, labels={"pe_array": ()})
    plot_timeline(chip, trace, tmp_path / "t.png", title="nothing")
    assert (tmp_path / "t.png").exists()


def test_a_picture_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file" / "w.png"  # a file stands where the folder would have to be
    path.parent.write_text("old", encoding="utf-8")
    chip = ideal_chip(4, 4)
    with pytest.raises(SystolicError, match="cannot be written"):
        plot_timeline(chip, tiles(chip, 4, 4), path, title="")
    assert [found.name for found in tmp_path.iterdir()] == ["file"]
    assert path.parent.read_text(encoding="utf-8") == "old"


def points(sweep: str, key: str, times: dict[Any, tuple[float, float]]) -> list[dict[str, Any]]:
    return [
        {"sweep": sweep, "vary": {key: value, "compile.via": via}, "summary": {"time_ns": time}}
        for value, pair in times.items()
        for via, time in zip(("pe", "dram"), pair, strict=True)
    ]


SIZES = {"f32[8,8]": (100.0, 400.0), "f32[4,4]": (100.0, 50.0), "f32[16,16]": (200.0, 4000.0)}


def test_pairs_are_sorted_by_size() -> None:
    (one,) = comparisons(points("size", "workload.shape", SIZES))
    assert one.over_size
    assert [(pair.x, pair.ratio) for pair in one.pairs] == [(16, 0.5), (64, 4.0), (256, 20.0)]


def test_crossing_is_interpolated_on_logarithmic_axes() -> None:
    (one,) = comparisons(points("size", "workload.shape", SIZES))
    assert one.crossing() == pytest.approx(16 * 4 ** (1 / 3))


@pytest.mark.parametrize(
    ("times", "crossing"),
    [
        ({0: (1.0, 2.0), 10: (2.0, 1.0)}, 5.0),
        ({1: (1.0, 2.0), 10: (1.0, 3.0)}, None),
        ({4: (1.0, 1.0), 8: (1.0, 2.0)}, 4.0),
        ({4: (1.0, 1.0), 8: (1.0, 1.0)}, None),
    ],
)
def test_where_the_array_stops_winning(times: Any, crossing: float | None) -> None:
    (one,) = comparisons(points("latency", "chip.dram.latency_cycles", times))
    assert one.crossing() == (crossing if crossing is None else pytest.approx(crossing))


def test_points_without_a_partner_are_left_out() -> None:
    alone = points("size", "workload.shape", SIZES)[:3]
    (one,) = comparisons(alone)
    assert len(one.pairs) == 1
    assert comparisons(alone[2:]) == []


def test_keys_that_do_not_vary_are_not_the_axis() -> None:
    rows = points("latency", "chip.dram.latency_cycles", {0: (1.0, 2.0), 10: (2.0, 1.0)})
    for row in rows:
        row["vary"] = {"workload.home": "dram", **row["vary"]}
    assert comparisons(rows)[0].key == "chip.dram.latency_cycles"


def test_comparison(tmp_path: Path) -> None:
    rows = points("size", "workload.shape", SIZES)
    rows += points("latency", "chip.dram.latency_cycles", {0: (1.0, 2.0), 10: (2.0, 1.0)})
    rows += points("drain", "compile.drain", {"row": (1.0, 2.0), "block": (2.0, 3.0)})
    flat = [{**row, **row["summary"]} for row in rows]
    plot_comparison(flat, tmp_path / "c.png", notes={"size": "a note that is rather long " * 4})
    check(tmp_path / "c.png", width=imread(tmp_path / "c.png").shape[1])


def test_nothing_to_compare_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^no sweep has points via both the array and DRAM$"):
        plot_comparison([], tmp_path / "c.png")


def test_captions_never_touch() -> None:
    captions = [(cycle, "first something") for cycle in (0, 5, 9, 10, 60, 99, 100)]
    spans: dict[int, list[tuple[float, float]]] = {}
    for (cycle, text), (level, left) in zip(
        captions, caption_places(captions, CycleAxis(0, 100), 10.0), strict=True
    ):
        width = text_inches(text, 7.5)
        begin = cycle / 10 - (width if left else 0)
        assert begin + width <= 10.1
        assert all(b <= begin or a >= begin + width for a, b in spans.get(level, []))
        spans.setdefault(level, []).append((begin, begin + width))


@pytest.mark.parametrize("cycles", [1, 4, 19, 511, 8011, 10**7])
def test_ticks_are_round_and_stay_apart(cycles: int) -> None:
    step = tick_step(cycles, 11.0)
    assert str(step).strip("0") in ("1", "2", "5")
    assert step * 11.0 / cycles > text_inches(f"{cycles:,}", 6.5)


def test_small_words_on_pictures() -> None:
    assert tick_text("f32[128,64]") == "128x64"
    assert tick_text("row") == "row"
    assert axis_name("chip.dram.latency_cycles") == "dram latency cycles"
    assert name_list(["pooling", "dma0", "dma1"]) == "pooling, dma0, dma1"
    assert name_list([f"dma{q}" for q in range(16)]) == "16 DMA queues"


def hue(colour: str) -> float:
    """Return where a colour lies on the circle of hues, as a share of it."""
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return colorsys.rgb_to_hls(red, green, blue)[0]


def test_each_phase_keeps_its_hue() -> None:
    assert colours("pe_array", "loading") != colours("pe_array", "streaming")
    draining, activation = colours("pe_array", "draining")[0], colours("activation", "streaming")[0]
    assert hue(draining) == pytest.approx(hue(activation), abs=0.02)
    assert abs(hue(draining) - hue(colours("pe_array", "streaming")[0])) > 0.05
    assert colours("dma0", "stalled by moving") == colours("pe_array", "stalled by dma")


def test_strength_survives_nan() -> None:
    values = np.array([0.0, -2.0, 1.0, np.nan, np.inf])
    np.testing.assert_array_equal(strength(values), [0, 1, 0.5, 1, 1])
    assert LabelInterval(0, 1, "idle").label == "idle"
