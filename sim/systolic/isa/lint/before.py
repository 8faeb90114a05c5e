"""Is what two accesses do to the bytes that they share surely in order? By clocks, and otherwise.

Most pairs are, by their instructions' clocks alone (`systolic.isa.lint.order`). Here are the other
reasons too: the order of the array's queue, rows and partitions of a multiply, ports.
"""

from __future__ import annotations

import numpy as np

from systolic.isa.access import Access
from systolic.isa.footprint import Footprint
from systolic.isa.instruction import MatMul
from systolic.isa.lint.last_accesses import INITIAL, NotedAccess, Touched
from systolic.isa.lint.order import Order
from systolic.isa.lint.overtaking import Overtaking


class Before:
    """Answers for one program; notes on records what it has found out."""

    def __init__(self, order: Order) -> None:
        self._order, self._structure = order, order.structure
        self._instructions = order.structure.program.instructions
        self._overtaking = Overtaking(order)

    def is_written(self, record: NotedAccess, index: int, place: Touched, *, reading: bool) -> bool:
        """Return whether the words that two accesses share are surely written before `index`."""
        first = record.index
        if first == INITIAL or self._order.done_before(first, index):
            record.note_done_for(1 << self._structure.queue_of[index])
            return True
        if record.links and any(self._order.done_before(link, index) for link in record.links):
            return True
        if self._structure.queue_of[first] == self._structure.queue_of[index]:
            kind = self._kind_of(index)
            if kind == "array":
                return True
            if kind == "engine" and not reading:
                return self._overtaking.is_excluded(first, index)
            return False
        instruction = self._instructions[first]
        if not isinstance(instruction, MatMul):
            return False
        columns = self._order.columns_before(first, index)
        if columns and min(record.place.footprint.stop, place.footprint.stop) <= columns:
            return True
        rows = self._order.rows_before(first, index)
        return rows > 0 and _last_place(record.place.access, place.footprint) < rows

    def is_read(self, record: NotedAccess, index: int, place: Touched) -> bool:
        """Return whether a recorded read surely was made before `index` writes."""
        if self._order.read_before(record.index, index):
            record.note_done_for(1 << self._structure.queue_of[index])
            return True
        instruction = self._instructions[record.index]
        if not isinstance(instruction, MatMul):
            return False
        rows = self._order.rows_before(record.index, index)
        return rows > 0 and _last_place(record.place.access, place.footprint) < rows

    def link(self, record: NotedAccess, index: int) -> None:
        """Note that `index` is done only after `record`, although no semaphore says so."""
        if record.index >= 0 and self._kind_of(index) == "engine":
            queue_of = self._structure.queue_of
            same = queue_of[record.index] == queue_of[index]
            if same and not self._order.done_before(record.index, index):
                record.links.append(index)

    def _kind_of(self, index: int) -> str:
        return self._structure.kinds[self._structure.queue_of[index]]


def _last_place(access: Access, footprint: Footprint) -> int:
    """Return the number, in the access's order, of the last element that the footprint touches."""
    size = access.element_bytes
    if len(access.pattern) == 1 and access.pattern[0][0] > 0 and footprint.is_dense:
        step, count = access.pattern[0]
        return min(count - 1, (footprint.high - 1 - access.start) // (step * size))
    offsets = access.offsets() * size
    touched = np.zeros(len(offsets), np.bool_)
    for byte in range(size):
        touched |= footprint.holds(offsets + byte)
    places = np.flatnonzero(touched)
    return int(places[-1]) if len(places) else -1
