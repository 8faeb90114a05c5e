"""The set of bytes an access touches, whatever the order: normalised, compared, subtracted.

A footprint is a range of partitions times runs of `run` bytes that begin at regular distances.
Nothing here knows which instruction reads or writes, or when.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import or_

import numpy as np
import numpy.typing as npt

from systolic.arrays import Integers
from systolic.isa.access import Access, Buffer, Pattern
from systolic.isa.byte_bits import StepCounts, are_short, bits_left, ends_of
from systolic.isa.lint.diagnostic import BufferBox
from systolic.spans import Interval

LARGEST_RUNS = 1 << 21
"""Two sets with more runs than this, and no cheaper proof, are taken to overlap."""
MOST_LOOKED = 256
"""The most sums of steps that are looked at before runs of two sets are compared one by one."""
LARGEST_MASK = 1 << 26
"""Sets with more granules than this, and no cheaper proof, are taken to be not covered."""


@dataclass(slots=True)
class Footprint:
    """Partitions first <= p < stop times runs of `run` bytes from `low`, in steps of (step, count).

    The steps are positive, larger than what they repeat where possible, and ascend. repeats: some
    byte is touched by more than one element. is_dense: every byte from low to high is touched.
    """

    buffer: Buffer
    first: int
    stop: int
    low: int
    high: int
    run: int
    steps: StepCounts
    repeats: bool
    is_dense: bool
    _starts: npt.NDArray[np.int64] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, access: Access) -> Footprint:
        """Return the footprint of an access."""
        low, high = access.low_and_high
        run, steps, repeats = _shape(access.pattern, access.element_bytes)
        stop = access.partition + access.partitions
        dense = not steps
        return cls(access.buffer, access.partition, stop, low, high, run, steps, repeats, dense)

    @property
    def runs(self) -> int:
        """Return the number of runs in each partition."""
        return math.prod(count for _, count in self.steps)

    @property
    def region(self) -> BufferBox:
        """Return the bounding box."""
        return BufferBox(
            self.buffer, Interval(self.first, self.stop), Interval(self.low, self.high)
        )

    def starts(self) -> npt.NDArray[np.int64]:
        """Return the first byte of every run, ascending."""
        if self._starts is None:
            found = np.array([self.low], np.int64)
            for step, count in self.steps:
                found = (found[None, :] + step * np.arange(count, dtype=np.int64)[:, None]).ravel()
            found.sort()
            fresh = np.ones(len(found), np.bool_)  # `np.unique` would load masked arrays
            np.not_equal(found[1:], found[:-1], out=fresh[1:])
            self._starts = found[fresh]
        return self._starts

    def places(self, granule: int) -> npt.NDArray[np.int64]:
        """Return the first byte of every granule of a partition; runs are multiples of granules."""
        within = np.arange(0, self.run, granule, dtype=np.int64)
        return (self.starts()[:, None] + within[None, :]).reshape(-1)

    def boxes_meet(self, other: Footprint) -> bool:
        """Return whether the bounding boxes (of the same buffer) have a byte in common."""
        return (
            self.first < other.stop
            and other.first < self.stop
            and self.low < other.high
            and other.low < self.high
        )

    def meets(self, other: Footprint) -> bool:
        """Return whether the sets (of the same buffer) have a byte in common."""
        if not self.boxes_meet(other):
            return False
        # Both ends of a box are touched.
        if self.is_dense and (self.low <= other.low or other.high <= self.high or other.is_dense):
            return True
        if other.is_dense and (other.low <= self.low or self.high <= other.high):
            return True
        return self.runs_meet(other)

    def runs_meet(self, other: Footprint) -> bool:
        """Return whether a run of each has a byte in common, where their bounding boxes have."""
        if self.is_dense and not other.repeats:
            return other._touches(self.low, self.high)
        if other.is_dense and not self.repeats:
            return self._touches(other.low, other.high)
        gap = other.low - self.low
        found = _runs_meet_at(self.run, self.steps, other.run, other.steps, gap)
        return self._starts_meet(other) if found is None else found

    def _touches(self, low: int, high: int) -> bool:
        """Return whether a set that repeats no byte has one from `low` on, before `high`.

        Its box begins before `high`. What a step repeats lies apart, so quotients say which is the
        last run that does so.
        """
        rest = high - 1 - self.low
        for step, count in reversed(self.steps):
            rest -= min(rest // step, count - 1) * step
        return high - 1 - rest + self.run > low

    def _starts_meet(self, other: Footprint) -> bool:
        """Return whether a run of each has a byte in common, from the places of all runs."""
        if self.runs + other.runs > LARGEST_RUNS:
            return True
        few, many = (self, other) if self.runs <= other.runs else (other, self)
        starts = many.starts()
        after = np.searchsorted(starts, few.starts() + few.run, "left")
        before = after - 1
        touching = starts[np.maximum(before, 0)] + many.run > few.starts()
        return bool((touching & (before >= 0)).any())

    def covers(self, other: Footprint) -> bool:
        """Return whether `other` (of the same buffer) is surely contained in this set."""
        if not (self.first <= other.first and other.stop <= self.stop):
            return False
        if not (self.low <= other.low and other.high <= self.high):
            return False
        if not self.steps:
            return True
        return (self.low, self.run, self.steps) == (other.low, other.run, other.steps)

    def spans_all(self, other: Footprint) -> bool:
        """Return whether this set surely has every byte of `other`, partitions apart.

        A regular set has another that begins at one of its runs, or behind it, and takes the same
        steps, not more of them, if what else the other repeats lies within a run.
        """
        if not (self.low <= other.low and other.high <= self.high):
            return False
        if not self.steps:
            return True
        if self.repeats or other.repeats:
            return False
        within, counts = other.low - self.low, dict(other.steps)
        for step, count in reversed(self.steps):
            place, within = divmod(within, step)
            if place + counts.pop(step, 1) > count:
                return False
        reach = sum([step * (count - 1) for step, count in counts.items()])
        return within + reach + other.run <= self.run

    def shared_box(self, other: Footprint) -> BufferBox:
        """Return the box common to both bounding boxes."""
        return BufferBox(
            self.buffer,
            Interval(max(self.first, other.first), min(self.stop, other.stop)),
            Interval(max(self.low, other.low), min(self.high, other.high)),
        )

    def holds(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of these byte addresses the set touches (in its partitions)."""
        if not self.steps:
            return (places >= self.low) & (places < self.high)
        if not self.repeats:  # what a step repeats lies apart, so a quotient says which it is
            rest = places - self.low
            is_after = rest >= 0
            for step, count in reversed(self.steps):
                rest -= np.minimum(rest // step, count - 1) * step
            return is_after & (rest < self.run)
        starts = self.starts()
        before = np.searchsorted(starts, places, "right") - 1
        return (before >= 0) & (places - starts[np.maximum(before, 0)] < self.run)


def repeats(access: Access) -> bool:
    """Return whether some byte is touched by more than one element of an access."""
    return _shape(access.pattern, access.element_bytes)[2]


@lru_cache(maxsize=4096)
def _shape(pattern: Pattern, size: int) -> tuple[int, StepCounts, bool]:
    """Return run, steps and repeats of the footprint of a pattern of elements of `size` bytes."""
    run, repeats = size, False
    extent = size  # from the first byte to behind the last of the pairs so far
    steps: list[tuple[int, int]] = []
    for step, count in sorted((abs(s) * size, c) for s, c in pattern if c > 1):
        repeats |= step < extent
        extent += step * (count - 1)
        if step <= run and not steps:
            run += step * (count - 1)
        else:
            steps.append((step, count))
    return run, tuple(steps), repeats


@lru_cache(maxsize=1 << 14)
def _runs_meet_at(
    run: int, steps: StepCounts, other_run: int, others: StepCounts, gap: int
) -> bool | None:
    """Return whether runs of two sets meet, the second beginning `gap` bytes after the first.

    Two runs meet if the distance of their first bytes lies in a range that their lengths give. The
    distances are sums of multiples of both sets' steps. To have none but positive steps, the runs
    of the second are counted from its last. None if that takes long to tell. A program repeats few
    pairs of patterns at few distances, so the answers are kept.
    """
    most: dict[int, int] = {}
    for step, count in (*steps, *others):
        most[step] = most.get(step, 0) + count - 1
    distance = gap + sum(step * (count - 1) for step, count in others)
    return _has_sum(
        sorted(most.items(), reverse=True), distance - run + 1, distance + other_run - 1
    )


def _has_sum(steps: list[tuple[int, int]], low: int, high: int) -> bool | None:
    """Return whether multiples of the steps have a sum from low to high; None if that takes long.

    steps: (step, most), the largest step first: it may be added 0 to `most` times.
    """
    below, divisors = [0], [0]  # the largest sum of the steps after each, and their divisor
    for step, most in reversed(steps):
        below.append(below[-1] + step * most)
        divisors.append(math.gcd(divisors[-1], step))
    todo, looked = [(len(steps), low, high)], 0
    while todo:
        number, low, high = todo.pop()
        if low <= 0 <= high:
            return True
        divisor = divisors[number]
        if high < 0 or low > below[number] or high // divisor * divisor < low:
            continue
        step, most = steps[-number]
        first, last = max(0, -((below[number - 1] - low) // step)), min(most, high // step)
        looked += max(0, last - first) + 1
        if looked > MOST_LOOKED:
            return None
        todo += [(number - 1, low - n * step, high - n * step) for n in range(first, last + 1)]
    return False


def uncovered(
    wanted: Footprint, covers: Sequence[Footprint], within: Iterable[Footprint] = ()
) -> BufferBox | None:
    """Return the box of those bytes of `wanted` that none of `covers` touches, None if all are.

    within: only bytes that all of these touch as well are asked for.
    """
    if _is_covered_by_lanes(wanted, covers):  # as nearly all that is read
        return None
    within = tuple(within)
    if any(_is_covered_by_lanes(each, covers) for each in within):
        return None
    covers = [cover for cover in covers if cover.is_dense or cover.runs <= LARGEST_RUNS]
    others = [*covers, *within]
    lanes = _edges(wanted.first, wanted.stop, [(each.first, each.stop) for each in others])
    granule = granule_bytes([wanted, *others])
    if are_short(wanted, others, granule):
        return _box_left(wanted, lanes, bits_left(wanted, lanes, covers, within, granule), granule)
    pieces = _pieces(wanted, others)
    if pieces is None:
        return wanted.region
    places, ends = pieces
    missing = _missing(wanted, lanes, places, covers, within)
    if not missing.any():
        return None
    rows, columns = np.flatnonzero(missing.any(axis=1)), np.flatnonzero(missing.any(axis=0))
    return BufferBox(
        wanted.buffer,
        Interval(lanes[int(rows[0])], lanes[int(rows[-1]) + 1]),
        Interval(int(places[columns[0]]), int(ends[columns[-1]])),
    )


def _box_left(
    wanted: Footprint, lanes: Sequence[int], left: Sequence[int], granule: int
) -> BufferBox | None:
    """Return the box of the granules that are left between two edges; None if none are."""
    rows = [row for row, bits in enumerate(left) if bits]
    if not rows:
        return None
    low, high = ends_of(reduce(or_, left))
    return BufferBox(
        wanted.buffer,
        Interval(lanes[rows[0]], lanes[rows[-1] + 1]),
        Interval(wanted.low + low * granule, wanted.low + high * granule),
    )


def _is_covered_by_lanes(wanted: Footprint, covers: Sequence[Footprint]) -> bool:
    """Return whether sets that have all bytes of `wanted` in some partitions have them in all."""
    left = (1 << wanted.stop) - (1 << wanted.first)
    for cover in reversed(covers):  # most of what is read was written as one, and last
        if cover.spans_all(wanted) and (cover.is_dense or cover.runs <= LARGEST_RUNS):
            left &= ~((1 << cover.stop) - (1 << cover.first))
            if not left:
                return True
    return False


def _pieces(wanted: Footprint, others: Sequence[Footprint]) -> tuple[Integers, Integers] | None:
    """Return where pieces begin and end that each set touches whole or not at all.

    They make up the bytes of a partition that `wanted` touches. None if they are too many.
    """
    if wanted.is_dense and all(other.is_dense for other in others):
        edges = _edges(wanted.low, wanted.high, [(other.low, other.high) for other in others])
        found = np.array(edges, np.int64)
        return found[:-1], found[1:]
    granule = granule_bytes([wanted, *others])
    parts = wanted.stop - wanted.first
    if wanted.runs * (wanted.run // granule) * parts > LARGEST_MASK:
        return None
    places = wanted.places(granule)
    return places, places + granule


def _edges(first: int, stop: int, intervals: Iterable[tuple[int, int]]) -> list[int]:
    """Return first and stop, and where intervals begin or end between them, ascending."""
    edges = {first, stop}
    for interval in intervals:
        edges.update(interval)
    return sorted([edge for edge in edges if first <= edge <= stop])


def _missing(
    wanted: Footprint,
    lanes: Sequence[int],
    places: npt.NDArray[np.int64],
    covers: Sequence[Footprint],
    within: Sequence[Footprint],
) -> npt.NDArray[np.bool_]:
    """Return what is not covered: bool [partitions between two edges, pieces].

    lanes: the edges of the partitions, ascending.
    """
    missing = np.ones((len(lanes) - 1, len(places)), np.bool_)
    for other in within:
        keep = np.zeros_like(missing)
        keep[_rows(lanes, other), :] = other.holds(places)
        missing &= keep
    for cover in covers:
        if not cover.boxes_meet(wanted):
            continue
        rows, columns = _rows(lanes, cover), slice(0, len(places))
        if not wanted.repeats:  # then the places ascend
            first, stop = places.searchsorted([cover.low, cover.high]).tolist()
            columns = slice(first, stop)
        if cover.is_dense and not wanted.repeats:
            missing[rows, columns] = False
        else:
            missing[rows, columns] &= ~cover.holds(places[columns])
    return missing


def _rows(lanes: Sequence[int], other: Footprint) -> slice:
    """Return which of the stretches of partitions between edges belong to another set."""
    return slice(bisect_left(lanes, other.first), max(0, bisect_left(lanes, other.stop)))


def shared_lanes(wanted: Footprint, other: Footprint) -> slice:
    """Return the partitions of `wanted`, counted from its first, that another has too."""
    return slice(
        max(0, other.first - wanted.first),
        max(0, min(wanted.stop, other.stop) - wanted.first),
    )


def granule_bytes(footprints: Sequence[Footprint]) -> int:
    """Return the largest of 4, 2, 1 that all runs and their distances are multiples of."""
    sizes = [4, *(f.run for f in footprints), *(f.low for f in footprints)]
    sizes += [step for f in footprints for step, _ in f.steps]
    return math.gcd(*sizes)
