"""Twin of `register.pe_array.thermometer`: whether a multiply finds the array cold, from intervals.

Times are in cycles of the array. The array is busy with a multiply from its start until its last
vector lets another follow.
"""

from __future__ import annotations

from collections import deque

from systolic.spans import Interval


class WarmUp:
    """The busy intervals that may still count, and since when the array is cold, if it is."""

    def __init__(self, window_cycles: int) -> None:
        self._window = window_cycles
        self._busy: deque[Interval] = deque()
        self._cold_since: int | None = None
        self._is_first = True

    def note(self, busy: Interval) -> None:
        """Note that the array was busy."""
        self._busy.append(busy)

    def is_cold(self, start: int) -> bool:
        """Return whether the multiply that starts in this cycle streams slowly."""
        if not self._window:
            return False
        is_idle = 2 * self._busy_before(start) < self._window
        if self._is_first or (is_idle and self._cold_since is None):
            self._cold_since, self._is_first = start, False
        elif not is_idle and start >= (self._cold_since or 0) + self._window:
            self._cold_since = None
        return self._cold_since is not None

    def _busy_before(self, start: int) -> int:
        """Return in how many of the last cycles the array was busy."""
        first = start - self._window
        while self._busy and self._busy[0].stop <= first:
            self._busy.popleft()
        return sum(stop - max(begin, first) for begin, stop in self._busy)
