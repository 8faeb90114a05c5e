"""Are the bytes of the picture those of the run?"""

from __future__ import annotations

import numpy as np
import pytest

from systolic.config import load_run
from systolic.errors import SystolicError
from systolic.report.plots.dram import FROM, TO, channel_bars, dram_traffic, draw_dram, wait_bars
from systolic.report.plots.look import Look
from systolic.report.plots.subject import PlotRun
from systolic.run.execute import run
from systolic.run.plotted import plotted
from systolic.shipped import CONFIGS
from systolic.spans import Interval

RUNS = ("transpose_dram", "transpose_ddr4_tiles", "matmul_chain")


def subject(name: str) -> PlotRun:
    return plotted(run(load_run(CONFIGS / "runs" / f"{name}.toml"), values=False))


@pytest.mark.parametrize("name", RUNS)
def test_bytes_are_those_of_the_run(name: str) -> None:
    found = subject(name)
    cycles = found.trace.cycles()
    traffic = dram_traffic(found, Interval(0, cycles))
    total = traffic.total(FROM).sum() + traffic.total(TO).sum()
    assert total == pytest.approx(found.summary["dram_bytes"])
    half = cycles // 2
    parts = [dram_traffic(found, each) for each in (Interval(0, half), Interval(half, cycles))]
    for way in (FROM, TO):
        both = sum(float(part.total(way).sum()) for part in parts)
        assert both == pytest.approx(traffic.total(way).sum())
    assert total / cycles <= traffic.limit


@pytest.mark.parametrize("name", ["runs/transpose_dram", "networks/digits_mlp"])
def test_a_lane_is_as_high_as_what_can_be_moved(name: str) -> None:
    """A bar of a fifth of the rate is a fifth of its lane, however little else there is."""
    found = plotted(run(load_run(CONFIGS / f"{name}.toml"), values=False))
    sheet = draw_dram(found, Look("a"))
    chip = found.chip
    queue = min(chip.dram.bytes_per_cycle, chip.dma.bytes_per_cycle)
    every = min(chip.dram.bytes_per_cycle, chip.dma.bytes_per_cycle * chip.dma.queues)
    heights = [axes.get_ylim()[1] for axes in sheet.figure.axes]
    assert heights[0] == every
    assert set(heights[1:]) == {queue}


def test_bars_are_the_counts_of_the_summary() -> None:
    found = subject("transpose_ddr4_tiles")
    dram = found.summary["transfers"]["dram"]
    bars = channel_bars(found)
    assert [sum(bar.counts) for bar in bars] == [each["bursts"] for each in dram["channels"]]
    for place, kind in enumerate(("hits", "opened", "conflicts")):
        assert sum(bar.counts[place] for bar in bars) == dram[kind]
    waits = {bar.name: bar.counts for bar in wait_bars(found)}
    for unit, each in dram["waits"].items():
        assert waits.get(unit, (0, 0, 0)) == tuple(each.values())


def test_dram_without_an_organisation_has_no_bars() -> None:
    found = subject("transpose_dram")
    assert (channel_bars(found), wait_bars(found)) == ([], [])


def test_one_copy_by_hand() -> None:
    """Figure 3 from DRAM: 64 bytes come, then 64 go, and nothing both ways at once."""
    config = load_run(CONFIGS / "runs" / "transpose_fig3.toml", ["workload.home=dram"])
    found = plotted(run(config, values=False))
    traffic = dram_traffic(found, Interval(0, found.trace.cycles()))
    came, went = traffic.total(FROM), traffic.total(TO)
    assert came.sum() == pytest.approx(64)
    assert went.sum() == pytest.approx(64)
    assert np.flatnonzero(came > 1e-9).max() < np.flatnonzero(went > 1e-9).min()


def test_a_run_that_moves_nothing_is_refused() -> None:
    with pytest.raises(SystolicError, match=r"^transpose_fig3: moves nothing from or to DRAM$"):
        dram_traffic(subject("transpose_fig3"), Interval(0, 19))


def test_a_copy_that_waits_for_its_latency_moves_nothing_yet() -> None:
    """Of 9 cycles: all bytes come between the first element and the end of the last."""
    overrides = ["workload.home=dram", "chip.dma.latency_cycles=9"]
    found = plotted(
        run(load_run(CONFIGS / "runs" / "transpose_fig3.toml", overrides), values=False)
    )
    traffic = dram_traffic(found, Interval(0, found.trace.cycles()))
    came = np.flatnonzero(traffic.total(FROM) > 1e-9)
    copies = [t for t in found.trace.times if t.unit.startswith("dma")]
    first = min(copies, key=lambda t: t.start)
    assert first.first - first.start >= 9
    assert came.min() == first.first
    assert came.max() == max(t.done for t in copies if t.start < 9)
