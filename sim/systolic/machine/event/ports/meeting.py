"""When two streams will first want the same port of the same partition, if nothing refuses them.

While no stream is refused, what each will ask for is known: its course. So where the partitions of
a bank have ports of their own, streams that may meet but have not yet cost arithmetic until they
do, not a decision of the arbiter whenever one of them comes to another partition.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import numpy.typing as npt

from systolic.machine.event.build import IS_COMPILED
from systolic.machine.event.ports.course import (
    FIRST,
    HIGH,
    LOW,
    STOP,
    PlacedCourse,
    PortUses,
    UseSteps,
    UseTable,
    place_of,
)
from systolic.machine.event.ports.ports import Need

Column = npt.NDArray[np.int64]
NEVER = (1 << 62) - 1
"""Behind all ticks; compiled code has no greater integer that takes one word."""
MOST_SWEPT = 400 if IS_COMPILED else 48
"""The most uses that are compared one by one; more of them by numpy, whose calls take as long."""


def first_meeting(one: PlacedCourse, other: PlacedCourse, now: int) -> int:
    """Return the first tick, not before `now`, at which both use a port; NEVER if there is none."""
    (mine, origin), (theirs, other_origin) = one, other
    later, best = other_origin - origin, NEVER
    now -= origin
    for number, a in mine.ports.items():
        b = theirs.ports.get(number)
        if b is None or a.lowest >= b.highest or b.lowest >= a.highest:
            continue
        if max(a.begin, b.begin + later, now) < min(a.end, b.end + later, best):
            best = min(best, _first_of_port(a, b, later, now))
    return best + origin if best < NEVER else NEVER


def _first_of_port(a: PortUses, b: PortUses, later: int, now: int) -> int:
    """Return the first tick from `now` on at which a use of `a` meets one of `b`, else NEVER.

    Ticks are counted in `a`, which begins `later` ticks before `b`.
    """
    i, j = bisect_right(a.stop, now), bisect_right(b.stop, now - later)
    if i == len(a.stop) or j == len(b.stop):
        return NEVER
    begin = max(a.first[i], b.first[j] + later)
    if begin <= now and a.low[i] < b.high[j] and b.low[j] < a.high[i]:
        return now
    # Before both have begun, and when one of them is over, there is nothing to meet.
    i, j = bisect_right(a.stop, begin, i), bisect_right(b.stop, begin - later, j)
    mine = bisect_left(a.first, b.end + later) - i
    theirs = bisect_left(b.first, a.end - later) - j
    if mine <= 0 or theirs <= 0:
        return NEVER
    if mine + theirs <= MOST_SWEPT:
        found = _swept(a, i, b, j, later)
    elif mine > 1 < theirs and (s := a.steps) and (t := b.steps) and _are_in_step(s, t):
        found = _first_in_step(a, i, b, j, later)
    else:
        found = _first_of_many(a.table[:, i : i + mine], b.table[:, j : j + theirs], later)
    return max(found, now)


def _swept(a: PortUses, i: int, b: PortUses, j: int, later: int) -> int:
    """Return the first tick at which a use from `i` on meets one of the other's from `j` on.

    Uses of a course follow one another, so those that a use overlaps in time are neighbours.
    """
    best, ends = NEVER, len(b.stop)
    for use in range(i, len(a.stop)):
        first, stop = a.first[use], a.stop[use]
        if first >= best:
            break
        while j < ends and b.stop[j] + later <= first:
            j += 1
        for its in range(j, ends):
            begin = b.first[its] + later
            if begin >= stop:
                break
            if b.low[its] < a.high[use] and a.low[use] < b.high[its]:
                best = min(best, max(first, begin))
                break
    return best


def _are_in_step(one: UseSteps, other: UseSteps) -> bool:
    return (one.ticks_on, one.lanes_on) == (other.ticks_on, other.lanes_on)


def _first_in_step(a: PortUses, i: int, b: PortUses, j: int, later: int) -> int:
    """Return what `_swept` does, for uses that follow one another by the same steps.

    Which uses meet depends only on how many are between their numbers.
    """
    s, t = a.steps, b.steps
    assert s
    assert t
    gap, apart = b.first[0] + later - a.first[0], b.low[0] - a.low[0]
    between = _multiples(s.ticks_on, -t.ticks - gap, s.ticks - gap)
    best = NEVER
    for number in between:
        if not -t.lanes < apart + number * s.lanes_on < s.lanes:
            continue
        use = max(i, j - number)
        if use < len(a.stop) and use + number < len(b.stop):
            best = min(best, max(a.first[use], b.first[use + number] + later))
    return best


def _multiples(step: int, low: int, high: int) -> range:
    """Return the numbers whose multiples of a step lie between low and high, without these."""
    return range(low // step + 1, -(-high // step))


def _first_of_many(mine: UseTable, other: UseTable, later: int) -> int:
    """Return what `_swept` does, for many uses."""
    starts, stops = mine[FIRST] - later, mine[STOP] - later
    begin = other[STOP].searchsorted(starts, side="right")
    count = other[FIRST].searchsorted(stops, side="left") - begin
    ends = count.cumsum()
    if not ends[-1]:
        return NEVER
    use = np.arange(len(ends)).repeat(count)
    its = np.arange(ends[-1]) + (begin - ends + count)[use]
    meet = (mine[LOW, use] < other[HIGH, its]) & (other[LOW, its] < mine[HIGH, use])
    if not meet.any():
        return NEVER
    return int(np.maximum(mine[FIRST, use], other[FIRST, its] + later)[meet].min())


def taken_until(placed: PlacedCourse, need: Need, now: int, until: int) -> tuple[bool, int]:
    """Return whether a course uses some of what is needed at `now`, and until when that stays so.

    While it does, the lowest of the partitions that the use names stays the same too. `until` is
    the latest tick that is asked for.
    """
    (course, origin), (number, low, high) = placed, place_of(need)
    uses = course.ports.get(number)
    if uses is None or uses.lowest >= high or uses.highest <= low:
        return False, until
    first, stop, lows, highs = uses.first, uses.stop, uses.low, uses.high
    last, over, lowest = until - origin, 0, None
    for use in range(bisect_right(stop, now - origin), len(stop)):
        begin = first[use]
        if begin >= last:
            break
        if lows[use] >= high or low >= highs[use]:
            continue
        if lowest is None:
            if begin > now - origin:
                return False, begin + origin
            lowest = lows[use]
        elif lows[use] != lowest or begin > over:
            over = min(over, begin)
            break
        over = stop[use]
    return (False, until) if lowest is None else (True, min(over + origin, until))
