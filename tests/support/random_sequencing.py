"""Random keys of a chip that say how its queues get their instructions: dispatch and intervals.

Drawn apart from `support.random_programs.random_chip`, so that a seed keeps its chip and program.
"""

from __future__ import annotations

from random import Random
from typing import Any

from systolic.hw.spec import Chip
from systolic.hw.units import UNITS


def sequenced(chip: Chip, rng: Random) -> Chip:
    """Return the chip with dispatch and least distances between starts drawn at random."""
    parts = chip.model_dump()
    for unit in UNITS:
        parts[unit] |= _dispatch(rng)
    parts["pe_array"]["min_interval_cycles"] = rng.choice([0, 0, 1, 5, 20])
    return Chip.model_validate(parts)


def _dispatch(rng: Random) -> dict[str, Any]:
    return {
        "dispatch_cycles": rng.choice([0, 0, 1, 2, 7]),
        "dispatch": rng.choice(["overlapped", "overlapped", "serial"]),
    }
