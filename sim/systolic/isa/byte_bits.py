"""Sets of bytes of a partition as the bits of an integer: what some sets leave of another.

A regular set is a run that is repeated by doubling, so it costs a few operations however many runs
it has. For sets that are not long; `systolic.isa.footprint` has the others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

MOST_BITS = 1 << 18
"""Sets of more granules than this are not made bits of: 32 KiB each."""

StepCounts = tuple[tuple[int, int], ...]


class RegularSet(Protocol):
    """What is asked of a `systolic.isa.footprint.Footprint`; see there."""

    first: int
    stop: int
    low: int
    high: int
    run: int
    steps: StepCounts


def are_short(wanted: RegularSet, others: Sequence[RegularSet], granule: int) -> bool:
    """Return whether bits of these sets, as far as `wanted` reaches, are not too many.

    granule: bytes; all runs and distances are multiples of it.
    """
    most = MOST_BITS * granule
    if wanted.high - wanted.low > most:
        return False
    for other in others:  # noqa: SIM110 (`all` takes twice as long)
        if _inner(other) > most:
            return False
    return True


def bits_left(
    wanted: RegularSet,
    lanes: Sequence[int],
    covers: Sequence[RegularSet],
    within: Sequence[RegularSet],
    granule: int,
) -> list[int]:
    """Return the granules of `wanted`, from its first byte on, that are left between two edges.

    Those that none of `covers` has and all of `within` have. lanes: the edges of the partitions,
    ascending.
    """
    left = [_bits(wanted, wanted, granule)] * (len(lanes) - 1)
    for other in within:
        first, stop, bits = *_rows(lanes, other), _bits(other, wanted, granule)
        left = [bits & mine if first <= row < stop else 0 for row, mine in enumerate(left)]
    for cover in covers:
        first, stop = _rows(lanes, cover)
        if first < stop and (bits := ~_bits(cover, wanted, granule)) != -1:
            left[first:stop] = [bits & mine for mine in left[first:stop]]
    return left


def ends_of(bits: int) -> tuple[int, int]:
    """Return the lowest bit that is set, and the bit after the highest."""
    return (bits & -bits).bit_length() - 1, bits.bit_length()


def _rows(lanes: Sequence[int], other: RegularSet) -> tuple[int, int]:
    """Return which of the stretches of partitions between edges belong to another set."""
    return bisect_left(lanes, other.first), bisect_left(lanes, other.stop)


def _inner(regular: RegularSet) -> int:
    """Return the bytes of what the largest step repeats; 0 if there is no step."""
    if not regular.steps:
        return 0
    step, count = regular.steps[-1]
    return regular.high - regular.low - step * (count - 1)


def _bits(regular: RegularSet, wanted: RegularSet, granule: int) -> int:
    """Return a set's granules from the first byte of `wanted` to its last."""
    origin, stop, low = wanted.low, wanted.high, regular.low
    if not regular.steps:
        low, stop = max(low, origin), min(regular.high, stop)
        return (
            ((1 << (stop - low) // granule) - 1) << (low - origin) // granule if low < stop else 0
        )
    step, count = regular.steps[-1]
    first = max(0, (origin - low - _inner(regular)) // step + 1)
    last = min(count, -(-(stop - low) // step))
    if last <= first:
        return 0
    bits = _repeated(regular.run, (*regular.steps[:-1], (step, last - first)), granule)
    place = (low + first * step - origin) // granule
    return bits << place if place >= 0 else bits >> -place


@lru_cache(maxsize=256)
def _repeated(run: int, steps: StepCounts, granule: int) -> int:
    """Return the granules of runs that begin at multiples of the steps."""
    found = (1 << run // granule) - 1
    for step, count in steps:
        done = 1
        while done < count:
            more = min(done, count - done)
            found |= found << more * (step // granule)
            done += more
    return found
