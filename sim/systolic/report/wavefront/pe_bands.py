"""The grid's part of the space-time diagram, as data: PE rows, or single PEs, over cycles.

Derived from the schedules alone; operands are touched only where values are asked for.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from systolic.report.wavefront.bands import Band, CycleAxis, Phase, Times, stream_phase, texts_of
from systolic.report.wavefront.moments import load_extent
from systolic.trace.records import Trace

ROWS = "PE rows"


def row_band(trace: Trace, axis: CycleAxis) -> Band:
    """Return the band of the share of each PE row that multiplies.

    A row drains once no vector enters it any more. The load layer is 1 from the first to the last
    weight written into a row.
    """
    history = trace.grid
    shape, delay = history.shape, history.shape.delay()
    band = Band(ROWS, shape.rows, axis)
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
    shape, dry = trace.grid.shape, dry_spells(trace)
    right = shape.delay()[0] - shape.delay()[0, 0]
    reach = axis.first - int(shape.delay()[-1, -1])
    fronts: dict[Phase, list[Times]] = {"stream": [], "next": [], "drain": []}
    for place, one in enumerate(trace.grid.matmuls):
        if one.injections[-1] >= reach and one.injections[0] < axis.stop:
            times = (one.injections[:, None] + right[: one.cols]).ravel()
            drained = in_spell(dry, times)
            fronts[stream_phase(place)].append(times[~drained])
            fronts["drain"].append(times[drained])
    empty = np.empty(0, np.int64)
    return {
        phase: np.unique(np.concatenate([empty, *times]), return_counts=True)
        for phase, times in fronts.items()
    }


def dry_spells(trace: Trace) -> Times:
    """Return [S, 2] the spells (first, stop) in which no vector enters, after the end of a pass.

    Vectors that are still in a row during a spell are on their way out.
    """
    spells = []
    passes = trace.grid.matmuls
    for place, one in enumerate(passes):
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
    for load in history.loads:
        K, N = load_extent(history, load)
        times = load.reads[history.shape.read_of(K, N, load.columns)] + delay[:K, :N]
        if times.min() >= axis.stop or times.max() < axis.first:
            continue
        first, last = np.zeros(len(delay), np.int64), np.full(len(delay), -1)
        first[:K], last[:K] = times.min(axis=1), times.max(axis=1)
        spans.append((first, last))
    return spans


def pe_band(trace: Trace, axis: CycleAxis, values: bool) -> Band:
    """Return the band of single PEs: a line for each, row after row. For arrays of a few PEs."""
    history = trace.grid
    shape, delay = history.shape, history.shape.delay()
    band = Band("PEs", shape.rows * shape.cols, axis, group=shape.cols)
    number = np.arange(shape.rows * shape.cols).reshape(shape.rows, shape.cols)
    for load in history.loads:
        K, N = load_extent(history, load)
        times = (load.reads[shape.read_of(K, N, load.columns)] + delay[:K, :N]).ravel()
        band.mark("load", number[:K, :N].ravel(), times)
        if values and load.weights.size:
            band.write("load", number[:K, :N].ravel(), times, texts_of(load.weights.ravel()))
    dry = dry_spells(trace)
    for cycle in range(axis.first, axis.stop):
        matmul, _ = history.vectors(cycle)
        there = matmul >= 0
        draining = there & in_spell(dry, np.broadcast_to(cycle - delay[:, :1], delay.shape))
        sums = texts_of(history.at(cycle).sum.ravel()) if values else None
        odd = there & (matmul % 2 == 1)
        masks: dict[Phase, Times] = {
            "stream": there & ~draining & ~odd,
            "next": ~draining & odd,
            "drain": draining,
        }
        for phase, mask in masks.items():
            lines = number[mask]
            band.mark(phase, lines, np.full(lines.shape, cycle))
            if sums is not None:
                band.write(phase, lines, np.full(lines.shape, cycle), sums[lines])
    return band
