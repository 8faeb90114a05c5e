"""Closed formulas of instruction fetch: when equal instructions start, and the least time of many.

Source: docs/timing_model.md, section 3. How many bytes an instruction has is for the caller to say.
"""

from __future__ import annotations

from systolic.hw.spec import Fetch


def path_cycles(fetch: Fetch, size_bytes: int) -> int:
    """Return the cycles for which an instruction of that many bytes holds the path."""
    return -(-size_bytes // fetch.bytes_per_cycle)


def stream_start(fetch: Fetch, number: int, size_bytes: int, interval_cycles: int) -> int:
    """Return the cycle in which instruction `number` (from 0) of a stream of equal ones starts.

    The stream is alone on the chip, in one queue, and could start an instruction every
    `interval_cycles`; all in cycles of one clock. Each start follows from the one before it
    (interval), from the fetch before it (the path), or from the start that gave up its slot. So it
    is the longest way back to cycle 0, with none of the third kind or with as many as there can be.
    """
    slots, path = fetch.buffer_instructions, path_cycles(fetch, size_bytes)
    arrival = path + fetch.latency_cycles
    step = max(path, interval_cycles)
    rounds, rest = divmod(number, slots)
    by_slots = arrival + rounds * (arrival + 1) + rest * step
    return max(arrival + number * step, by_slots)
