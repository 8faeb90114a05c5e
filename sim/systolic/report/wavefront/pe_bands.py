"""The grid's part of the space-time diagram, as data: PE rows, or single PEs, over cycles.

Derived from the schedules alone; operands are touched only where values are asked for.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from systolic.errors import SystolicError
from systolic.report.wavefront.bands import (
    Band,
    CycleAxis,
    Phase,
    Times,
    stream_phase,
    texts_of,
)
from systolic.report.wavefront.manner import Colouring
from systolic.report.wavefront.moments import load_extent
from systolic.report.wavefront.pe_lines import PeLines, line_name
from systolic.spans import Interval
from systolic.trace.records import Trace

MOST_SUMS = 1 << 26
"""Of a window whose sums are coloured: more of them take too long."""


def row_band(trace: Trace, axis: CycleAxis) -> Band:
    """Return the band of the share of each PE row that multiplies.

    A row drains once no vector enters it any more. The load layer is 1 from the first to the last
    weight written into a row.
    """
    history = trace.grid
    shape, delay = history.shape, history.shape.delay()
    band = Band(line_name("row"), shape.rows, axis)
    columns = axis.first + np.arange(axis.columns + 1) * axis.step
    fronts = columns[None, :] - delay[:, :1]
    for phase, (times, counts) in _passing(trace, axis).items():
        total = np.concatenate([[0.0], np.cumsum(counts)])
        upto = total[np.searchsorted(times, fronts)]
        band.layers[phase] = np.diff(upto, axis=1) / (shape.cols * axis.step)
    for first, last in load_spans(trace, axis):
        rows = np.flatnonzero(last >= first)
        within = (columns[:-1] + axis.step > first[rows, None]) & (columns[:-1] <= last[rows, None])
        layer = band.layers.setdefault("load", np.zeros((shape.rows, axis.columns)))
        layer[rows] = np.maximum(layer[rows], within)
    return band


def _passing(trace: Trace, axis: CycleAxis) -> dict[Phase, tuple[Times, Times]]:
    """Return, for each phase, the fronts at which PEs of a row multiply, and how many do.

    They are the same in every row.
    """
    shape, shown = trace.grid.shape, _reaching(trace, axis)
    right = shape.delay()[0] - shape.delay()[0, 0]
    dry = dry_spells(trace, Interval(shown.first, shown.stop + int(right[-1])))
    fronts: dict[Phase, list[Times]] = {"stream": [], "next": [], "drain": []}
    for place in trace.grid.passes(shown):
        one = trace.grid.matmuls[place]
        times = (one.injections[:, None] + right[: one.cols]).ravel()
        drained = in_spell(dry, times)
        fronts[stream_phase(place)].append(times[~drained])
        fronts["drain"].append(times[drained])
    empty = np.empty(0, np.int64)
    return {phase: _counted(np.concatenate([empty, *times])) for phase, times in fronts.items()}


def _counted(times: Times) -> tuple[Times, Times]:
    """Return the distinct times in order, and how often each is there; dense ones unsorted."""
    if not times.size or np.ptp(times) > 8 * times.size:
        distinct, counts = np.unique(times, return_counts=True)
        return distinct, counts
    counts = np.bincount(times - times.min())
    there = np.flatnonzero(counts)
    return there + times.min(), counts[there]


def _reaching(trace: Trace, axis: CycleAxis) -> Interval:
    """Return the cycles in which what is read or injected can reach a PE in a window."""
    return Interval(axis.first - int(trace.grid.shape.delay()[-1, -1]), axis.stop)


def dry_spells(trace: Trace, cycles: Interval) -> Times:
    """Return [S, 2] the spells (first, stop) in which no vector enters, after the end of a pass.

    Vectors that are still in a row during a spell are on their way out. cycles: only spells that
    meet these are needed; others may be among them.
    """
    spells = []
    passes, shown = trace.grid.matmuls, trace.grid.passes(cycles)
    for place in range(max(shown.start - 1, 0), shown.stop):
        one = passes[place]
        steps = np.diff(one.injections)
        first = int(one.injections[-1]) + (int(steps.min()) if steps.size else 1)
        follows = int(passes[place + 1].injections[0]) if place + 1 < len(passes) else None
        if follows is None or follows > first:
            spells.append((first, np.iinfo(np.int64).max if follows is None else follows))
    return np.array(spells, np.int64).reshape(-1, 2)


def in_spell(spells: Times, times: Times) -> npt.NDArray[np.bool_]:
    """Return which of the times lie in one of the (sorted) spells."""
    if not len(spells):
        return np.zeros(np.shape(times), bool)
    place = np.searchsorted(spells[:, 0], times, side="right") - 1
    return np.asarray((place >= 0) & (times < spells[np.maximum(place, 0), 1]))


def load_spans(trace: Trace, axis: CycleAxis) -> list[tuple[Times, Times]]:
    """Return, for each load in the window, the cycles of the first and last weight of each row.

    A row that takes no weight has last < first.
    """
    history = trace.grid
    delay, spans = history.shape.delay(), []
    for load in history.loads_in(_reaching(trace, axis)):
        K, N = load_extent(history, load)
        times = load.reads[history.shape.read_of(K, N, load.columns)] + delay[:K, :N]
        if times.min() >= axis.stop or times.max() < axis.first:
            continue
        first, last = np.zeros(len(delay), np.int64), np.full(len(delay), -1)
        first[:K], last[:K] = times.min(axis=1), times.max(axis=1)
        spans.append((first, last))
    return spans


def line_band(trace: Trace, axis: CycleAxis, lines: PeLines, colouring: Colouring) -> Band:
    """Return the band of the share of each row, column or diagonal of PEs that multiplies.

    With `colouring` it has also the vector that came last into a line, or the largest sum there.
    """
    band = row_band(trace, axis) if lines.by == "row" else _other_band(trace, axis, lines)
    if colouring == "vector":
        _number_lines(band, trace, lines)
    elif colouring == "value":
        _weigh_lines(band, trace, lines)
    return band


def _other_band(trace: Trace, axis: CycleAxis, lines: PeLines) -> Band:
    """Return the band of columns or diagonals, whose PEs do not all do the same."""
    band = Band(lines.name, lines.count, axis)
    shape, delay = trace.grid.shape, trace.grid.shape.delay()
    edges = axis.first + np.arange(axis.columns + 1) * axis.step
    sizes = np.bincount(lines.line.ravel())
    for c in range(shape.cols):
        for phase, times in _entering(trace, axis, c).items():
            passed = np.diff(np.searchsorted(times, edges[None, :] - delay[:, c, None]), axis=1)
            layer = band.layers.setdefault(phase, np.zeros((lines.count, axis.columns)))
            share = passed / (sizes[lines.line[:, c], None] * axis.step)
            np.add.at(layer, lines.line[:, c], share)
    for first, last in pe_load_spans(trace, axis, lines):
        begins, ends = edges[:-1] + axis.step > first[:, None], edges[:-1] <= last[:, None]
        layer = band.layers.setdefault("load", np.zeros((lines.count, axis.columns)))
        np.maximum(layer, begins & ends, out=layer)
    return band


def _entering(trace: Trace, axis: CycleAxis, col: int) -> dict[Phase, Times]:
    """Return, by phase, the sorted injections of the vectors that come to a column."""
    shape, shown = trace.grid.shape, _reaching(trace, axis)
    right = int((shape.delay()[0] - shape.delay()[0, 0])[col])
    dry = dry_spells(trace, Interval(shown.first, shown.stop + right))
    found: dict[Phase, list[Times]] = {"stream": [], "next": [], "drain": []}
    for place in trace.grid.passes(shown):
        one = trace.grid.matmuls[place]
        if col < one.cols:
            drained = in_spell(dry, one.injections + right)
            found[stream_phase(place)].append(one.injections[~drained])
            found["drain"].append(one.injections[drained])
    return {phase: np.concatenate(times) for phase, times in found.items() if times}


def pe_load_spans(trace: Trace, axis: CycleAxis, lines: PeLines) -> list[tuple[Times, Times]]:
    """Return, for each load in the window, the cycles of each line's first and last weight."""
    history, spans = trace.grid, []
    delay = history.shape.delay()
    for load in history.loads_in(_reaching(trace, axis)):
        K, N = load_extent(history, load)
        times = load.reads[history.shape.read_of(K, N, load.columns)] + delay[:K, :N]
        if times.min() < axis.stop and times.max() >= axis.first:
            first, last = np.full(lines.count, axis.stop), np.full(lines.count, -1)
            np.minimum.at(first, lines.line[:K, :N], times)
            np.maximum.at(last, lines.line[:K, :N], times)
            spans.append((first, last))
    return spans


