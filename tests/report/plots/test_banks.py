"""Does the view of banks say what the run says: who used which bank, and who was refused?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from systolic.config import load_run
from systolic.report.plots.banks import bank_lanes, banks_of, refusals
from systolic.report.plots.sheet import COLUMNS
from systolic.report.plots.stretches import even_edges
from systolic.report.plots.subject import PlotRun, Touch
from systolic.run.execute import run
from systolic.run.plotted import plotted
from systolic.shipped import CONFIGS
from systolic.spans import Interval
from systolic.trace.records import Stall
from systolic.trace.words import KINDS

FIG_3 = CONFIGS / "runs" / "transpose_fig3.toml"


def whole(found: PlotRun) -> Interval:
    return Interval(0, found.trace.cycles() * found.period)


@pytest.mark.parametrize("name", ["transpose_fig3", "transpose_fig4"])
def test_every_word_moves_while_its_bank_is_on(name: str) -> None:
    """The cycle of every word, against lanes that know instructions only."""
    result = run(load_run(CONFIGS / "runs" / f"{name}.toml"), kinds=KINDS)
    found = plotted(result)
    lanes = {(lane.buffer, lane.bank): lane for lane in bank_lanes(found, whole(found))}
    rows = result.trace.words.rows
    writes = np.isin(rows["kind"], [KINDS.index(kind) for kind in ("write", "psum_write")])
    seen = set()
    for touch in found.touches():
        ticks = rows["tick"][(rows["instruction"] == touch.instruction)
                             & (writes == touch.is_write)]  # fmt: skip
        assert ticks.size
        for bank in banks_of(found.chip, touch):
            seen.add((touch.buffer, bank))
            on = lanes[touch.buffer, bank].on["write" if touch.is_write else "read"]
            place = np.searchsorted(on.firsts, ticks, "right") - 1
            assert (place >= 0).all()
            assert (ticks < on.stops[place]).all()
    assert seen == lanes.keys()


@pytest.mark.parametrize("name", ["runs/transpose_fig3", "networks/digits_mlp"])
def test_figures_are_those_of_the_summary(name: str) -> None:
    found = plotted(run(CONFIGS / f"{name}.toml", values=False))
    lanes = bank_lanes(found, whole(found))
    ports = {(buffer, int(bank)): use for buffer, banks in found.summary["ports"].items()
             for bank, use in banks.items()}  # fmt: skip
    assert {(lane.buffer, lane.bank): lane.cycles for lane in lanes} == ports
    refused = {(s["unit"], s["winner"]): 0 for s in found.summary["stalls"]}
    for stall in found.summary["stalls"]:
        refused[stall["unit"], stall["winner"]] += stall["cycles"]
    bars = refusals(found)
    assert [bar.counts[0] for bar in bars] == sorted(refused.values(), reverse=True)
    assert sum(lane.refused.ticks for lane in lanes) == sum(refused.values()) * found.period


def test_one_refused_cycle_in_ten_million_is_still_there() -> None:
    found = plotted(run(FIG_3, values=False))
    stall = Stall(7_654_321, "activation", 2, 1, "state_buffer", 4, "write", "dma")
    trace = replace(found.trace, ticks=10_000_000, stalls=(stall,))
    found = replace(found, observed=replace(found.observed, trace=trace))
    window = Interval(0, 10_000_000)
    lanes = {(lane.buffer, lane.bank): lane for lane in bank_lanes(found, window)}
    touched = lanes["state_buffer", 4].refused.touched(even_edges(window, COLUMNS))
    assert touched.sum() == 1
    assert np.flatnonzero(touched)[0] == 7_654_321 * COLUMNS // 10_000_000
    assert [(bar.name, bar.counts, bar.note) for bar in refusals(found)] == [
        ("activation", (1,), "1: dma had state 4 write")
    ]


def test_banks_by_hand() -> None:
    """2,048 bytes are a bank of either buffer of the shipped 4 x 4 chip."""
    chip = run(FIG_3, values=False).chip
    for first, stop, banks in ((0, 2048, [0]), (2047, 2049, [0, 1]), (4096, 8193, [2, 3, 4])):
        for buffer in ("state_buffer", "result_buffer"):
            touch = Touch(0, buffer, False, Interval(0, 4), Interval(first, stop), 1)
            assert list(banks_of(chip, touch)) == banks
    assert list(banks_of(chip, touch._replace(buffer="dram"))) == []
