"""One small multiple as data: the grid in one cycle and the result buffer beneath it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from systolic.arrays import Mask
from systolic.hw.spec import Chip
from systolic.report.wavefront.bands import (
    MOST_CELLS,
    Band,
    CycleAxis,
    drain_bands,
    vectors_band,
    weights_band,
)
from systolic.report.wavefront.manner import Colouring
from systolic.report.wavefront.moments import (
    Moments,
    load_extent,
    panel_cycles,
    result_reads,
    result_times,
)
from systolic.report.wavefront.pe_bands import dry_spells, in_spell
from systolic.spans import Interval
from systolic.trace.grid import GridHistory, GridState
from systolic.trace.records import Trace


@dataclass(frozen=True, eq=False)
class Panel:
    """The grid in `cycle`: masks [R, C] of what each PE does, and its registers.

    load: a weight is written into it; waiting: its new weight is there, but not yet in use;
    held: it has been given a weight;
    stream, drain: it multiplies (drain: no vector enters its row any more); next: it multiplies
    for a multiply of odd number.
    written, fresh, drained: [M, N] masks of the first multiply's results in the result buffer:
    there, written in this cycle, read by the engine. `results`: their values. double: weights
    wait in shadow registers. vector: [R, C] the number of the vector in each PE, -1 where none.
    state_buffer: what its partitions give and take; `column` is this cycle.
    has_values: operands were kept, so that weights, sums and results are the run's.
    """

    cycle: int
    caption: str
    state: GridState
    load: Mask
    waiting: Mask
    held: Mask
    stream: Mask
    next: Mask
    drain: Mask
    written: Mask
    fresh: Mask
    drained: Mask
    results: npt.NDArray[Any]
    double: bool
    vector: npt.NDArray[np.int64]
    state_buffer: tuple[Band, ...]
    column: int
    has_values: bool

    @property
    def weight(self) -> npt.NDArray[np.float64]:
        """Return [R, C] the weight that each PE has been given last, in use or waiting."""
        state = self.state
        found = np.where(self.waiting & self.double, state.shadow, state.weight)
        return found.astype(np.float64)


@dataclass(frozen=True, eq=False)
class _FirstResults:
    """The results of the first multiply, [M, N]: values, and the cycles of writing and reading."""

    values: npt.NDArray[Any]
    written: npt.NDArray[np.int64]
    read: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scene:
    """The first tile of a run: a panel can be made of each of its cycles."""

    trace: Trace
    results: _FirstResults
    spells: npt.NDArray[Any]
    state_buffer: tuple[Band, ...]
    has_values: bool

    @classmethod
    def of(
        cls, chip: Chip, trace: Trace, cycles: Interval, colouring: Colouring = "activity"
    ) -> Scene:
        """Return the scene of a run; cycles: for which panels are wanted."""
        written = result_times(chip, trace.grid.matmuls[0])
        results = _FirstResults(trace.grid.results(0), written, _read_times(chip, trace, written))
        axis = CycleAxis(cycles.first, cycles.stop)
        has_values = any(load.weights.size for load in trace.grid.loads)
        values = has_values and max(trace.grid.shape.rows, trace.grid.shape.cols) <= MOST_CELLS
        bands = state_bands(chip, trace, axis, values, colouring)
        reach = Interval(cycles.first - int(trace.grid.shape.delay().max()), cycles.stop)
        return cls(trace, results, dry_spells(trace, reach), bands, has_values)

    def panel(self, cycle: int, caption: str = "") -> Panel:
        """Return the panel of a cycle."""
        history, state = self.trace.grid, self.trace.grid.at(cycle)
        fronts = np.broadcast_to(cycle - history.shape.delay()[:, :1], state.valid.shape)
        dry = in_spell(self.spells, fronts)
        matmul, vector = history.vectors(cycle)
        odd = state.valid & (matmul % 2 == 1)
        load, waiting, held = _weights(self.trace, cycle)
        return Panel(
            cycle=cycle,
            caption=caption,
            state=state,
            load=load,
            waiting=waiting,
            held=held,
            stream=state.valid & ~dry & ~odd,
            next=~dry & odd,
            drain=state.valid & dry,
            written=self.results.written <= cycle,
            fresh=self.results.written == cycle,
            drained=self.results.read <= cycle,
            results=self.results.values,
            double=history.shape.weight_buffer == "double",
            vector=vector,
            state_buffer=self.state_buffer,
            column=cycle - self.state_buffer[0].axis.first,
            has_values=self.has_values,
        )


def panels(
    chip: Chip, trace: Trace, when: Moments, colouring: Colouring = "activity"
) -> list[Panel]:
    """Return the small multiples of a run's first tile, in order of time."""
    shown = panel_cycles(trace.grid, when)
    scene = Scene.of(chip, trace, Interval(shown[0][0], shown[-1][0] + 1), colouring)
    return [scene.panel(cycle, caption) for cycle, caption in shown]


