"""Who last wrote and who has since read which bytes: records in cells, for one pass over a program.

A cell is an equal piece of a buffer's address range, over all partitions. Records say nothing about
order; the pass (`sim.isa.hazards`) visits instructions in an order they can start in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sim.isa.access import Access, Buffer
from sim.isa.footprint import Footprint

SMALLEST_CELL = 256
CELLS_PER_SPAN = 4
MOST_CELLS = 64
"""A record in more cells than this is kept in a list of its own, looked at by every access."""
INITIAL = -1
"""The instruction of what lies in memory at cycle 0."""


@dataclass(slots=True, eq=False)
class Record:
    """An instruction's read or write. visit: its place in the pass; live: not yet overwritten."""

    index: int
    visit: int
    access: Access
    footprint: Footprint
    live: bool = True
    links: list[int] = field(default_factory=list)


class _Cell:
    __slots__ = ("reads", "version", "writes")

    def __init__(self) -> None:
        self.writes: list[Record] = []
        self.reads: list[Record] = []
        self.version = 0


class Shadow:
    """All live records of all buffers, and the footprints of accesses."""

    def __init__(self, accesses: Iterable[Access]) -> None:
        self.footprints: dict[Access, Footprint] = {}
        spans: dict[Buffer, list[int]] = defaultdict(list)
        for access in accesses:
            footprint = self.footprint(access)
            spans[access.buffer].append(footprint.high - footprint.low)
        self._size = {buffer: _cell_size(found) for buffer, found in spans.items()}
        self._cells: dict[tuple[Buffer, int], _Cell] = defaultdict(_Cell)

    def footprint(self, access: Access) -> Footprint:
        """Return the footprint of an access."""
        found = self.footprints.get(access)
        if found is None:
            found = self.footprints[access] = Footprint.of(access)
        return found

    def cells(self, footprint: Footprint) -> list[_Cell]:
        """Return the cells to look at for a footprint: its own, and that of very large records."""
        size = self._size[footprint.buffer]
        first, last = footprint.low // size, (footprint.high - 1) // size
        if last - first >= MOST_CELLS:
            return [cell for (buffer, _), cell in self._cells.items() if buffer is footprint.buffer]
        found = [self._cells[footprint.buffer, number] for number in range(first, last + 1)]
        return [*found, self._cells[footprint.buffer, -1]]

    def _homes(self, footprint: Footprint) -> list[_Cell]:
        """Return the cells a record of this footprint is kept in."""
        size = self._size[footprint.buffer]
        first, last = footprint.low // size, (footprint.high - 1) // size
        if last - first >= MOST_CELLS:
            return [self._cells[footprint.buffer, -1]]
        return [self._cells[footprint.buffer, number] for number in range(first, last + 1)]

    def version(self, footprint: Footprint) -> int:
        """Return a number that grows with every write that may touch the footprint."""
        return sum(cell.version for cell in self.cells(footprint))

    def writes_at(self, footprint: Footprint) -> Iterator[Record]:
        """Yield every live write that meets the footprint, once."""
        return _meeting(footprint, [cell.writes for cell in self.cells(footprint)])

    def reads_at(self, footprint: Footprint) -> Iterator[Record]:
        """Yield every live read that meets the footprint, once."""
        return _meeting(footprint, [cell.reads for cell in self.cells(footprint)])

    def add_read(self, record: Record) -> None:
        """Keep a read."""
        for cell in self._homes(record.footprint):
            cell.reads.append(record)

    def add_write(self, record: Record, met: Iterable[Record] = ()) -> None:
        """Keep a write; of the records it met, those it covers entirely are dropped."""
        footprint = record.footprint
        dropped = False
        for other in met:
            if footprint.covers(other.footprint):
                other.live, dropped = False, True
        if dropped:
            for cell in self.cells(footprint):
                cell.writes = [kept for kept in cell.writes if kept.live]
                cell.reads = [kept for kept in cell.reads if kept.live]
        for cell in self._homes(footprint):
            cell.writes.append(record)
            cell.version += 1


def _meeting(footprint: Footprint, lists: list[list[Record]]) -> Iterator[Record]:
    first, stop, low, high = footprint.first, footprint.stop, footprint.low, footprint.high
    seen: set[int] = set()
    for records in lists:
        for record in records:
            other = record.footprint
            if other.low >= high or low >= other.high or other.first >= stop or first >= other.stop:
                continue
            if len(lists) > 1:
                if id(record) in seen:
                    continue
                seen.add(id(record))
            if footprint.meets(other):
                yield record


def _cell_size(spans: list[int]) -> int:
    """Return a size, such that nearly all accesses touch a few cells."""
    large = sorted(spans)[len(spans) * 19 // 20]
    return max(SMALLEST_CELL, 1 << (max(1, large // CELLS_PER_SPAN) - 1).bit_length())
