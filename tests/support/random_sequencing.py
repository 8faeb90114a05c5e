"""Random keys of a chip that say how its queues get instructions: fetch, dispatch, intervals.

Drawn apart from `support.random_programs.random_chip`, so that a seed keeps its chip and program.
"""

from __future__ import annotations

from random import Random
from typing import Any

from systolic.hw.spec import Chip


def sequenced(chip: Chip, rng: Random) -> Chip:
    """Return the chip with dispatch and least intervals drawn at random, and often with fetch."""
    parts = chip.model_dump()
    engines = parts if chip.engines is None else parts["engines"]
    for table in (parts["pe_array"], *(engines[name] for name in chip.lane_engines), parts["dma"]):
        table |= _dispatch(rng)
    parts["pe_array"]["min_interval_cycles"] = rng.choice([0, 0, 1, 5, 20])
    if rng.random() < 0.7:
        parts["fetch"] = random_fetch(rng)
    return Chip.model_validate(parts)


def random_fetch(rng: Random) -> dict[str, Any]:
    """Return a table [fetch]; an instruction has 50 to 300 bytes."""
    return {
        "buffer_instructions": rng.choice([1, 1, 2, 3, 8]),
        "bytes_per_cycle": rng.choice([8, 32, 100, 128, 1000]),
        "latency_cycles": rng.choice([0, 0, 1, 6, 40]),
    }


def _dispatch(rng: Random) -> dict[str, Any]:
    return {
        "dispatch_cycles": rng.choice([0, 0, 1, 2, 7]),
        "dispatch": rng.choice(["overlapped", "overlapped", "serial"]),
    }
