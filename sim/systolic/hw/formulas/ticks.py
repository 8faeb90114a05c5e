"""Time in ticks for closed formulas of chips whose units have clocks of their own.

A bound follows one piece of work from unit to unit. Each unit begins at an edge of its own clock,
so cycles of different clocks are never added: a chain goes from tick to tick. Not here: what the
machine does (it never imports this), and bounds themselves (`timing`, `moves`, `systolic.bounds`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from systolic.hw.spec import Chip


def after(chip: Chip, tick: int, unit: str, cycles: int) -> int:
    """Return the tick `cycles` cycles of `unit` after its first edge at or behind `tick`."""
    period = chip.period(unit)
    return (-(-tick // period) + cycles) * period


@dataclass(frozen=True, slots=True)
class UnitRate:
    """A unit that takes a share of some work: `per_cycle` of it in each cycle of its clock.

    What it takes in a cycle is over `behind` cycles after that cycle's first tick: 1 for work that
    ends with the cycle, 1 + latency for a write `latency` cycles later.
    """

    period: int
    per_cycle: int | Fraction
    behind: int

    def over(self, start: int, tick: int) -> int | Fraction:
        """Return how much of what it takes from tick `start` on can be over at `tick`."""
        cycles = tick // self.period - self.behind - -(-start // self.period) + 1
        return self.per_cycle * max(0, cycles)


def least_end(start: int, amount: int, ways: Sequence[UnitRate]) -> int:
    """Return the first tick at which all ways together can be done, if they begin at `start`."""
    if not amount:
        return start
    whole = math.lcm(*(Fraction(way.per_cycle).denominator for way in ways))
    amount *= whole
    ways = [replace(way, per_cycle=int(way.per_cycle * whole)) for way in ways]
    low, high = start, start + 1
    while sum(way.over(start, high) for way in ways) < amount:
        low, high = high, start + 2 * (high - start)
    while high - low > 1:
        middle = (low + high) // 2
        if sum(way.over(start, middle) for way in ways) < amount:
            low = middle
        else:
            high = middle
    return high
