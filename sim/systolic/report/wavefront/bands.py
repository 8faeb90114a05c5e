"""The space-time diagram as data: for each line and cycle, the movement there and its value.

A band is a stack of lines (partitions, PE rows, or single PEs) over the cycles of a window. Each
phase has a layer of its own, so that two phases in the same cycle can both be shown. Not here:
drawing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from systolic.hw.spec import Chip
from systolic.report.summary.wording import shorten, value_text
from systolic.report.wavefront.manner import Colouring
from systolic.report.wavefront.moments import (
    drains,
    load_extent,
    result_delays,
    result_reads,
    result_times,
)
from systolic.spans import Interval
from systolic.trace.records import Trace
from systolic.trace.words import WordTable

Phase = Literal["load", "stream", "next", "drain"]
PHASES: tuple[Phase, ...] = ("load", "stream", "next", "drain")
"""Vectors of every second multiply have the phase "next": so two multiplies that follow
each other at once can be told apart."""

Shares = npt.NDArray[np.float64]
Times = npt.NDArray[Any]

MOST_CELLS = 6
"""Rows and columns of the largest array whose PEs and values are readable one by one."""

STATE, RESULT = "state buffer", "result buffer"

MOST_COLUMNS = 1600
"""A picture resolves no more columns than this, so several cycles of a longer window share one."""


@dataclass(frozen=True, slots=True)
class CycleAxis:
    """Cycles first <= cycle < stop, `step` of them to a column."""

    first: int
    stop: int
    step: int = 1

    @classmethod
    def fit(cls, cycles: Interval) -> CycleAxis:
        """Return the axis of these cycles; if they are too many, several cycles share a column."""
        return cls(cycles.first, cycles.stop, max(1, -(-cycles.count // MOST_COLUMNS)))

    @property
    def columns(self) -> int:
        """Return the number of columns."""
        return -(-(self.stop - self.first) // self.step)

    def place(self, cycles: Times) -> tuple[Times, npt.NDArray[np.bool_]]:
        """Return the column of each cycle, and whether it lies in the window."""
        inside = (cycles >= self.first) & (cycles < self.stop)
        return (cycles - self.first) // self.step, inside


@dataclass(frozen=True, slots=True)
class Group:
    """Lines of a band that belong together: their common name, and the name of each."""

    name: str
    lines: tuple[str, ...]


@dataclass(eq=False)
class Band:
    """Lines over columns.

    layers: for each phase [lines, columns], the share of its cycles that was busy, 0 to 1. texts:
    for each phase, the value that moved at (line, column). groups: of lines that belong together;
    none if each line stands alone. place: the memory that the band shows. numbers: for each phase
    [lines, columns], what is coloured besides activity; NaN where there is nothing.
    """

    name: str
    lines: int
    axis: CycleAxis
    place: str = ""
    groups: tuple[Group, ...] = ()
    layers: dict[Phase, Shares] = field(default_factory=dict)
    texts: dict[Phase, dict[tuple[int, int], str]] = field(default_factory=dict)
    numbers: dict[Phase, Shares] = field(default_factory=dict)

    def mark(self, phase: Phase, lines: Times, cycles: Times, weight: float = 1.0) -> None:
        """Add busy (line, cycle) pairs; arrays broadcast."""
        lines, cycles = np.broadcast_arrays(lines, cycles)
        columns, inside = self.axis.place(cycles)
        layer = self._layer(phase)
        np.add.at(layer, (lines[inside], columns[inside]), weight / self.axis.step)

    def mark_first_lines(self, phase: Phase, lines: int, cycles: Times) -> None:
        """Add the first `lines` lines, busy in each of these cycles [T]."""
        columns, inside = self.axis.place(cycles)
        counts = np.bincount(columns[inside], minlength=self.axis.columns)
        self._layer(phase)[:lines] += counts / self.axis.step

    def number(self, phase: Phase, lines: Times, cycles: Times, vectors: Times) -> None:
        """Note the numbers of vectors at (line, cycle) pairs; of a column it is the last."""
        lines, cycles, vectors = np.broadcast_arrays(lines, cycles, vectors)
        columns, inside = self.axis.place(cycles)
        order = np.flatnonzero(inside)[np.argsort(cycles[inside], kind="stable")]
        self._numbers(phase)[lines[order], columns[order]] = vectors[order]

    def weigh(self, phase: Phase, lines: Times, cycles: Times, values: Times) -> None:
        """Note values at (line, cycle) pairs; of a column it is the largest, NaN as infinity."""
        lines, cycles, values = np.broadcast_arrays(lines, cycles, values)
        columns, inside = self.axis.place(cycles)
        lines, columns = lines[inside], columns[inside]
        wide = values[inside].astype(np.float64)
        wide = np.where(np.isnan(wide), np.inf, wide)
        held = self._numbers(phase)
        order = np.argsort(np.abs(wide), kind="stable")
        larger = ~(np.abs(held[lines[order], columns[order]]) > np.abs(wide[order]))
        order = order[larger]
        held[lines[order], columns[order]] = wide[order]

    def _layer(self, phase: Phase) -> Shares:
        if phase not in self.layers:
            self.layers[phase] = np.zeros((self.lines, self.axis.columns))
        return self.layers[phase]

    def _numbers(self, phase: Phase) -> Shares:
        if phase not in self.numbers:
            self.numbers[phase] = np.full((self.lines, self.axis.columns), np.nan)
        return self.numbers[phase]

    def write(self, phase: Phase, lines: Times, cycles: Times, values: Times) -> None:
        """Note the values that moved at (line, cycle) pairs; arrays broadcast."""
        columns, inside = self.axis.place(cycles)
        texts = self.texts.setdefault(phase, {})
        for line, column, value in zip(lines[inside], columns[inside], values[inside], strict=True):
            texts[int(line), int(column)] = str(value)


def stream_phase(place: int) -> Phase:
    """Return the phase under which the vectors of the multiply at that place are shown."""
    return "next" if place % 2 else "stream"


def weights_band(
    trace: Trace, axis: CycleAxis, values: bool, colouring: Colouring = "activity"
) -> Band:
    """Return the band of the weights that the array reads from each state-buffer partition."""
    history = trace.grid
    band = Band("weights read", history.shape.rows, axis, STATE)
    for load in history.loads_in(Interval(axis.first, axis.stop)):
        K, N = load_extent(history, load)
        r, c = (plane.ravel() for plane in np.indices((K, N)))
        read = load.reads[history.shape.read_of(K, N, load.columns)].ravel()
        left = history.shape.weight_path == "left"
        together = load.columns or (history.shape.fast_load if left else N)
        band.mark("load", r, read, 1.0 / together)
        if not load.weights.size:
            continue
        if values and left and together == 1:
            band.write("load", r, read, texts_of(load.weights[r, c]))
        if colouring == "value":
            band.weigh("load", r, read, load.weights[r, c])
    return band


def vectors_band(
    trace: Trace, axis: CycleAxis, values: bool, colouring: Colouring = "activity"
) -> Band:
    """Return the band of the moving operands read from each state-buffer partition."""
    band = Band("vectors read", trace.grid.shape.rows, axis, STATE)
    for place in trace.grid.passes(Interval(axis.first, axis.stop)):
        one = trace.grid.matmuls[place]
        used = one.moving.shape[1] or trace.grid.shape.rows
        phase = stream_phase(place)
        band.mark_first_lines(phase, used, one.injections)
        if not values and colouring == "activity":
            continue
        m, r = (plane.ravel() for plane in np.indices((len(one.injections), used)))
        cycles = one.injections[m]
        if values and one.moving.size:
            band.write(phase, r, cycles, texts_of(one.moving[m, r]))
        if colouring == "vector":
            band.number(phase, r, cycles, m)
        elif colouring == "value" and one.moving.size:
            band.weigh(phase, r, cycles, one.moving[m, r])
    return band


def results_band(
    chip: Chip, trace: Trace, axis: CycleAxis, values: bool, colouring: Colouring = "activity"
) -> Band:
    """Return the band of the results written into each partition of the result buffer."""
    words = trace.words.of("psum_write").rows
    lines = max(trace.grid.shape.cols, int(words["partition"].max(initial=0)) + 1)
    band = Band("results written", lines, axis, RESULT)
    first, last = result_delays(chip)
    for place in trace.grid.passes(Interval(axis.first - last, axis.stop - first)):
        one = trace.grid.matmuls[place]
        times = result_times(chip, one)
        phase = stream_phase(place)
        mine = words[words["instruction"] == one.instruction]
        first = mine["partition"].min() if len(mine) else 0
        c = np.broadcast_to(first + np.arange(one.cols), times.shape).ravel()
        band.mark(phase, c, times.ravel())
        if colouring == "vector":
            band.number(phase, c, times.ravel(), np.repeat(np.arange(len(times)), one.cols))
        elif colouring == "value" and one.moving.size:
            band.weigh(phase, c, times.ravel(), trace.grid.results(place).ravel())
        if values and len(mine):
            _write_words(band, phase, WordTable(mine, trace.words.units), trace)
        elif values and one.moving.size:
            band.write(phase, c, times.ravel(), texts_of(trace.grid.results(place)))
    return band


def drain_bands(
    chip: Chip, trace: Trace, axis: CycleAxis, values: bool, colouring: Colouring = "activity"
) -> tuple[Band, ...]:
    """Return the bands of the draining engine: reads of results, writes to the state buffer.

    A run that recorded no words has none: times alone do not say what was read or stored where.
    """
    if not len(trace.words.rows):
        return ()
    period = trace.periods["pe_array"]
    chosen = np.array([t.instruction for t in drains(chip, trace)], np.int64)
    moved = result_reads(chip, trace), trace.words.of("write").within("state_buffer")
    read, stored = (
        WordTable(words.rows[np.isin(words.rows["instruction"], chosen)], words.units)
        for words in moved
    )
    highest = stored.rows["partition"].max(initial=0)
    partitions = min(chip.state_buffer.partitions, max(trace.grid.shape.cols, int(highest) + 1))
    bands = (
        Band("results read", trace.grid.shape.cols, axis, RESULT),
        Band("results stored", partitions, axis, STATE),
    )
    for band, words in zip(bands, (read, stored), strict=True):
        _mark_words(band, "drain", words.rows, period)
        if values:
            _write_words(band, "drain", words, trace)
        if colouring == "value":
            _weigh_words(band, "drain", words, trace)
    return bands


def _mark_words(band: Band, phase: Phase, rows: npt.NDArray[np.void], period: int) -> None:
    shown = rows[rows["partition"] < band.lines]
    band.mark(phase, shown["partition"].astype(np.int64), shown["tick"] // period)
    np.minimum(band.layers[phase], 1.0, out=band.layers[phase])


def _write_words(band: Band, phase: Phase, words: WordTable, trace: Trace) -> None:
    cycles = words.rows["tick"] // trace.periods["pe_array"]
    shown = (words.rows["partition"] < band.lines) & band.axis.place(cycles)[1]
    texts = [shorten(text) for text in WordTable(words.rows[shown], words.units).values()]
    lines = words.rows["partition"][shown].astype(np.int64)
    band.write(phase, lines, cycles[shown], np.array(texts, object))


def _weigh_words(band: Band, phase: Phase, words: WordTable, trace: Trace) -> None:
    cycles = words.rows["tick"] // trace.periods["pe_array"]
    shown = (words.rows["partition"] < band.lines) & band.axis.place(cycles)[1]
    rows = words.rows[shown]
    values = WordTable(rows, words.units).numbers()
    band.weigh(phase, rows["partition"].astype(np.int64), cycles[shown], values)


def texts_of(values: Times) -> Times:
    """Return values as short texts, in one dimension."""
    return np.array([value_text(v) for v in np.ravel(values)], object)


def is_small(chip: Chip, axis: CycleAxis) -> bool:
    """Return whether single PEs and their values are readable: up to 6 x 6, and 64 cycles."""
    array = chip.pe_array
    return max(array.rows, array.cols) <= MOST_CELLS and axis.stop - axis.first <= 64
