"""Is the area of the picture the utilisation of the run?"""

from __future__ import annotations

import pytest

from systolic.report.plots.utilisation import utilisation
from systolic.run.execute import run
from systolic.run.plotted import plotted
from systolic.run.utilisation import multiplying
from systolic.shipped import CONFIGS
from systolic.spans import Interval

RUNS = ("runs/transpose_fig3", "runs/transpose_int8", "runs/matmul_chain", "networks/digits_mlp")


@pytest.mark.parametrize("name", RUNS)
def test_areas_are_the_run(name: str) -> None:
    result = run(CONFIGS / f"{name}.toml", values=False)
    cycles = result.cycles
    found = utilisation(plotted(result), Interval(0, cycles))
    expected = multiplying(result.program, result.chip, cycles)
    assert found.mean(found.pes) == pytest.approx(expected)
    assert expected > 0
    for unit, each in result.summary["units"].items():
        streaming = each["labels"].get("streaming", 0)
        assert (unit in found.units) == (streaming > 0)
        if streaming:
            assert found.mean(found.units[unit]) == pytest.approx(streaming / each["total"])


def test_figure_3_by_hand() -> None:
    """16 PEs of 16 take four vectors, one a cycle, injected in cycles 4 to 7."""
    found = utilisation(
        plotted(run(CONFIGS / "runs" / "transpose_fig3.toml", values=False)), Interval(2, 10)
    )
    assert list(found.edges) == list(range(2, 11))
    assert found.pes == pytest.approx([0, 0, 1, 1, 1, 1, 0, 0])
    assert found.units["pe_array"] == pytest.approx([0, 0, 1, 1, 1, 1, 0, 0])
