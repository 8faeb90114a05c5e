"""The judge of plans that `run` hands to the compiler: how long a program takes on a chip.

So plans are chosen by the machine itself, and the compiler does not know it.
"""

from __future__ import annotations

from collections.abc import Callable

from systolic.hw.spec import Chip
from systolic.isa import Program
from systolic.machine import simulate


def judge_on(chip: Chip) -> Callable[[Program], int]:
    """Return the function that gives the ticks a program takes on a chip, times only."""

    def ticks(program: Program) -> int:
        return simulate(chip, program, values=False).trace.ticks

    return ticks
