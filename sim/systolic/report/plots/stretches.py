"""Stretches of time as arrays, and how a picture samples them: nothing short is ever lost.

A picture has some hundred columns, a run may have millions of cycles. A column tells two things:
which *share* of its time a stretch covers, so that the sum over all columns is exact; and whether a
stretch *touches* it at all, so that one cycle in ten million is still a mark. Times are ticks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from systolic.arrays import Mask
from systolic.spans import Interval

Edges: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stretches:
    """Half-open intervals of ticks, sorted by their firsts."""

    firsts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Stretches:
        """Return the stretches of (first, stop) pairs."""
        table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
        return cls(table[:, 0], table[:, 1])

    def within(self, window: Interval) -> Stretches:
        """Return what of them lies in a window."""
        inside = (self.firsts < window.stop) & (self.stops > window.first)
        return Stretches(
            np.maximum(self.firsts[inside], window.first),
            np.minimum(self.stops[inside], window.stop),
        )

    @cached_property
    def merged(self) -> Stretches:
        """Return the time in which at least one of them is on, as stretches that do not meet."""
        if not self.firsts.size:
            return self
        reach = np.maximum.accumulate(self.stops)
        begins = np.concatenate([[True], self.firsts[1:] > reach[:-1]])
        last = np.concatenate([np.flatnonzero(begins)[1:] - 1, [len(reach) - 1]])
        return Stretches(self.firsts[begins], reach[last])

    @property
    def ticks(self) -> int:
        """Return how long they are together."""
        return int((self.stops - self.firsts).sum())

    def per_column(self, edges: Edges) -> npt.NDArray[np.float64]:
        """Return how many ticks of each column they cover; where two overlap, both count."""
        return self.weighed(edges, np.ones(len(self.firsts), np.int64))

    def weighed(self, edges: Edges, weights: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the ticks of each column that they cover, each stretch by its weight."""
        order = np.argsort(self.stops, kind="stable")
        begun = _passed(self.firsts, edges, weights)
        ended = _passed(self.stops[order], edges, weights[order])
        return np.asarray(np.diff(begun - ended))

    def touched(self, edges: Edges) -> Mask:
        """Return which columns they touch, however briefly."""
        columns = len(edges) - 1
        inside = (self.firsts < edges[-1]) & (self.stops > edges[0])
        first = np.searchsorted(edges, self.firsts[inside], "right") - 1
        last = np.searchsorted(edges, self.stops[inside], "left")
        change = np.zeros(columns + 1, np.int64)
        np.add.at(change, np.clip(first, 0, columns), 1)
        np.add.at(change, np.clip(last, 0, columns), -1)
        return np.asarray(np.cumsum(change[:-1]) > 0)


def _passed(
    times: npt.NDArray[np.int64], edges: Edges, weights: npt.NDArray[Any]
) -> npt.NDArray[np.float64]:
    """Return, for each edge, the weighted sum of the distances to all sorted times before it."""
    count = np.searchsorted(times, edges, "right")
    weight, sums = (np.concatenate([[0], np.cumsum(each)]) for each in (weights, weights * times))
    return np.asarray(weight[count] * edges - sums[count])


@dataclass(frozen=True, eq=False)
class Coverage:
    """Columns of time and, for each kind of stretch, the share of every column that it covers.

    is_exact: every column lies between two neighbouring begins or ends.
    """

    edges: Edges
    is_exact: bool
    shares: Mapping[str, npt.NDArray[np.float64]]


def coverage(kinds: Mapping[str, Stretches], window: Interval, most_columns: int) -> Coverage:
    """Return the shares of a window that kinds of stretches cover.

    If there are few stretches, a column goes from one begin or end to the next; then every share is
    0 or 1 and nothing is rounded. Otherwise the columns are equally wide.
    """
    inside = {kind: each.within(window) for kind, each in kinds.items()}
    ends = [side for each in inside.values() for side in (each.firsts, each.stops)]
    edges = np.unique(np.concatenate([[window.first, window.stop], *ends])).astype(np.float64)
    is_exact = len(edges) <= most_columns
    edges = edges if is_exact else even_edges(window, most_columns)
    widths = np.diff(edges)
    shares = {kind: each.per_column(edges) / widths for kind, each in inside.items()}
    return Coverage(edges, is_exact, shares)


def even_edges(window: Interval, columns: int) -> Edges:
    """Return the edges of equally wide columns; a column is never narrower than a tick."""
    return np.linspace(window.first, window.stop, min(columns, window.count) + 1)


def runs_of(mask: Mask) -> Iterable[tuple[int, int]]:
    """Return (first, stop) of each run of columns that are set."""
    change = np.diff(np.concatenate([[0], mask.astype(np.int8), [0]]))
    return zip(np.flatnonzero(change == 1), np.flatnonzero(change == -1), strict=True)