def state_bands(
    chip: Chip, trace: Trace, axis: CycleAxis, values: bool, colouring: Colouring
) -> tuple[Band, ...]:
    """Return what the state buffer gives to the array, and takes from the draining engine."""
    return (
        weights_band(trace, axis, values, colouring),
        vectors_band(trace, axis, values, colouring),
        *drain_bands(chip, trace, axis, values, colouring)[1:],
    )


def _weights(trace: Trace, cycle: int) -> tuple[Mask, Mask, Mask]:
    """Return the PEs that take a weight in that cycle, hold a new one not yet in use, hold any."""
    history = trace.grid
    delay = history.shape.delay()
    load, waiting, held = (np.zeros(delay.shape, bool) for _ in range(3))
    begun = history.loads_in(Interval(0, cycle + 1))
    recent = [one for one in begun if one.reads[-1] >= _settled(history, cycle)]
    for K, N in {load_extent(history, one) for one in begun[: len(begun) - len(recent)]}:
        held[:K, :N] = True
    for one in recent:
        K, N = load_extent(history, one)
        times = one.reads[history.shape.read_of(K, N, one.columns)] + delay[:K, :N]
        user = _begun(history, int(one.reads[-1]))
        if user < len(history.matmuls):
            in_use = np.full((K, N), history.matmuls[user].injections[0])
        else:
            in_use = cycle + 1 - delay[:K, :N]
        first_use = delay[:K, :N] + in_use
        load[:K, :N] |= times == cycle
        waiting[:K, :N] |= (times <= cycle) & (cycle < first_use)
        held[:K, :N] |= times <= cycle
    return load, waiting, held


def _settled(history: GridHistory, cycle: int) -> int:
    """Return a cycle: weights read before it are in use in every PE by the given one."""
    front = cycle - int(history.shape.delay().max())
    begun = _begun(history, front)
    return int(history.matmuls[begun - 1].injections[0]) if begun else 0


def _begun(history: GridHistory, cycle: int) -> int:
    """Return how many multiplies have begun to inject by the end of a cycle."""
    return history.passes(Interval(cycle, cycle + 1)).stop


def _read_times(chip: Chip, trace: Trace, written: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return [M, N] the cycle in which the engine reads each result.

    Where it is not known, the cycle lies beyond the run.
    """
    never = trace.ticks + 1
    times = np.full(written.shape, never)
    one, period = trace.grid.matmuls[0], trace.periods["pe_array"]
    rows = trace.words.of("psum_write").rows
    rows = rows[rows["instruction"] == one.instruction]
    reads = result_reads(chip, trace).rows
    if len(rows) != written.size or not len(reads):
        return times
    order = np.lexsort([rows["tick"], rows["partition"]])
    place = {
        (int(w["partition"]), int(w["address"])): i % written.shape[0]
        for i, w in enumerate(rows[order])
    }
    for word in reads:
        c, m = int(word["partition"]), place.get((int(word["partition"]), int(word["address"])))
        if m is not None and word["tick"] // period > written[m, c]:
            times[m, c] = min(times[m, c], word["tick"] // period)
    return times
