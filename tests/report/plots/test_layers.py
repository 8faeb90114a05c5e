"""Does the view of layers say what the summary says?"""

from __future__ import annotations

from copy import deepcopy

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from systolic.errors import SystolicError
from systolic.report.plots.layers import LayerBar, draw_layers, layer_bars, longest
from systolic.report.plots.look import Look
from systolic.report.plots.subject import PlotSummary
from systolic.run.execute import run
from systolic.shipped import CONFIGS


def test_a_bar_for_each_operation() -> None:
    summary = run(CONFIGS / "networks" / "digits_mlp.toml", values=False).summary
    bars = layer_bars(summary)
    assert [bar.name for bar in bars] == ["sums1", "biased1", "hidden", "sums2", "scores"]
    for bar, operation in zip(bars, summary["operations"], strict=True):
        assert (bar.cycles, bar.op) == (operation["cycles"], operation["op"])
        assert (bar.bound_cycles, bar.bound_why) == tuple(operation["bound"].values())
        if bar.worst:
            reason, cycles = bar.worst
            assert cycles == operation["stalls"][reason] == max(operation["stalls"].values())


def test_a_run_without_operations_is_refused() -> None:
    with pytest.raises(SystolicError, match=r"^fig: has no operations to draw; needed the run of"):
        layer_bars({"run": "fig"})


def test_the_longest_are_kept_in_their_order() -> None:
    bars = [LayerBar(str(n), "matmul", n * 7 % 5, 1, "x", 0.0, None) for n in range(5)]
    assert [(bar.name, bar.cycles) for bar in bars] == [
        ("0", 0), ("1", 2), ("2", 4), ("3", 1), ("4", 3),
    ]  # fmt: skip
    assert [bar.name for bar in longest(bars, 3)] == ["1", "2", "4"]
    assert longest(bars, 9) == bars


def test_large_numbers_stay_on_the_page() -> None:
    summary = deepcopy(run(CONFIGS / "networks" / "digits_mlp.toml", values=False).summary)
    for operation in summary["operations"]:
        operation["cycles"] *= 1_000_000
    sheet = draw_layers(PlotSummary(summary, None), Look("large"))
    canvas = FigureCanvasAgg(sheet.figure)
    rights = [text.get_window_extent(canvas.get_renderer()).x1 for text in sheet.figure.texts]
    assert max(rights) <= sheet.figure.bbox.x1
