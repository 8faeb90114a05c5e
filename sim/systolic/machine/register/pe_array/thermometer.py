"""Twin of `event.pe_array.warm_up`: the array's warmth, from a count of its busy cycles.

The count rises by one in every cycle in which the array is busy with a multiply, and is kept as the
cycles in which it begins or stops to rise. The busy cycles of a window are the count at its end
less the count at its beginning.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum


class Warmth(Enum):
    """How warm an array is that has not multiplied yet, has begun to, or has done so for long."""

    UNUSED = 0
    COLD = 1
    WARM = 2


class Thermometer:
    """Told when multiplies begin and end, in cycles of the array.

    Multiplies on tiles may overlap: the count rises while at least one of them is at work.
    """

    def __init__(self, window_cycles: int) -> None:
        self._window = window_cycles
        self._warmth = Warmth.UNUSED if window_cycles else Warmth.WARM
        self._chilled = 0
        self._bends: list[tuple[int, int]] = [(0, 0)]
        self._at_work = self._rising_since = self._rises_until = 0

    def begin(self, cycle: int) -> bool:
        """A multiply begins; return whether it does so in a cold array."""
        if not self._window:
            return False
        self._settle(cycle)
        if not self._at_work and cycle >= self._rises_until:
            self._rising_since = cycle
        self._at_work += 1
        has_rested = 2 * (self._count(cycle) - self._count(cycle - self._window)) < self._window
        if self._warmth is Warmth.UNUSED or (self._warmth is Warmth.WARM and has_rested):
            self._warmth, self._chilled = Warmth.COLD, cycle
        elif self._warmth is Warmth.COLD and cycle - self._chilled >= self._window:
            self._warmth = Warmth.COLD if has_rested else Warmth.WARM
        return self._warmth is Warmth.COLD

    def end(self, over: int) -> None:
        """A multiply that has begun will be over in a cycle."""
        self._at_work -= 1
        self._rises_until = max(self._rises_until, over)

    def _settle(self, cycle: int) -> None:
        """Write down the rise up to a cycle, or up to where it ended before."""
        stop = cycle if self._at_work else min(cycle, self._rises_until)
        if stop > self._rising_since:
            count = self._bends[-1][1]
            self._bends += [(self._rising_since, count), (stop, count + stop - self._rising_since)]
            self._rising_since = stop

    def _count(self, cycle: int) -> int:
        """Return in how many cycles before this one the array was busy."""
        after = bisect_right(self._bends, (cycle, self._bends[-1][1]))
        if after == 0:
            return 0
        begun, count = self._bends[after - 1]
        if after == len(self._bends) or self._bends[after][1] == count:
            return count
        return count + cycle - begun
