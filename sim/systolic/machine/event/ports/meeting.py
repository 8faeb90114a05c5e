"""When two streams will first want the same port of the same partition, if nothing refuses them.

While no stream is refused, what each will ask for is known: its course. So where the partitions of
a bank have ports of their own, streams that may meet but have not yet cost arithmetic until they
do, not a decision of the arbiter whenever one of them comes to another partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.machine.event.ports.ports import Need, number_of

Column = npt.NDArray[np.int64]
EVERY_PARTITION = 1 << 40
NEVER = 1 << 62


class Use(NamedTuple):
    """A need from tick `first` to tick `stop`."""

    need: Need
    first: int
    stop: int


class Course(NamedTuple):
    """Uses of ports, int64, in the order of time: of `port` in partitions low <= p < high.

    A course may say that a port is used when it is not; where it says nothing none is.
    """

    first: Column
    stop: Column
    port: Column
    low: Column
    high: Column


def course_of(uses: Iterable[Use]) -> Course:
    """Return uses, given in the order of time, as a course."""
    rows = [(first, stop, *_place(need)) for need, first, stop in uses]
    return Course(*np.array(rows, np.int64).reshape(-1, 5).T)


def _place(need: Need) -> tuple[int, int, int]:
    """Return port and partitions; a port of the result buffer is one for all partitions."""
    number = number_of(need.port)
    if not need.port.is_of_partitions:
        return number, 0, EVERY_PARTITION
    return number, need.first, need.stop


def joined(courses: list[Course]) -> Course:
    """Return courses that follow one another as one."""
    return Course(*(np.concatenate(columns) for columns in zip(*courses, strict=True)))


def first_meeting(one: Course, other: Course, now: int) -> int:
    """Return the first tick, not before `now`, at which both use a port; NEVER if there is none."""
    # Uses of a course follow one another, so those that a use overlaps in time are neighbours.
    begin = np.searchsorted(other.stop, np.maximum(one.first, now), side="right")
    end = np.searchsorted(other.first, one.stop, side="left")
    count = np.where(one.stop > now, np.maximum(end - begin, 0), 0)
    mine = np.repeat(np.arange(len(count)), count)
    place = np.arange(len(mine)) - np.repeat(np.cumsum(count) - count, count)
    theirs = begin[mine] + place
    meet = (
        (one.port[mine] == other.port[theirs])
        & (one.low[mine] < other.high[theirs])
        & (other.low[theirs] < one.high[mine])
    )
    if not meet.any():
        return NEVER
    return max(now, int(np.maximum(one.first[mine], other.first[theirs])[meet].min()))


def taken_until(course: Course, need: Need, now: int, until: int) -> tuple[bool, int]:
    """Return whether a course uses some of what is needed at `now`, and until when that stays so.

    While it does, the lowest of the partitions that the use names stays the same too. `until` is
    the latest tick that is asked for.
    """
    number, low, high = _place(need)
    # In the order of time, so the uses between two ticks are neighbours.
    begin = int(np.searchsorted(course.stop, now, side="right"))
    end = int(np.searchsorted(course.first, until, side="left"))
    port, lows, highs = (each[begin:end] for each in (course.port, course.low, course.high))
    met = np.flatnonzero((port == number) & (lows < high) & (highs > low)) + begin
    if not len(met):
        return False, until
    first, stop, lowest = course.first[met], course.stop[met], course.low[met]
    if first[0] > now:
        return False, int(first[0])
    ends = np.flatnonzero((lowest[1:] != lowest[0]) | (first[1:] > stop[:-1]))
    last = int(ends[0]) if len(ends) else len(met) - 1
    over = int(stop[last])
    if last + 1 < len(met):
        over = min(over, int(first[last + 1]))
    return True, min(over, until)
