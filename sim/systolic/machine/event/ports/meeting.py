"""When two streams will first want the same port of the same partition, if nothing refuses them.

While no stream is refused, what each will ask for is known: its course. So where the partitions of
a bank have ports of their own, streams that may meet but have not yet cost arithmetic until they
do, not a decision of the arbiter whenever one of them comes to another partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.machine.event.ports.ports import Need, Timeline, number_of

Column = npt.NDArray[np.int64]
EVERY_PARTITION = 1 << 40
NEVER = 1 << 62


class Use(NamedTuple):
    """A need from tick `first` to tick `stop`."""

    need: Need
    first: int
    stop: int


Course = npt.NDArray[np.int64]
"""Uses of ports, in the order of time: int64 [5, uses], rows FIRST to HIGH.

A use is of a port, by its number, in partitions low <= p < high, from tick `first` to tick `stop`.
A course may say that a port is used when it is not; where it says nothing none is.
"""

FIRST, STOP, PORT, LOW, HIGH = range(5)
NO_USES: Course = np.zeros((5, 0), np.int64)


def course_of(uses: Iterable[Use]) -> Course:
    """Return uses, given in the order of time, as a course."""
    rows = [(first, stop, *_place(need)) for need, first, stop in uses]
    return np.array(rows, np.int64).reshape(-1, 5).T.copy() if rows else NO_USES


@lru_cache(maxsize=1024)
def course_in_slots(timeline: Timeline) -> Course:
    """Return what is used in which slots, for ticks; the same array every time: not to write to."""
    return course_of(Use(need, s.first, s.stop) for s in timeline for need in s.needs)


def _place(need: Need) -> tuple[int, int, int]:
    """Return port and partitions; a port of the result buffer is one for all partitions."""
    number = number_of(need.port)
    if not need.port.is_of_partitions:
        return number, 0, EVERY_PARTITION
    return number, need.first, need.stop


def joined(courses: list[Course]) -> Course:
    """Return courses that follow one another as one."""
    parts = [course for course in courses if course.shape[1]]
    return parts[0] if len(parts) == 1 else np.concatenate([NO_USES, *parts], axis=1)


def first_meeting(one: Course, other: Course, now: int) -> int:
    """Return the first tick, not before `now`, at which both use a port; NEVER if there is none."""
    mine = one[:, one[STOP].searchsorted(now, side="right") :]
    # Uses of a course follow one another, so those that a use overlaps in time are neighbours.
    begin = other[STOP].searchsorted(np.maximum(mine[FIRST], now), side="right")
    count = other[FIRST].searchsorted(mine[STOP], side="left") - begin
    ends = count.cumsum()
    if not len(ends) or not ends[-1]:
        return NEVER
    theirs = np.arange(ends[-1]) + (begin - ends + count).repeat(count)
    a, b = mine.repeat(count, axis=1), other.take(theirs, axis=1)
    meet = (a[PORT] == b[PORT]) & (a[LOW] < b[HIGH]) & (b[LOW] < a[HIGH])
    if not meet.any():
        return NEVER
    return max(now, int(np.maximum(a[FIRST], b[FIRST])[meet].min()))


def taken_until(course: Course, need: Need, now: int, until: int) -> tuple[bool, int]:
    """Return whether a course uses some of what is needed at `now`, and until when that stays so.

    While it does, the lowest of the partitions that the use names stays the same too. `until` is
    the latest tick that is asked for.
    """
    number, low, high = _place(need)
    # In the order of time, so the uses between two ticks are neighbours.
    begin = int(course[STOP].searchsorted(now, side="right"))
    end = int(course[FIRST].searchsorted(until, side="left"))
    near = course[:, begin:end]
    met = near[:, (near[PORT] == number) & (near[LOW] < high) & (near[HIGH] > low)]
    first, stop, lowest = met[FIRST], met[STOP], met[LOW]
    if not len(first):
        return False, until
    if first[0] > now:
        return False, int(first[0])
    ends = np.flatnonzero((lowest[1:] != lowest[0]) | (first[1:] > stop[:-1]))
    last = int(ends[0]) if len(ends) else len(first) - 1
    over = int(stop[last])
    if last + 1 < len(first):
        over = min(over, int(first[last + 1]))
    return True, min(over, until)
