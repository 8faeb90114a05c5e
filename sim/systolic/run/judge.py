"""The judge of plans that `run` hands to the compiler: how long a program takes on a chip.

So plans are chosen by the machine itself, and the compiler does not know it.
"""

from __future__ import annotations

from collections.abc import Callable

from systolic.errors import LimitReachedError
from systolic.hw.spec import Chip
from systolic.isa import Program
from systolic.machine import simulate


def judge_on(chip: Chip) -> Callable[[Program, int | None], int]:
    """Return the function that gives the ticks a program takes on a chip, times only.

    A program that takes `limit` ticks or more is not simulated to its end: it is given the limit.
    """

    def ticks(program: Program, limit: int | None = None) -> int:
        try:
            return simulate(chip, program, values=False, limit_ticks=limit).trace.ticks
        except LimitReachedError:
            assert limit is not None
            return limit

    return ticks
