"""Is a program surely free of hazards? The pass of `races` in compiled loops, for much work.

They compare all accesses that meet, and leave open what clocks alone do not show to be in order, or
covered. That is looked at here, one by one. What does not hold then may be a finding, and
`systolic.isa.lint.races` looks through the whole program to say so: findings are made there alone.
"""

# ruff: noqa: I001 (column names, as many as fit on a line)
from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from systolic.arrays import Integers, Mask
from systolic.isa.access import Access
from systolic.isa.effects import Effects, reads_its_target
from systolic.isa.footprint import uncovered
from systolic.isa.instruction import Instruction, MatMul
from systolic.isa.lint.access_table import AccessTable, TooManyStepsError
from systolic.isa.lint.before import Before
from systolic.isa.lint.last_accesses import NotedAccess, Touched
from systolic.isa.lint.meetings_numba import (
    COUNTS, FOUND, FOUND_COLUMNS, IN_RESULT, NOT_COVERED, READ_AFTER_WRITE, RECORD_COLUMNS, STOP,
    WRITE_AFTER_READ, Meetings, Sets, Visits, visit_all,
)  # fmt: skip
from systolic.isa.lint.order import Order

ROOM = 4
"""Room for open questions of each access, and for places that answer them."""


def is_clean(
    order: Order,
    before: Before,
    visits: Sequence[int],
    effects: Effects,
    inputs: Iterable[Access] | None,
) -> bool:
    """Return True only if the pass of `races` finds nothing; it takes the same arguments.

    False says nothing: there may be a finding, or too much is left open.
    """
    try:
        table = AccessTable.of(effects, inputs or ())
    except TooManyStepsError:
        return False
    visited = _visits(order, visits, table, are_known=inputs is not None)
    notes = _notes(table, len(order.structure.names))
    if not visit_all(visited, notes):
        return False
    found = notes.found[: notes.counts[FOUND]].tolist()
    return _Open(table, before, notes.covers).is_well(found)


def _visits(order: Order, visits: Sequence[int], table: AccessTable, *, are_known: bool) -> Visits:
    structure = order.structure
    work = structure.program.instructions
    of_array = np.array([kind == "array" for kind in structure.kinds])
    return Visits(
        order=np.array(visits, np.int64),
        first=table.first,
        first_write=table.first_write,
        place_of=table.place_of,
        inputs=table.inputs,
        are_known=are_known,
        sets=Sets(table.places, table.shapes),
        clock=order.clock,
        known=order.known,
        queue=structure.queue,
        after_reads=structure.after_reads,
        of_array=of_array[structure.queue],
        multiplies=np.array([isinstance(each, MatMul) for each in work]),
        reads_target=_reading_targets(work, table),
    )


def _reading_targets(work: Sequence[Instruction], table: AccessTable) -> Mask:
    """Return which instructions take what they write into account, of those that write sums."""
    found = np.zeros(len(work), np.bool_)
    in_result = np.append(table.places[table.place_of, IN_RESULT], 0)
    writing = (in_result[table.first_write] == 1) & (table.first_write < table.first[1:])
    for index in np.flatnonzero(writing).tolist():
        found[index] = reads_its_target(work[index])
    return found


def _notes(table: AccessTable, queues: int) -> Meetings:
    """Return notes without a record, with room for the records of all accesses."""
    count, places = len(table.place_of) + len(table.inputs), len(table.places)
    partitions = int(table.places[:, STOP].max(initial=0))
    return Meetings(
        counts=np.zeros(COUNTS, np.int64),
        records=np.empty((count, RECORD_COLUMNS), np.int64),
        last=np.full((2, table.cells), -1, np.int64),
        links=np.empty((table.most_links(), 2), np.int64),
        last_read=np.full((places, queues), -1, np.int32),
        is_covered=np.zeros(places, np.bool_),
        lanes=np.zeros(partitions, np.int64),
        met=np.empty((2, count), np.int64),
        fillers=np.empty(count, np.int64),
        found=np.empty((ROOM * count, FOUND_COLUMNS), np.int64),
        covers=np.empty(ROOM * count, np.int64),
    )


class _Open:
    """What has been left open, in the order of the visits."""

    def __init__(self, table: AccessTable, before: Before, covers: Integers) -> None:
        self._table, self._before, self._covers = table, before, covers
        self._places: dict[int, Touched] = {}
        self._writes: dict[int, NotedAccess] = {}

    def is_well(self, found: list[list[int]]) -> bool:
        """Return whether nothing of what has been found is a hazard."""
        return all(
            self._is_covered(first, stop, access)
            if kind == NOT_COVERED
            else self._is_in_order(kind, first, stop, access)
            for kind, first, stop, access in found
        )

    def _is_covered(self, first: int, stop: int, access: int) -> bool:
        """Return whether the places from `first` to `stop` in `covers` have all that is read."""
        covers = [self._place(place).footprint for place in self._covers[first:stop].tolist()]
        wanted = self._place(int(self._table.place_of[access])).footprint
        return uncovered(wanted, covers) is None

    def _is_in_order(self, kind: int, access: int, index: int, later: int) -> bool:
        """Return whether two accesses do not meet, or surely are in order."""
        mine = self._place(int(self._table.place_of[access]))
        place = self._place(int(self._table.place_of[later]))
        if not mine.footprint.meets(place.footprint):
            return True
        by = int(np.searchsorted(self._table.first, later, "right")) - 1
        if kind == WRITE_AFTER_READ:
            return self._before.is_read(NotedAccess(index, 0, mine), by, place)
        record = self._writes.get(access)
        if record is None:
            record = self._writes[access] = NotedAccess(index, 0, mine)
        reading = kind == READ_AFTER_WRITE
        is_written = self._before.is_written(record, by, place, reading=reading)
        if is_written and not reading:
            self._before.link(record, by)
        return is_written

    def _place(self, number: int) -> Touched:
        found = self._places.get(number)
        if found is None:
            found = self._places[number] = Touched.of(self._table.accesses[number])
        return found