def _number_lines(band: Band, trace: Trace, lines: PeLines) -> None:
    """Note the vector that came last into each line, where one is in it."""
    axis, delay = band.axis, trace.grid.shape.delay()
    nearest = np.full(lines.count, delay.max())
    np.minimum.at(nearest, lines.line, delay)
    times, _, vector = trace.grid.injected(Interval(axis.first - int(delay.max()), axis.stop))
    ends = np.minimum(axis.first + (1 + np.arange(axis.columns)) * axis.step, axis.stop)
    place = np.searchsorted(times, ends[None, :] - nearest[:, None]) - 1
    for phase, layer in band.layers.items():
        if phase != "load" and times.size:
            shown = (layer > 0) & (place >= 0)
            band.numbers[phase] = np.where(shown, vector[np.maximum(place, 0)], np.nan)


def _weigh_lines(band: Band, trace: Trace, lines: PeLines) -> None:
    """Note the largest weight that comes into each line, and the largest sum in it.

    A sum counts for all phases that multiply: there is one of them there.
    """
    for load in trace.grid.loads_in(_reaching(trace, band.axis)) if "load" in band.layers else ():
        K, N = load_extent(trace.grid, load)
        if load.weights.size:
            number = trace.grid.shape.read_of(K, N, load.columns)
            cycles = load.reads[number] + trace.grid.shape.delay()[:K, :N]
            line = lines.line[:K, :N]
            band.weigh("load", line.ravel(), cycles.ravel(), load.weights.ravel())
    axis, delay = band.axis, trace.grid.shape.delay()
    shown = Interval(axis.first - int(delay.max()), axis.stop)
    times = trace.grid.injected(shown)[0]
    require_few_sums(times.size * delay.size)
    held = Band(band.name, band.lines, axis)
    for r, sums in enumerate(trace.grid.row_sums(shown)):
        cycles = times[:, None] + delay[r]
        held.weigh("stream", np.broadcast_to(lines.line[r], cycles.shape), cycles, sums)
    for phase, layer in band.layers.items():
        if phase != "load" and "stream" in held.numbers:
            band.numbers[phase] = np.where(layer > 0, held.numbers["stream"], np.nan)


