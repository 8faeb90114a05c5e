"""The accesses of a program as arrays: their places, each once, with footprints and cells.

A program repeats few patterns, so what follows from one alone is worked out once for each, and
moved to every place by numpy. Made for `systolic.isa.lint.meetings_numba`, whose columns these are.
"""

# ruff: noqa: I001 (column names, as many as fit on a line)
from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from systolic.arrays import Integers
from systolic.isa.access import Access, Buffer
from systolic.isa.effects import Effects
from systolic.isa.footprint import LARGEST_RUNS, Footprint
from systolic.isa.lint.last_accesses import cell_size
from systolic.isa.lint.meetings_numba import (
    CELL, CELL_STOP, FIRST, HIGH, IN_RESULT, IS_LONG, LOW, PAIRS, PLACE_COLUMNS, REPEATS, RUN,
    SHAPE, SHAPE_COLUMNS, STEPS, STOP,
)  # fmt: skip

MOST_CELLS = 1 << 10
"""The most cells of one access."""
CELLS_PER_PLACE = 8
"""The most cells of a buffer for each place in it."""

_fields = attrgetter("partition", "partitions", "start", "buffer", "dtype", "pattern")
_BUFFERS = tuple(Buffer)


class TooManyStepsError(ValueError):
    """An access has more pairs than instructions may have."""


class _Numbers:
    """Accesses, each once, in the order in which they are asked for."""

    def __init__(self) -> None:
        self.accesses: list[Access] = []
        self._numbers: dict[tuple[object, ...], int] = {}

    def number_of(self, access: Access) -> int:
        """Return the number of an access, always the same one."""
        key = _fields(access)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.accesses)
            self.accesses.append(access)
        return found


class AccessTable(NamedTuple):
    """accesses: of each place. places, shapes: rows of `meetings_numba`. cells: how many.

    place_of: of each access of each instruction, its reads first. first, first_write
    [instructions + 1]: the first access of each, and its first write. inputs: their places.
    """

    accesses: list[Access]
    places: Integers
    shapes: Integers
    cells: int
    place_of: Integers
    first: Integers
    first_write: Integers
    inputs: Integers

    @classmethod
    def of(cls, effects: Effects, inputs: Iterable[Access]) -> AccessTable:
        """Return the accesses of a program, and those to what has contents at cycle 0.

        Raises:
            TooManyStepsError: there are no columns for one of them.

        """
        numbers, place_of = _Numbers(), list[int]()
        number_of = numbers.number_of
        first, first_write = [0], []
        for read, written in effects:
            place_of += map(number_of, read)
            first_write.append(len(place_of))
            place_of += map(number_of, written)
            first.append(len(place_of))
        given = [number_of(access) for access in inputs]
        places, shapes, cells = _lay_out(numbers.accesses)
        columns = map(_integers, (place_of, first, first_write, given))
        return cls(numbers.accesses, places, shapes, cells, *columns)

    def most_links(self) -> int:
        """Return how many links the records of all accesses have in all their cells."""
        cells = self.places[:, CELL_STOP] - self.places[:, CELL]
        return int(cells[self.place_of].sum() + cells[self.inputs].sum())


def _integers(numbers: list[int]) -> Integers:
    return np.array(numbers, np.int64)


def _lay_out(accesses: list[Access]) -> tuple[Integers, Integers, int]:
    """Return the rows of places and of shapes, and how many cells there are."""
    shape_rows: list[list[int]] = []
    known: dict[tuple[object, ...], int] = {}
    rows = []
    for access in accesses:
        key = access.pattern, access.element_bytes
        shape = known.get(key)
        if shape is None:
            shape = known[key] = len(shape_rows)
            shape_rows.append(_shape_row(access))
        buffer = _BUFFERS.index(access.buffer)
        rows.append((access.partition, access.partitions, access.start, shape, buffer))
    partition, partitions, start, shape_of, buffers = np.array(rows, np.int64).reshape(-1, 5).T
    table = np.array(shape_rows, np.int64).reshape(-1, 2 + SHAPE_COLUMNS)
    low, high = start + table[shape_of, 0], start + table[shape_of, 1]
    places = np.empty((len(accesses), PLACE_COLUMNS), np.int64)
    places[:, FIRST], places[:, STOP] = partition, partition + partitions
    places[:, LOW], places[:, HIGH], places[:, SHAPE] = low, high, shape_of
    places[:, IN_RESULT] = buffers == _BUFFERS.index(Buffer.RESULT)
    cells = 0
    for number in range(len(_BUFFERS)):
        cells = _give_cells(places, np.flatnonzero(buffers == number), cells)
    return places, np.ascontiguousarray(table[:, 2:]), cells


def _shape_row(access: Access) -> list[int]:
    """Return the ends of an access, from its start, and the columns of its shape.

    Raises:
        TooManyStepsError: it has more pairs than there are columns for.

    """
    footprint = Footprint.of(access)
    if len(footprint.steps) > PAIRS:
        raise TooManyStepsError(f"at most {PAIRS} steps, found {len(footprint.steps)}")
    row = [0] * SHAPE_COLUMNS
    row[RUN], row[REPEATS] = footprint.run, int(footprint.repeats)
    row[IS_LONG] = int(footprint.runs > LARGEST_RUNS)
    row[STEPS : STEPS + 2 * len(footprint.steps)] = [n for pair in footprint.steps for n in pair]
    return [footprint.low - access.start, footprint.high - access.start, *row]


def _give_cells(places: Integers, mine: Integers, cells: int) -> int:
    """Number the cells of the places of one buffer, behind the others; return how many are all."""
    if not len(mine):
        return cells
    low, high = places[mine, LOW], places[mine, HIGH]
    spans, extent = high - low, int(high.max() - low.min())
    size = cell_size(spans.tolist())
    size = max(size, int(spans.max()) // MOST_CELLS, extent // (CELLS_PER_PLACE * len(mine)))
    first, last = low // size, (high - 1) // size
    base = cells - int(first.min())
    places[mine, CELL], places[mine, CELL_STOP] = base + first, base + last + 1
    return base + int(last.max()) + 1
