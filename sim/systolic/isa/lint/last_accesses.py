"""The last writes of all bytes and the reads since then, for one pass over a program.

The records are kept in cells, which are equal pieces of a buffer's address range, over all
partitions. Records say nothing about order; the pass (`systolic.isa.lint.races`) visits
instructions in an order in which they can start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from systolic.isa.access import Access, Buffer
from systolic.isa.footprint import Footprint

SMALLEST_CELL = 256
CELLS_PER_SPAN = 2
"""Into how many cells a long access falls. Of 1, 2, 4, 8 and 16 the networks look at the fewest
records and cells with 2, about half as many as with 16; products need least with 1.
"""
MOST_CELLS = 64
"""A record in more cells than this is kept in a separate list, which every access looks at."""
TOLERATED_DEAD = 8
WIDE = -1
INITIAL = -1
"""The number that stands for the instruction of contents that memory has at cycle 0."""


@dataclass(slots=True, eq=False)
class NotedAccess:
    """An instruction's read or write.

    visit: its place in the pass. live: it has not been overwritten. links: later instructions of
    the same engine that are done only after this one, although no semaphore says so. done_for: the
    queues, as bits, with an instruction that was met and starts after this write is done, or this
    read is made, and so do all behind it.
    """

    index: int
    visit: int
    place: Touched
    live: bool = True
    links: list[int] = field(default_factory=list)
    done_for: int = 0

    def moves_to(self, index: int, visit: int) -> None:
        """Stand for a later read of the same place."""
        self.index, self.visit, self.done_for = index, visit, 0

    def note_done_for(self, queue: int) -> None:
        """Note a queue, as a bit, that from now on starts only what comes after this access."""
        self.done_for |= queue

    def overwrite(self) -> None:
        """Let the record die; its cells sweep it later."""
        self.live = False
        for cell in self.place.homes:
            cell.dead += 1


Bounds = tuple[int, int, int, int, bool]
"""The box of a footprint (first, stop, low, high), and whether it is dense."""
Boxed = tuple[int, int, int, int, bool, NotedAccess]
"""A record behind its box: most records that do not meet differ in the box already."""


class Cell:
    """The records of a piece of a buffer.

    version: how many writes there were. dead: how many records have been overwritten, but are
    still kept.
    """

    __slots__ = ("dead", "reads", "version", "writes")

    def __init__(self) -> None:
        self.writes: list[Boxed] = []
        self.reads: list[Boxed] = []
        self.version = 0
        self.dead = 0

    def add_write(self, boxed: Boxed) -> None:
        """Keep a write, which makes a new version."""
        if self.dead > TOLERATED_DEAD:
            self._sweep()
        self.writes.append(boxed)
        self.version += 1

    def _sweep(self) -> None:
        """Forget the records that have been overwritten."""
        self.writes = [boxed for boxed in self.writes if boxed[5].live]
        self.reads = [boxed for boxed in self.reads if boxed[5].live]
        self.dead = 0


@dataclass(slots=True, eq=False)
class Touched:
    """An access, its footprint, and the cells that keep its records.

    box: of the footprint. homes: the cells that keep its records. cells: those that may hold
    records of the same bytes. readers: for each queue, the last read of exactly this access, and
    the version that it saw.
    """

    access: Access
    footprint: Footprint
    box: Bounds
    homes: list[Cell] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    readers: dict[int, tuple[int, NotedAccess | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, access: Access) -> Touched:
        """Return the place of an access, without cells."""
        found = Footprint.of(access)
        return cls(access, found, (found.first, found.stop, found.low, found.high, found.is_dense))


class Shadow:
    """All live records of all buffers.

    First all accesses that will be looked at are named (`places_of`), then their places get cells
    (`lay_out`). places: of these accesses, each once.
    """

    def __init__(self) -> None:
        self.places: dict[Access, Touched] = {}
        self._size: dict[Buffer, int] = {}
        self._cells: dict[Buffer, dict[int, Cell]] = {b: defaultdict(Cell) for b in Buffer}

    def places_of(self, accesses: Iterable[Access]) -> list[Touched]:
        """Return the places of some accesses: one of all that are equal."""
        known, new = self.places.get, self._new_place
        return [known(access) or new(access) for access in accesses]

    def _new_place(self, access: Access) -> Touched:
        place = self.places[access] = Touched.of(access)
        return place

    def lay_out(self) -> None:
        """Give all places their cells."""
        spans: dict[Buffer, list[int]] = defaultdict(list)
        for place in self.places.values():
            spans[place.access.buffer].append(place.footprint.high - place.footprint.low)
        self._size = {buffer: cell_size(found) for buffer, found in spans.items()}
        for place in self.places.values():
            self._give_homes(place)
        for place in self.places.values():
            place.cells = self._near(place)

    def forget(self) -> None:
        """Drop all records: they, their places and their cells refer to each other in cycles."""
        for place in self.places.values():
            place.readers.clear()
        for cells in self._cells.values():
            for cell in cells.values():
                cell.writes, cell.reads = [], []

    def _give_homes(self, place: Touched) -> None:
        buffer, footprint = place.access.buffer, place.footprint
        size, cells = self._size[buffer], self._cells[buffer]
        first, last = footprint.low // size, (footprint.high - 1) // size
        numbers = range(first, last + 1) if last - first < MOST_CELLS else (WIDE,)
        place.homes += [cells[number] for number in numbers]

    def _near(self, place: Touched) -> list[Cell]:
        """Return the cells that may hold records of the same bytes."""
        cells = self._cells[place.access.buffer]
        wide = cells.get(WIDE)
        if wide is None:
            return place.homes
        return list(cells.values()) if place.homes[0] is wide else [*place.homes, wide]

    def version(self, place: Touched) -> int:
        """Return a number that grows with every write that may touch the place."""
        return sum([cell.version for cell in place.cells])

    def writes_at(self, place: Touched) -> list[NotedAccess]:
        """Return every live write of some of the same bytes."""
        return _meeting(place, [cell.writes for cell in place.cells])

    def reads_at(self, place: Touched) -> list[NotedAccess]:
        """Return every live read of some of the same bytes."""
        return _meeting(place, [cell.reads for cell in place.cells])

    def add_read(self, record: NotedAccess) -> None:
        """Keep a read."""
        boxed = *record.place.box, record
        for cell in record.place.homes:
            cell.reads.append(boxed)

    def add_write(self, record: NotedAccess, met: Iterable[NotedAccess] = ()) -> None:
        """Keep a write; the records that it covers entirely are dropped."""
        footprint = record.place.footprint
        for other in met:
            if footprint.covers(other.place.footprint):
                other.overwrite()
        boxed = *record.place.box, record
        for cell in record.place.homes:
            cell.add_write(boxed)


def _meeting(place: Touched, lists: list[list[Boxed]]) -> list[NotedAccess]:
    """Return the live records of some lists that have a byte in common with a place, once."""
    first, stop, low, high, is_dense = place.box
    runs_meet = place.footprint.runs_meet
    found = [
        record
        for records in lists
        for a, b, c, d, dense, record in records
        if c < high and low < d and a < stop and first < b and record.live
        # Both ends of a box are touched, so most sets meet one that is dense: no need to ask.
        if (is_dense and (dense or low <= c or d <= high))
        or (dense and (c <= low or high <= d))
        or runs_meet(record.place.footprint)
    ]
    return found if len(lists) == 1 else list(dict.fromkeys(found))


def cell_size(spans: list[int]) -> int:
    """Return a size such that nearly all accesses touch a few cells."""
    large = sorted(spans)[len(spans) * 19 // 20]
    return max(SMALLEST_CELL, 1 << (max(1, large // CELLS_PER_SPAN) - 1).bit_length())
