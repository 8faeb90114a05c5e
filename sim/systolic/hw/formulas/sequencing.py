"""Closed formulas of queues: when their instructions can start, by fetch, dispatch and intervals.

Source: docs/timing_model.md, section 3. How many bytes an instruction has is for the caller to say.
"""

from __future__ import annotations

import math
from dataclasses import replace

from systolic.hw.formulas.timing import Bound
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
