"""Labels: what each unit did in every cycle, as intervals. The accounting law lives here.

Units report claims (label over an interval of cycles); where claims overlap, the first label of
the contract's order wins; cycles without a claim are idle. So each cycle carries exactly one label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

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


def resolve(claims: Sequence[Claim], total: int) -> tuple[LabelInterval, ...]:
    """Return the intervals that cover cycles 0 to total - 1 exactly once, neighbours merged."""
    if total <= 0:
        return ()
    firsts, stops, labels, orders = zip(*claims, strict=True) if claims else ((), (), (), ())
    names = sorted({*labels})
    numbers = {name: number for number, name in enumerate(names)}
    ranks = np.array([rank(name) for name in names], np.int64)
    first, stop = (np.array(column, np.int64).clip(0, total) for column in (firsts, stops))
    number = np.array([numbers[label] for label in labels], np.int64)
    # Between two edges nothing changes, and the claim that is painted last wins.
    edges = np.sort(np.concatenate([[0, total], first, stop]))
    edges = edges[np.diff(edges, prepend=-1) > 0]
    painting = np.lexsort((number, np.array(orders, np.int64), ranks[number]))[::-1]
    begins, ends = edges.searchsorted(first[painting]), edges.searchsorted(stop[painting])
    paints = zip(begins.tolist(), ends.tolist(), number[painting].tolist(), strict=True)
    painted = [len(names)] * (len(edges) - 1)
    for begin, end, paint in paints:
        painted[begin:end] = [paint] * (end - begin)
    changes = np.flatnonzero(np.diff(painted, prepend=-1))
    carried = [*names, "idle"]
    return tuple(
        map(
            LabelInterval,
            edges[changes].tolist(),
            edges[[*changes[1:], -1]].tolist(),
            [carried[painted[place]] for place in changes.tolist()],
        )
    )


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
