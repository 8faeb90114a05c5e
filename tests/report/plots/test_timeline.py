"""Does the timeline say what the run says: cycles by label, refused ports, instructions, window?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from systolic.config import load_run
from systolic.report.paper.theme import activity_of
from systolic.report.plots.look import Look
from systolic.report.plots.sheet import COLUMNS
from systolic.report.plots.stretches import Stretches, even_edges
from systolic.report.plots.subject import PlotRun
from systolic.report.plots.timeline import (
    MOST_BARS,
    MOST_REASONS,
    UnitLane,
    UnitTimes,
    draw_timeline,
)
from systolic.run.execute import run
from systolic.run.plotted import plotted
from systolic.shipped import CONFIGS
from systolic.spans import Interval
from systolic.trace.labels import LabelInterval
from systolic.trace.records import Stall

RUNS = ("runs/transpose_fig3", "runs/transpose_multi_clock", "networks/digits_mlp")


@pytest.fixture(scope="module", params=RUNS)
def subject(request: Any) -> PlotRun:
    return plotted(run(CONFIGS / f"{request.param}.toml", values=False))


def whole(subject: PlotRun) -> UnitTimes:
    return UnitTimes(subject, Interval(0, subject.trace.cycles()))


def ticks_of(lane: UnitLane, kind: str) -> float:
    return float((lane.labels.shares[kind] * np.diff(lane.labels.edges)).sum())


def test_bars_sum_to_the_cycles_of_each_label(subject: PlotRun) -> None:
    for lane in whole(subject).lanes:
        spent = subject.summary["units"][lane.unit]["labels"]
        period = subject.trace.periods[lane.unit]
        # A unit's last cycle may end behind the run's last tick, where the picture ends.
        cut = subject.summary["units"][lane.unit]["total"] * period - subject.trace.ticks
        for kind in lane.labels.shares:
            cycles = sum(n for label, n in spent.items() if activity_of(label) == kind)
            assert abs(ticks_of(lane, kind) - cycles * period) <= max(cut, 0) + 1e-6
        assert {label for label, _ in lane.reasons} == {k for k, n in spent.items() if n}


def test_units_without_a_lane_did_nothing(subject: PlotRun) -> None:
    data = whole(subject)
    idle = [u for u, each in subject.summary["units"].items() if set(each["labels"]) == {"idle"}]
    assert data.idle == idle
    assert [lane.unit for lane in data.lanes] == [u for u in subject.trace.labels if u not in idle]


def test_every_instruction_has_its_bar(subject: PlotRun) -> None:
    found = {bar.instruction: bar for lane in whole(subject).lanes
             for part in lane.parts for bar in part.bars or ()}  # fmt: skip
    for times in subject.trace.times:
        bar = found.pop(times.instruction)
        assert bar.first == times.start
        end = times.done + subject.trace.periods[times.unit]
        assert bar.stop == min(end, subject.trace.cycles() * subject.period)
    assert not found


def test_refused_ports_are_where_they_were(subject: PlotRun) -> None:
    for lane in whole(subject).lanes:
        stalls = [s for s in subject.trace.stalls if s.unit == lane.unit]
        cycles = sum(s.cycles for s in stalls)
        assert lane.refused.ticks == cycles * subject.trace.periods[lane.unit]


def test_operations_are_on_from_their_first_start_to_their_last_end(subject: PlotRun) -> None:
    if len(subject.summary.get("operations", ())) < 2:
        assert whole(subject).operations == []
        return
    bars = {each.name: each.on for each in whole(subject).operations}
    for operation in subject.summary["operations"]:
        if operation["cycles"]:
            on = bars.pop(operation["name"])
            assert -(-(on.stops[-1] - on.firsts[0]) // subject.period) == operation["cycles"]
    assert not bars


def long_run(stall: int, cycles: int) -> PlotRun:
    """The run of figure 3, made long: a label and one refused cycle in ten million."""
    found = plotted(run(CONFIGS / "runs" / "transpose_fig3.toml", values=False))
    one_by_one = (LabelInterval(n, n + 1, "streaming" if n % 3 else "loading") for n in range(9000))
    lane = (*one_by_one, LabelInterval(9000, cycles, "idle"))
    labels = {**found.trace.labels, "activation": lane}
    refused = Stall(stall, "activation", 2, 1, "state_buffer", 0, "write", "dma")
    trace = replace(found.trace, ticks=cycles, labels=labels, stalls=(refused,))
    return replace(found, observed=replace(found.observed, trace=trace))


@pytest.mark.parametrize("stall", [0, 1234, 7_654_321, 9_999_999])
def test_a_stall_of_one_cycle_in_ten_million_is_still_there(stall: int) -> None:
    data = whole(long_run(stall, 10_000_000))
    (lane,) = [each for each in data.lanes if each.unit == "activation"]
    assert not lane.labels.is_exact
    assert lane.refused.touched(even_edges(data.window, COLUMNS)).sum() == 1
    assert ticks_of(lane, "streaming") == pytest.approx(6000)
    assert ticks_of(lane, "loading") == pytest.approx(3000)


def test_a_window_holds_only_its_cycles(subject: PlotRun) -> None:
    cycles = subject.trace.cycles()
    window = Interval(cycles // 3, cycles // 3 + max(2, cycles // 4))
    data = UnitTimes(subject, window)
    first, stop = data.window
    for lane in data.lanes:
        assert (lane.labels.edges[0], lane.labels.edges[-1]) == (first, stop)
        for kind in lane.labels.shares:
            period = subject.trace.periods[lane.unit]
            expected = sum(
                max(0, min(each.stop * period, stop) - max(each.first * period, first))
                for each in subject.trace.labels[lane.unit]
                if activity_of(each.label) == kind
            )
            assert ticks_of(lane, kind) == pytest.approx(expected)


def test_too_many_instructions_are_drawn_as_a_share_of_time() -> None:
    subject = long_run(0, 100_000)
    times = tuple(
        subject.trace.times[-1]._replace(start=8 * n, first=8 * n, last=8 * n, done=8 * n + 3)
        for n in range(MOST_BARS + 1)
    )
    trace = replace(subject.trace, times=times)
    data = whole(replace(subject, observed=replace(subject.observed, trace=trace)))
    (lane,) = [each for each in data.lanes if each.unit == "activation"]
    (part,) = lane.parts
    assert part.bars is None
    ticks = sum((share * np.diff(part.some.edges)).sum() for share in part.some.shares.values())
    assert ticks == pytest.approx(4 * (MOST_BARS + 1))


def test_shares_of_time_are_those_of_the_operations() -> None:
    """The array of the encoder block has more instructions than bars; each operation is told."""
    data = whole(plotted(run(CONFIGS / "networks" / "bert_block.toml", values=False)))
    (array,) = [lane for lane in data.lanes if lane.unit == "pe_array"]
    (part,) = array.parts
    layers = data.run.observed.operations
    assert layers is not None
    times = [each for each in data.run.trace.times if each.unit == "pe_array"]
    assert part.bars is None
    assert set(part.some.shares) == {layers[each.instruction] for each in times}
    together = np.asarray(sum(part.some.shares.values()))
    assert together.max() <= 1 + 1e-9
    on = Stretches.of([(each.start, each.done + data.run.period) for each in times]).merged
    assert (together * np.diff(part.some.edges)).sum() == pytest.approx(on.ticks)
    for name, (first, stop) in data.spans.items():
        columns = np.flatnonzero(part.some.shares.get(name, np.zeros(1)))
        if columns.size:
            assert part.some.edges[columns[0] + 1] > first
            assert part.some.edges[columns[-1]] < stop


def test_the_reasons_that_are_told_are_all_cycles(subject: PlotRun) -> None:
    for lane in whole(subject).lanes:
        cycles = subject.summary["units"][lane.unit]["total"]
        assert abs(sum(each for _, each in lane.told_reasons) - cycles) <= 1
        assert len(lane.told_reasons) <= MOST_REASONS


@pytest.mark.parametrize("name", ["digits_mlp", "bert_block"])
def test_a_name_lies_on_no_bar_of_another_operation(name: str) -> None:
    data = whole(plotted(run(CONFIGS / "networks" / f"{name}.toml", values=False)))
    written = [each for each in data.operations if data.has_room(each)]
    assert len(written) >= 0.9 * len(data.operations)
    for one in written:
        for other in data.operations:
            if other is not one and other.track == one.track:
                inside = other.on.within(one.words)
                assert inside.ticks == 0, (one.name, other.name)


def test_what_the_parts_of_a_unit_hold_is_said_at_the_foot() -> None:
    found = plotted(run(CONFIGS / "runs" / "neuroncore_v2_chain.toml", values=False))
    texts = [text.get_text() for text in draw_timeline(found, Look("a")).figure.texts]
    assert "Tensor: LoadWeights; TensorMatrix: MatMul" in texts


def test_loads_and_multiplies_of_a_chip_with_metrics_are_apart() -> None:
    """A part has the bars of its own instructions, in tracks below those of the part before it."""
    config = load_run(CONFIGS / "runs" / "transpose_fig4.toml", ["chip.metrics=true"])
    result = run(config, values=False)
    lanes = whole(plotted(result)).lanes
    parts = {p.name: p for lane in lanes if lane.unit == "pe_array" for p in lane.parts}
    kinds = {name: {type(result.program.instructions[bar.instruction]).__name__
                    for bar in part.bars or ()} for name, part in parts.items()}  # fmt: skip
    assert kinds == {"Tensor": {"LoadWeights"}, "TensorMatrix": {"MatMul"}}
