"""Are points where the summary says, and below a roof that the chip says?"""

from __future__ import annotations

import math

import pytest

from support.chips import ideal_chip
from systolic.errors import SystolicError
from systolic.report.plots.layers import layer_bars
from systolic.report.plots.look import Look
from systolic.report.plots.roofline import (
    MOST_LISTED,
    RUN,
    RoofPoint,
    draw_roofline,
    listed_points,
    roof_of,
    roof_points,
)
from systolic.report.plots.subject import PlotSummary
from systolic.run.execute import run
from systolic.shipped import CONFIGS

GRAPHS = ("runs/matmul_chain", "runs/matmul_skinny", "runs/matmul_1024_onchip",
          "runs/neuroncore_v2_chain", "networks/digits_mlp")  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_a_point_is_the_time_in_which_the_array_is_at_it(name: str) -> None:
    """So its share of the array is that of the layers; the run as a whole is below all the roof."""
    result = run(CONFIGS / f"{name}.toml", values=False)
    roof = roof_of(result.chip)
    *points, whole = roof_points(result.summary)
    layers = {bar.name: bar.utilisation for bar in layer_bars(result.summary)}
    for point in points:
        assert 0 < point.rate <= roof.flats[0][0] * (1 + 1e-12), point
        assert point.rate / roof.pes == pytest.approx(layers[point.name])
    assert 0 < whole.rate <= roof.at(whole.intensity) * (1 + 1e-12)
    assert whole.name == RUN
    assert whole.multiply_adds == sum(point.multiply_adds for point in points)


def test_every_point_is_in_the_list_or_counted() -> None:
    points = [RoofPoint(f"a{n}", 10, 10, n * 7 % 101 + 1) for n in range(100)]
    whole = RoofPoint(RUN, 1000, 10, 9999)
    assert listed_points([*points[:50], whole]) == list(range(51))
    found = listed_points([*points, whole])
    assert len(found) == MOST_LISTED + 1
    assert found == sorted(found)
    left_out = [points[n].cycles for n in range(100) if n not in found]
    assert max(left_out) <= min(points[n].cycles for n in found[:-1])


@pytest.mark.parametrize("operations", [3, 60, 100])
def test_the_sheet_says_how_many_it_leaves_out(operations: int) -> None:
    chip = ideal_chip(4, 4)
    each = {"op": "matmul", "multiply_adds": 64, "dram_bytes": 64, "array": {"cycles": 9}}
    summary = {
        "run": "many", "cycles": 9 * operations, "dram_bytes": 64 * operations,
        "operations": [{**each, "name": f"a{n}"} for n in range(operations)],
    }  # fmt: skip
    sheet = draw_roofline(PlotSummary(summary, chip), Look("many"))
    texts = [text.get_text() for text in sheet.figure.texts]
    names = [text for text in texts if text in {f"a{n}" for n in range(operations)}]
    assert len(names) == min(operations, MOST_LISTED)
    left_out = operations - len(names)
    assert (f"and {left_out} shorter" in texts) == (left_out > 0)
    assert all(text.get_position()[1] > 0 for text in sheet.figure.texts)


def test_the_roof_by_hand() -> None:
    """4 x 4 PEs; f32 takes 4 cycles; DRAM moves 24 bytes of the DMA's cycles, twice as long."""
    chip = ideal_chip(
        4, 4,
        clock={"core": 2000, "slow": 1000},
        pe_array={"cycles_per_vector": {"bf16": 1, "f32": 4, "s8": 1}},
        dma={"clock": "slow", "queues": 2, "bytes_per_cycle": 12},
        dram={"bytes_per_cycle": 100},
    )  # fmt: skip
    roof = roof_of(chip)
    assert roof.flats == ((16.0, "bf16, s8"), (4.0, "f32"))
    assert roof.dram_bytes == 12
    assert [roof.at(x) for x in (0.5, 4 / 3, 100, math.inf)] == [6, 16, 16, 16]


def test_a_point_without_bytes_is_infinitely_far_right() -> None:
    point = RoofPoint("a", 100, 0, 10)
    assert (point.intensity, point.rate) == (math.inf, 10)


def test_a_run_without_products_is_refused() -> None:
    with pytest.raises(SystolicError, match=r"^a: has no operation that multiplies; needed"):
        roof_points({"run": "a", "operations": []})