def require_few_sums(count: int) -> None:
    """Raise SystolicError if a window has more sums than can be coloured."""
    if count > MOST_SUMS:
        raise SystolicError(
            f"values cannot be coloured: the window has {count:,} sums, more than {MOST_SUMS:,}; "
            "needed fewer cycles"
        )


def pe_band(
    trace: Trace,
    axis: CycleAxis,
    values: bool,
    lines: PeLines | None = None,
    colouring: Colouring = "activity",
) -> Band:
    """Return the band of single PEs, by default row after row. For arrays of a few PEs."""
    history = trace.grid
    shape, delay = history.shape, history.shape.delay()
    lines = lines or PeLines.of("row", shape.rows, shape.cols)
    number = lines.order()
    band = Band("PEs", number.size, axis, groups=lines.groups())
    for load in history.loads_in(_reaching(trace, axis)):
        K, N = load_extent(history, load)
        times = (load.reads[shape.read_of(K, N, load.columns)] + delay[:K, :N]).ravel()
        band.mark("load", number[:K, :N].ravel(), times)
        if values and load.weights.size:
            band.write("load", number[:K, :N].ravel(), times, texts_of(load.weights.ravel()))
        if colouring == "value" and load.weights.size:
            band.weigh("load", number[:K, :N].ravel(), times, load.weights.ravel())
    for cycle in range(axis.first, axis.stop):
        _mark_pes(band, trace, cycle, number, values=values, colouring=colouring)
    return band


def _mark_pes(
    band: Band, trace: Trace, cycle: int, number: Times, *, values: bool, colouring: Colouring
) -> None:
    """Add the PEs that multiply in a cycle."""
    history, delay = trace.grid, trace.grid.shape.delay()
    matmul, vector = history.vectors(cycle)
    there, odd = matmul >= 0, matmul % 2 == 1
    fronts = np.broadcast_to(cycle - delay[:, :1], delay.shape)
    spells = dry_spells(trace, Interval(cycle - int(delay.max()), cycle + 1))
    draining = there & in_spell(spells, fronts)
    sums = history.at(cycle).sum if values or colouring == "value" else None
    masks: dict[Phase, Times] = {
        "stream": there & ~draining & ~odd,
        "next": there & ~draining & odd,
        "drain": draining,
    }
    for phase, mask in masks.items():
        lines, now = number[mask], np.full(mask.sum(), cycle)
        band.mark(phase, lines, now)
        if values and sums is not None:
            band.write(phase, lines, now, texts_of(sums[mask]))
        if colouring == "vector":
            band.number(phase, lines, now, vector[mask])
        elif colouring == "value" and sums is not None:
            band.weigh(phase, lines, now, sums[mask])
