"""Uses of a port that follow one another at equal distances, and how long they last together.

A multiply that takes a vector every second cycle uses a port as often as it has vectors. That is
one value here, not one for each vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from systolic.machine.event.ports.meeting import Column

AT_ONCE = 1024
"""How many values are spread out into single uses at a time."""


class Beats(NamedTuple):
    """`times` uses of `ticks` ticks each, one every `distance` ticks, the first at `first`."""

    first: int
    ticks: int
    distance: int = 0
    times: int = 1

    @property
    def stop(self) -> int:
        """Return the tick at which the last use is over."""
        return self.first + (self.times - 1) * self.distance + self.ticks

    def near(self, tick: int) -> tuple[int, int] | None:
        """Return when the first use that is not over at `tick` begins and stops, if there is one.

        Its uses are over in the order in which they begin.
        """
        if tick >= self.stop:
            return None
        since = tick - self.first - self.ticks
        over = since // self.distance + 1 if since >= 0 else 0
        begin = self.first + over * self.distance
        return begin, begin + self.ticks


def stretch(first: int, stop: int) -> Beats:
    """Return one use, from tick `first` to tick `stop`."""
    return Beats(first, stop - first)


def covered_ticks(uses: Iterable[Beats]) -> int:
    """Return the ticks in which there is a use, where uses overlap counted once."""
    end = total = 0
    for begins, stops in _single_uses(uses):
        reached = np.maximum.accumulate(np.concatenate([[end], stops]))
        total += int(np.maximum(stops - np.maximum(begins, reached[:-1]), 0).sum())
        end = int(reached[-1])
    return total


def _single_uses(uses: Iterable[Beats]) -> Iterator[tuple[Column, Column]]:
    """Yield when single uses begin and stop, in the order in which they begin, many at a time."""
    rows = np.array(sorted(uses), np.int64).reshape(-1, 4)
    waiting = rows[:0]
    for place in range(0, len(rows), AT_ONCE):
        waiting = np.concatenate([waiting, rows[place : place + AT_ONCE]])
        following = rows[place + AT_ONCE :]
        first, ticks, distance, count = waiting.T
        number = count
        if len(following):
            begun = -(-(following[0, 0] - first) // np.maximum(distance, 1))
            number = np.minimum(begun, count)
        begins = np.repeat(first, number) + _numbered(number) * np.repeat(distance, number)
        order = np.argsort(begins, kind="stable")
        yield begins[order], (begins + np.repeat(ticks, number))[order]
        rest = np.stack([first + number * distance, ticks, distance, count - number], axis=1)
        waiting = rest[number < count]


def _numbered(counts: Column) -> Column:
    """Return 0, 1, .. for the first of the counts, then for the second, and so on."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
