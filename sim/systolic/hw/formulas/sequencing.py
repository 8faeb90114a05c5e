"""Closed formulas of queues: when their instructions can start, by fetch, dispatch and intervals.

Source: docs/timing_model.md, section 3. How many bytes an instruction has is for the caller to say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from systolic.hw.formulas.ticks import after
from systolic.hw.formulas.timing import Bound, largest
from systolic.hw.spec import Chip, Fetch


def path_cycles(fetch: Fetch, size_bytes: int) -> int:
    """Return the cycles for which an instruction of that many bytes holds the path."""
    return -(-size_bytes // fetch.bytes_per_cycle)


def stream_start(fetch: Fetch, number: int, size_bytes: int, interval_cycles: int) -> int:
    """Return the cycle in which instruction `number` (from 0) of a stream of equal ones starts.

    The stream is alone on the chip, in one queue, and could start an instruction every
    `interval_cycles`; all in cycles of one clock. Each start follows from the one before it
    (interval), from the fetch before it (the path), or from the start that gave up its slot. So the
    start is the longest chain of such steps from cycle 0 on. The longest chain has either no step
    of the third kind or as many as it can have.
    """
    slots, path = fetch.buffer_instructions, path_cycles(fetch, size_bytes)
    arrival = path + fetch.latency_cycles
    step = max(path, interval_cycles)
    rounds, rest = divmod(number, slots)
    by_slots = arrival + rounds * (arrival + 1) + rest * step
    return max(arrival + number * step, by_slots)


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instructions of one kind that a run has at least, and the bytes that each has at least."""

    count: int
    size_bytes: int


def first_start(chip: Chip, size_bytes: int) -> int:
    """Return the tick from which the first instruction of a run can start."""
    if chip.fetch is None:
        return 0
    return (path_cycles(chip.fetch, size_bytes) + chip.fetch.latency_cycles) * chip.fetch_period


def behind_fetch(chip: Chip, bound: Bound, size_bytes: int) -> Bound:
    """Return a bound of what instructions do, with the fetch of the first in front.

    Whole numbers of the time after which all clocks have an edge together are added: a schedule
    that begins so much later is one that begins at tick 0, moved.
    """
    together = math.lcm(*chip.queue_periods.values())
    late = first_start(chip, size_bytes) // together * together
    return replace(bound, ticks=bound.ticks + late) if bound.ticks else bound


def array_queue_bound(chip: Chip, loads: Instructions, multiplies: Instructions) -> Bound:
    """Return the least time in which the array's queue can start that many loads and multiplies.

    The last of them begins behind the fetch of all, behind the dispatch of those before it, and the
    last multiply behind the intervals of the others; then it takes a cycle at least.
    """
    array, count = chip.pe_array, loads.count + multiplies.count
    name = chip.period("pe_array")
    first = first_start(chip, min(loads.size_bytes, multiplies.size_bytes))
    dispatched = (count if array.dispatch == "serial" else count - 1) * array.dispatch_cycles
    intervals = (multiplies.count - 1) * array.min_interval_cycles
    found = [
        Bound(after(chip, first, "pe_array", dispatched + 1), "dispatch of pe_array", name),
        Bound(after(chip, first, "pe_array", intervals + 1), "multiplies of pe_array", name),
    ]
    if chip.fetch is not None:
        tick = _last_arrival(chip, chip.fetch, [loads, multiplies])
        found.append(Bound(after(chip, tick, "pe_array", 1), "instruction fetch", name))
    return largest(found)


def fetch_bound(chip: Chip, kinds: Sequence[Instructions]) -> Bound:
    """Return the least time in which the path brings instructions of all queues together.

    The last of them arrives behind the bytes of all, and then takes a cycle of some unit at least.
    """
    if chip.fetch is None:
        return Bound(0, "instruction fetch", chip.period("pe_array"))
    path = sum(kind.count * path_cycles(chip.fetch, kind.size_bytes) for kind in kinds)
    tick = (path + chip.fetch.latency_cycles) * chip.fetch_period
    end = min(after(chip, tick, unit, 1) for unit in ("pe_array", "dma", *chip.lane_engines))
    return Bound(end, "instruction fetch", chip.period("pe_array"))


def _last_arrival(chip: Chip, fetch: Fetch, kinds: Sequence[Instructions]) -> int:
    """Return the tick from which the last of one queue's instructions can start."""
    path = sum(kind.count * path_cycles(fetch, kind.size_bytes) for kind in kinds)
    count, least = sum(kind.count for kind in kinds), min(kind.size_bytes for kind in kinds)
    cycles = max(path + fetch.latency_cycles, stream_start(fetch, count - 1, least, 0))
    return cycles * chip.fetch_period
