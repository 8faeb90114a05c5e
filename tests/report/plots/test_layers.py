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
    assert sum(bar.cycles for bar in bars) == summary["cycles"]
    for bar, operation in zip(bars, summary["operations"], strict=True):
        array = operation["array"]
        assert (bar.cycles, bar.op) == (array["cycles"], operation["op"])
        assert bar.utilisation == array["utilisation"]
        if operation["multiply_adds"]:
            assert (bar.bound_cycles, bar.bound_why) == tuple(operation["bound"].values())
        else:
            assert bar.bound_cycles == 0
        if bar.worst:
            reason, cycles = bar.worst
            assert cycles == array["lost"][reason] == max(array["lost"].values())


def test_a_line_across_a_bar_is_said_to_be_of_the_operation_alone() -> None:
    """Some bars end before it: their operands came while the array was at another operation."""
    summary = run(CONFIGS / "networks" / "bert_block.toml", values=False).summary
    bars = layer_bars(summary)
    assert any(0 < bar.cycles < bar.bound_cycles for bar in bars)
    sheet = draw_layers(PlotSummary(summary, None), Look("a"))
    (said,) = [t.get_text() for t in sheet.figure.texts if t.get_text().startswith("ideal")]
    assert said.endswith("Line: the least for the operation alone, nothing fetched before it")
    lines = sorted(line.get_xdata()[0] for line in sheet.figure.axes[0].lines)
    assert lines == sorted(bar.bound_cycles for bar in bars if bar.cycles and bar.bound_cycles)


def test_without_products_bars_are_the_time_under_way() -> None:
    """So are those of a summary that does not say when the array is at an operation."""
    summary = run(CONFIGS / "networks" / "digits_mlp.toml", values=False).summary
    for operation in summary["operations"]:
        del operation["array"]
    for bar, operation in zip(layer_bars(summary), summary["operations"], strict=True):
        assert (bar.cycles, bar.utilisation) == (operation["cycles"], operation["utilisation"])
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


def test_of_many_only_bars_that_can_be_seen_are_kept() -> None:
    """Of 100,050 cycles a bar of 51 is seen, as more than five in 10,000."""
    cycles = [50_000, 49_899, 50, 51, 50, *[0] * 45]
    bars = [LayerBar(str(n), "x", many, 1, "x", 0.0, None) for n, many in enumerate(cycles)]
    assert [bar.name for bar in longest(bars, 100)] == ["0", "1", "3"]
    assert longest(bars[:40], 100) == bars[:40]


def test_large_numbers_stay_on_the_page() -> None:
    summary = deepcopy(run(CONFIGS / "networks" / "digits_mlp.toml", values=False).summary)
    for operation in summary["operations"]:
        operation["array"]["cycles"] *= 1_000_000
    sheet = draw_layers(PlotSummary(summary, None), Look("large"))
    canvas = FigureCanvasAgg(sheet.figure)
    rights = [text.get_window_extent(canvas.get_renderer()).x1 for text in sheet.figure.texts]
    assert max(rights) <= sheet.figure.bbox.x1
