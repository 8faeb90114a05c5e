"""Labels: what each unit did in every cycle, as intervals. The accounting law lives here.

Units report claims (label over an interval of cycles); where claims overlap, the first label of
the contract's order wins; cycles without a claim are idle. So each cycle carries exactly one label.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from systolic.errors import SimulationError

ORDER = ("streaming", "stalled by", "loading", "filling", "draining", "waiting for")
"""The first that applies (timing contract, section 5); "stalled by" and "waiting for" carry a
name. Idle is what remains."""


class LabelInterval(NamedTuple):
    """A unit carried `label` in its own cycles first <= cycle < stop."""

    first: int
    stop: int
    label: str


@cache
def rank(label: str) -> int:
    """Return the place of a label in the contract's order."""
    for place, prefix in enumerate(ORDER):
        if label.startswith(prefix):
            return place
    raise ValueError(label)


Claim = tuple[int, int, str, int]
"""(first, stop, label, order): `label` applies to cycles first <= cycle < stop of a unit.

`order` settles claims of equal rank: the lowest wins (units give the instruction's index). A plain
tuple, for a run makes several of each instruction.
"""


def resolve(claims: Iterable[Claim], total: int) -> tuple[LabelInterval, ...]:
    """Return the intervals that cover cycles 0 to total - 1 exactly once, neighbours merged."""
    pending = sorted(
        [
            (first if first > 0 else 0, rank(label), order, label, stop)
            for first, stop, label, order in claims
        ]
    )
    count = len(pending)
    firsts: list[int] = []
    stops: list[int] = []
    labels: list[str] = []
    active: list[tuple[int, int, str, int]] = []
    now = place = 0
    while now < total:
        while place < count and pending[place][0] <= now:
            _, level, order, label, stop = pending[place]
            heapq.heappush(active, (level, order, label, stop))
            place += 1
        while active and active[0][3] <= now:
            heapq.heappop(active)
        until = pending[place][0] if place < count else total
        label, stop = "idle", until
        if active and active[0][3] <= until:
            _, _, label, stop = active[0]
        elif active:
            label = active[0][2]
        stop = min(stop, total)
        if labels and labels[-1] == label:
            stops[-1] = stop
        else:
            firsts.append(now)
            stops.append(stop)
            labels.append(label)
        now = stop
    return tuple(map(LabelInterval, firsts, stops, labels))


def tally(labels: Iterable[LabelInterval], total: int, unit: str) -> dict[str, int]:
    """Return cycles by label; SimulationError if they do not sum to `total`."""
    cycles: Counter[str] = Counter()
    for one in labels:
        cycles[one.label] += one.stop - one.first
    if cycles.total() != total:
        raise SimulationError(
            f"{unit}: labels sum to {cycles.total()} cycles, but the run has {total}"
        )
    return dict(sorted(cycles.items(), key=lambda item: (_order(item[0]), item[0])))


def _order(label: str) -> int:
    return len(ORDER) if label == "idle" else rank(label)
