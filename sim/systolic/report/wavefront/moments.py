"""When things happened in a run: the turning points that a picture shows, as data.

All times are cycles of the array. Reads a Trace; draws nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from systolic.array_distances import cycles_to
from systolic.hw.spec import Chip
from systolic.spans import Interval
from systolic.trace.grid import GridHistory
from systolic.trace.passes import LoadPass, MatMulPass
from systolic.trace.records import InstructionTimes, Trace
from systolic.trace.words import WordTable

CycleNumbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Moments:
    """The story of the first tile: load, stream, results, drain (None where it has none).

    The intervals are of cycles: weights read, vectors injected, results written to the result
    buffer, results read by the draining engine, which is known of a run that recorded words.
    `done` is the length of the run.
    """

    load: Interval | None
    stream: Interval
    result: Interval
    drain: Interval | None
    tile_done: int
    done: int


def result_times(chip: Chip, one: MatMulPass) -> CycleNumbers:
    """Return [M, N] the cycles in which the result buffer takes the results of a multiply."""
    array = chip.pe_array
    down = cycles_to(array.rows, array.hop[0], array.cell[0])
    depth = array.entry_cycles + down - 1 + chip.result_buffer.write_latency_cycles
    right = cycles_to(np.arange(one.cols), array.hop[1], array.cell[1])
    return np.asarray(one.injections[:, None] + depth + right[None, :])


def result_delays(chip: Chip) -> tuple[int, int]:
    """Return the cycles from an injection to its result, of the first column and of the last."""
    array = chip.pe_array
    one = MatMulPass(0, np.zeros(1, np.int64), np.zeros((1, 0)), array.cols, exchange=False)
    times = result_times(chip, one)
    return int(times[0, 0]), int(times[0, -1])


def load_extent(history: GridHistory, load: LoadPass) -> tuple[int, int]:
    """Return K and N of a load; if only its times are known, the largest they can have been."""
    if load.weights.size:
        return int(load.weights.shape[0]), int(load.weights.shape[1])
    shape, reads = history.shape, len(load.reads)
    if shape.weight_path == "left":
        return shape.rows, min(reads * (load.columns or shape.fast_load), shape.cols)
    together = load.columns or shape.cols
    cols = min(shape.cols, reads * together)
    return min(reads // -(-cols // together) * shape.fast_load, shape.rows), cols


def drains(chip: Chip, trace: Trace) -> tuple[InstructionTimes, ...]:
    """Return the engine instructions that read results, in order of their start."""
    names = set(chip.lane_engines)
    engines = [t for t in trace.times if t.unit in names]
    if not trace.grid.matmuls:
        return ()
    readers = _readers_of_results(chip, trace)
    if readers is not None:
        return tuple(sorted((t for t in engines if t.instruction in readers), key=_by_start))
    first = int(result_times(chip, trace.grid.matmuls[0])[0, 0]) * trace.periods["pe_array"]
    return tuple(sorted((t for t in engines if t.first >= first), key=_by_start))


def _by_start(times: InstructionTimes) -> tuple[int, int]:
    return times.first, times.instruction


def _readers_of_results(chip: Chip, trace: Trace) -> set[int] | None:
    """Return the instructions that read a place of a result; None if no words were recorded."""
    written = trace.words.of("psum_write").rows
    read = result_reads(chip, trace).rows
    if not len(written) or not len(read):
        return None
    hit = np.isin(_places(read), _places(written)) & (read["tick"] > written["tick"].min())
    return set(read["instruction"][hit].tolist())


def result_reads(chip: Chip, trace: Trace) -> WordTable:
    """Return the words that engines read from the result buffer; what else they read is not here.

    An engine also reads biases and second operands, from the state buffer.
    """
    words = trace.words.of("read").within("result_buffer")
    engines = [place for place, unit in enumerate(words.units) if unit in chip.lane_engines]
    return WordTable(words.rows[np.isin(words.rows["unit"], engines)], words.units)


def _places(rows: npt.NDArray[np.void]) -> CycleNumbers:
    """Return one integer per (partition, address)."""
    return np.asarray(rows["address"].astype(np.int64) << 16 | rows["partition"])


def moments(chip: Chip, trace: Trace) -> Moments | None:
    """Return the turning points of the first tile; None if the array multiplied nothing.

    None too where multiplies are made on tiles of the array, side by side.
    """
    history, period = trace.grid, trace.periods["pe_array"]
    if not history.matmuls or history.has_tiles:
        return None
    first = history.matmuls[0]
    stream = _from_to(first.injections[0], first.injections[-1])
    results = result_times(chip, first)
    loads = [p for p in history.loads if p.reads[-1] < stream.first]
    copies = drains(chip, trace)
    copies = copies[: max(1, len(copies) // len(history.matmuls))]
    result = _from_to(results[0, 0], results[-1, -1])
    reads = result_reads(chip, trace).rows
    ticks = reads["tick"][np.isin(reads["instruction"], [t.instruction for t in copies])]
    return Moments(
        load=_from_to(loads[-1].reads[0], loads[-1].reads[-1]) if loads else None,
        stream=stream,
        result=result,
        drain=_from_to(ticks.min() // period, ticks.max() // period) if ticks.size else None,
        tile_done=max([result.stop, *(t.done // period + 1 for t in copies)]),
        done=trace.cycles(),
    )


def _from_to(first: np.integer[Any] | int, last: np.integer[Any] | int) -> Interval:
    return Interval(int(first), int(last) + 1)


def window(trace: Trace, when: Moments) -> Interval:
    """Return the cycles to show: the whole first tile, and enough of the next to see the overlap.

    A run of one tile is shown to its end, unless the cycles after the tile would dwarf it.
    """
    begin = when.load.first if when.load else when.stream.first
    length = when.tile_done - begin
    first = 0 if begin <= length // 2 else begin - length // 20
    stop = when.tile_done + (length // 2 if len(trace.grid.matmuls) > 1 else 0)
    if when.done <= first + (stop - first) * 5 // 4:
        stop = when.done
    return Interval(first, stop)


@dataclass(frozen=True, slots=True)
class PhasePlace:
    """Where the name of a phase belongs: in the middle of PE rows, and of the cycles,
    begin <= cycle < end, in which the middle row of these is in that phase.
    """

    name: str
    rows: Interval
    begin: float
    end: float

    @property
    def row(self) -> int:
        """Return the row in the middle."""
        return (self.rows.first + self.rows.stop) // 2


def phase_places(history: GridHistory, when: Moments) -> list[PhasePlace]:
    """Return the place in the picture of each phase of the first tile, in order of time."""
    delay = history.shape.delay()
    all_rows = Interval(0, len(delay))
    middle, across = delay[len(delay) // 2, 0], delay[0, history.matmuls[0].cols - 1] - delay[0, 0]
    enter, leave = when.stream.first + middle, when.stream.stop + middle
    begin = float(min(enter + across / 3, leave))
    places = [PhasePlace("stream", all_rows, begin, float(leave))]
    if not _followed(history, when.stream.stop - 1 + across // 2):
        places.append(PhasePlace("drain", all_rows, float(leave), float(leave + across * 2 / 3)))
    load = _load_place(history, when)
    return [load, *places] if load else places


def _load_place(history: GridHistory, when: Moments) -> PhasePlace | None:
    """Return the place of the load before the first vectors: the rows that it gives weights."""
    loads = [p for p in history.loads if when.load and p.reads[0] == when.load.first]
    if not loads:
        return None
    K, N = load_extent(history, loads[-1])
    delay, row = history.shape.delay(), K // 2
    number = history.shape.read_of(K, N, loads[-1].columns)[row]
    taken = loads[-1].reads[number] + delay[row, :N]
    end = min(int(taken.max()) + 1, when.stream.first + int(delay[row, 0]))
    return PhasePlace("load", Interval(0, K), float(taken.min()), float(end))


def turning_points(when: Moments) -> list[tuple[int, str]]:
    """Return cycle and caption of the turning points, in order, one per cycle."""
    points = {when.done: "done"}
    if when.drain:
        points[when.drain.first] = "drain begins"
    points[when.result.first] = "first result"
    points[when.stream.first] = "first vector"
    if when.load:
        points[when.load.first] = "first weight"
    return sorted(points.items())


def panel_cycles(history: GridHistory, when: Moments) -> list[tuple[int, str]]:
    """Return the cycles at which to show the grid, with captions, in order, one per cycle."""
    delay = history.shape.delay()[:, : history.matmuls[0].cols]  # where its sums go
    entry, across = int(delay[0, 0]), int(delay[-1, -1] - delay[0, 0])
    enter, bottom = when.stream.first + entry, when.result.first
    last = when.stream.stop - 1
    cycles = {}
    if when.drain:
        cycles[(when.drain.first + when.drain.stop - 1) // 2] = "the engine drains the results"
    # The wave leaves while it is in the last row: after it arrives there, and before it is gone.
    lowest = when.stream.first + int(delay[-1, 0]), last + int(delay[-1, -1])
    leaving = max(last + entry + across * 3 // 4, (sum(lowest) + 1) // 2)
    followed = _followed(history, leaving - entry)
    cycles[leaving] = "the next multiply follows" if followed else "drain: the wave leaves"
    busiest = _busiest(history, max(last + entry, bottom + across // 6))
    if abs(busiest - bottom) >= across // 16:
        cycles[busiest] = "stream: most PEs multiply"
    cycles[bottom] = "the wave reaches the bottom"
    # Below the rows that have weights a vector is only passed on.
    rows = history.matmuls[0].moving.shape[1] or len(delay)
    inside = int(delay[rows - 1, 0]) - entry
    cycles[min(enter + min(across // 6, inside), max(enter, bottom - 1))] = "first vectors multiply"
    if when.load:
        cycles[min(when.load.stop - 1 + entry, enter - 1)] = "load: weights arrive"
    return sorted(cycles.items())


def _followed(history: GridHistory, cycle: int) -> bool:
    """Return whether the second multiply has begun to inject by that cycle."""
    return any(one.injections[0] <= cycle for one in history.matmuls[1:2])


def _busiest(history: GridHistory, cycle: int) -> int:
    """Return, of the cycles in which most PEs multiply, the one nearest to the given cycle."""
    one = history.matmuls[0]
    cells = np.bincount(history.shape.delay()[:, : one.cols].ravel())
    # Vectors further apart than the longest way through the array are never in it together. A
    # longer distance is shortened to that: it changes nothing, and would cost memory by its cycles.
    gaps = np.minimum(np.diff(one.injections), len(cells))
    close = np.concatenate([[0], np.cumsum(gaps)])
    busy = np.round(np.convolve(np.bincount(close), cells)).astype(np.int64)
    best = np.flatnonzero(busy == busy.max())
    before = np.searchsorted(close, best, side="right") - 1
    best = one.injections[before] + best - close[before]
    return int(best[np.argmin(np.abs(best - cycle))])
