"""The part of a tile that is made so far: rectangles of its rows and columns.

A tile of a result is made piece by piece. If it must leave the state buffer half made, only the
finished part is moved out and back (docs/timing_model.md, section 7.9). Not here: memories and
instructions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from systolic.arrays import Integers, Mask
from systolic.spans import Span


class RowPart(NamedTuple):
    """Rows, and in each of them `times` runs of columns, `step` columns from one to the next."""

    rows: Span
    cols: Span
    times: int = 1
    step: int = 0


@dataclass(slots=True)
class Made:
    """The finished part of a tile of `rows` x `cols`.

    Rectangles are only noted as they are made; the mask of the tile is drawn when it is asked for.
    """

    rows: int
    cols: int
    _noted: list[tuple[Span, slice | Integers]] = field(default_factory=list)
    _mask: Mask | None = None

    def add(self, rows: Span, cols: Span) -> None:
        """Note that a rectangle is made."""
        self._noted.append((rows, slice(cols.first, cols.stop)))

    def add_columns(self, rows: Span, cols: Integers) -> None:
        """Note that some columns of some rows are made."""
        self._noted.append((rows, cols))

    def mask(self) -> Mask:
        """Return whether each element is made, bool [rows, columns]."""
        if self._mask is None:
            self._mask = np.zeros((self.rows, self.cols), bool)
        for rows, cols in self._noted:
            self._mask[rows.first : rows.stop, cols] = True
        self._noted.clear()
        return self._mask


def parts_of(mask: Mask) -> list[RowPart]:
    """Return disjoint parts that together make up the mask, top to bottom."""
    return [part for rows in _bands(mask) for part in _runs(mask[rows.first], rows)]


def _bands(mask: Mask) -> Iterator[Span]:
    """Yield neighbouring rows that are alike."""
    changes = np.flatnonzero((mask[1:] != mask[:-1]).any(axis=1)) + 1
    for first, stop in pairwise([0, *changes.tolist(), len(mask)]):
        yield Span(first, stop - first)


def _runs(line: Mask, rows: Span) -> Iterator[RowPart]:
    """Yield the runs of a row; runs of one length at one distance are one part."""
    edges = np.flatnonzero(np.diff(line, prepend=False, append=False)).tolist()
    runs = [Span(first, stop - first) for first, stop in zip(edges[::2], edges[1::2], strict=True)]
    while runs:
        times, step = _alike(runs)
        yield RowPart(rows, runs[0], times, step)
        del runs[:times]


def _alike(runs: list[Span]) -> tuple[int, int]:
    """Return how many runs from the first have one length and one distance, and the distance."""
    times, step = 1, 0
    for run, following in pairwise(runs):
        distance = following.first - run.first
        if run.count != following.count or (times > 1 and distance != step):
            break
        times, step = times + 1, distance
    return times, step
