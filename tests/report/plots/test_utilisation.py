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
    parts = {kind: found.mean(shares) for kind, shares in found.pes.items()}
    busy = multiplying(result.program, result.chip, cycles)
    assert sum(parts.values()) == pytest.approx(busy)
    assert busy > 0
    array, operations = result.chip.pe_array, result.summary.get("operations", ())
    needed = sum(each["multiply_adds"] for each in operations)
    assert parts.get("needed", 0) == pytest.approx(needed / (array.rows * array.cols * cycles))
    turned = result.summary.get("turned_cycles", 0)
    assert ("transposes" in parts) == (turned > 0 or not needed)
    for unit, each in result.summary["units"].items():
        streaming = each["labels"].get("streaming", 0)
        assert (unit in found.units) == (streaming > 0)
        if streaming:
            assert found.mean(found.units[unit]) == pytest.approx(streaming / each["total"])


def test_a_program_does_not_say_what_it_needs() -> None:
    """Its multiply sends 6 vectors through 4 x 3 of 16 PEs, in 22 cycles."""
    found = utilisation(plotted(run(CONFIGS / "programs" / "layer.txt")), Interval(0, 22))
    assert list(found.pes) == ["busy"]
    assert found.mean(found.pes["busy"]) == pytest.approx(6 * 12 / (16 * 22))


def test_figure_3_by_hand() -> None:
    """16 PEs of 16 take four vectors, one a cycle, injected in cycles 4 to 7."""
    found = utilisation(
        plotted(run(CONFIGS / "runs" / "transpose_fig3.toml", values=False)), Interval(2, 10)
    )
    assert list(found.edges) == list(range(2, 11))
    assert list(found.pes) == ["transposes"]
    assert found.pes["transposes"] == pytest.approx([0, 0, 1, 1, 1, 1, 0, 0])
    assert found.units["pe_array"] == pytest.approx([0, 0, 1, 1, 1, 1, 0, 0])
