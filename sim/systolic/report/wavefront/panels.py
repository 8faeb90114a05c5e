"""One small multiple as data: the grid in one cycle and the result buffer beneath it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from systolic.arrays import Mask
from systolic.hw.spec import Chip
from systolic.report.wavefront.moments import (
    Moments,
    drains,
    load_extent,
    panel_cycles,
    result_times,
)
from systolic.report.wavefront.pe_bands import dry_spells, in_spell
from systolic.trace.grid import GridState
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
    wait in shadow registers.
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


@dataclass(frozen=True, eq=False)
class _FirstResults:
    """The results of the first multiply, [M, N]: values, and the cycles of writing and reading."""

    values: npt.NDArray[Any]
    written: npt.NDArray[np.int64]
    read: npt.NDArray[np.int64]


def panels(chip: Chip, trace: Trace, when: Moments) -> list[Panel]:
    """Return the small multiples of a run's first tile, in order of time."""
    written = result_times(chip, trace.grid.matmuls[0])
    results = _FirstResults(trace.grid.results(0), written, _read_times(chip, trace, written))
    return [
        _panel(trace, cycle, caption, results) for cycle, caption in panel_cycles(trace.grid, when)
    ]


def _panel(trace: Trace, cycle: int, caption: str, results: _FirstResults) -> Panel:
    history, state = trace.grid, trace.grid.at(cycle)
    fronts = np.broadcast_to(cycle - history.shape.delay()[:, :1], state.valid.shape)
    dry = in_spell(dry_spells(trace), fronts)
    odd = state.valid & (history.vectors(cycle)[0] % 2 == 1)
    load, waiting, held = _weights(trace, cycle)
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
        written=results.written <= cycle,
        fresh=results.written == cycle,
        drained=results.read <= cycle,
        results=results.values,
        double=history.shape.weight_buffer == "double",
    )


def _weights(trace: Trace, cycle: int) -> tuple[Mask, Mask, Mask]:
    """Return the PEs that take a weight in that cycle, hold a new one not yet in use, hold any."""
    history = trace.grid
    delay = history.shape.delay()
    load, waiting, held = (np.zeros(delay.shape, bool) for _ in range(3))
    for one in history.loads:
        if one.reads[0] > cycle:
            continue
        K, N = load_extent(history, one)
        times = one.reads[history.shape.read_of(K, N, one.columns)] + delay[:K, :N]
        used = [p.injections[0] for p in history.matmuls if p.injections[0] > one.reads[-1]]
        first_use = delay[:K, :N] + used[0] if used else np.full((K, N), cycle + 1)
        load[:K, :N] |= times == cycle
        waiting[:K, :N] |= (times <= cycle) & (cycle < first_use)
        held[:K, :N] |= times <= cycle
    return load, waiting, held


def _read_times(chip: Chip, trace: Trace, written: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return [M, N] the cycle in which the engine reads each result.

    Where it is not known, the cycle lies beyond the run.
    """
    never = trace.ticks + 1
    times = np.full(written.shape, never)
    one, period = trace.grid.matmuls[0], trace.periods["pe_array"]
    rows = trace.words.of("psum_write").rows
    rows = rows[rows["instruction"] == one.instruction]
    copies = [t.instruction for t in drains(chip, trace)]
    reads = trace.words.of("read").rows
    reads = reads[np.isin(reads["instruction"], copies)]
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
