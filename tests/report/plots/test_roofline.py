"""Are points where the summary says, and below a roof that the chip says?"""

from __future__ import annotations

import math

import pytest

from support.chips import ideal_chip
from systolic.errors import SystolicError
from systolic.report.plots.roofline import RUN, RoofPoint, roof_of, roof_points
from systolic.run.execute import run
from systolic.shipped import CONFIGS

GRAPHS = ("runs/matmul_chain", "runs/matmul_skinny", "runs/matmul_1024_onchip",
          "runs/neuroncore_v2_chain", "networks/digits_mlp")  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_no_point_is_above_the_roof(name: str) -> None:
    result = run(CONFIGS / f"{name}.toml", values=False)
    roof = roof_of(result.chip)
    *points, whole = roof_points(result.summary)
    for point in (*points, whole):
        assert 0 < point.rate <= roof.at(point.intensity) * (1 + 1e-12), point
    for point in points:
        (operation,) = [o for o in result.summary["operations"] if o["name"] == point.name]
        array = result.chip.pe_array
        assert point.rate / (array.rows * array.cols) == pytest.approx(operation["utilisation"])
    assert whole.name == RUN
    assert whole.multiply_adds == sum(point.multiply_adds for point in points)


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
