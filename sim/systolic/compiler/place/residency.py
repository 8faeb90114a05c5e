"""The third pass: the times and places of tiles in the state buffer, and which tile must leave.

All uses of every tile are known beforehand. So a tile's memory is given back after the last use. If
memory is full, the tile that is needed again latest leaves (Belady): it is forgotten if DRAM has
it, and spilled otherwise. Not here: the transfers (`schedule` makes them).

A tile can only be brought when the bytes for it are no longer in use. If tiles are used in turn,
over and over, the tile that is needed again latest is the one that was used last. So each new tile
would get bytes that have just been in use, and no tile could be brought ahead. With `rest_tasks` a
tile that has not been used for this many tasks leaves before any other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from systolic.compiler.ir.dependencies import Ref, Region
from systolic.compiler.ir.tasks import MatrixTile, Task
from systolic.compiler.place.free_bytes import ALIGNMENT, Room, Wish, in_words
from systolic.errors import RoomError
from systolic.spans import Interval


@dataclass(slots=True)
class Resident:
    """A tile in the state buffer: its byte in each partition, and whether DRAM has no copy.

    lasting: its bytes are not given back, since they may share a word with a neighbour's.
    """

    tile: MatrixTile
    start: int
    size_bytes: int
    region: Region
    dirty: bool
    lasting: bool = False

    def overlaps(self, place: Interval) -> bool:
        """Return whether some of the tile's bytes lie in a place, both in whole words."""
        return self.start < place.stop and place.first < self.start + in_words(self.size_bytes)

    def mark_dirty(self) -> None:
        """Note that the tile is written here, so that DRAM has no copy of it as it is."""
        self.dirty = True


@dataclass(frozen=True, slots=True)
class Stay:
    """A tile's stay in the state buffer, for printing: bytes, and tasks from first to last."""

    tile: MatrixTile
    start: int
    size_bytes: int
    first_task: int
    last_task: int


@dataclass(slots=True)
class Residency:
    """Tiles in the state buffer while tasks are gone through one by one.

    rest_tasks: for how many tasks a tile should not have been used when it leaves. piece_of: the
    bytes of a tile that are waited for by themselves; 0: a tile is waited for as a whole.
    """

    room: Room
    wish_of: Callable[[MatrixTile], Wish]
    size_of: Callable[[MatrixTile], int]
    where: str
    rest_tasks: int = 0
    piece_of: Callable[[MatrixTile], int] = lambda _: 0
    resident: dict[MatrixTile, Resident] = field(default_factory=dict)
    uses: dict[MatrixTile, deque[int]] = field(default_factory=dict)
    task: int = 0
    stays: list[Stay] = field(default_factory=list)
    _since: dict[MatrixTile, int] = field(default_factory=dict)
    _last_use: dict[MatrixTile, int] = field(default_factory=dict)

    def plan(self, tasks: Iterable[Task], kept: Iterable[MatrixTile]) -> None:
        """Note the uses of each tile; tiles to be kept are used again at the very end."""
        number = -1
        for number, task in enumerate(tasks):
            for tile in dict.fromkeys((*task.reads, *task.writes)):
                self.uses.setdefault(tile, deque()).append(number)
        for tile in kept:
            self.uses.setdefault(tile, deque()).append(number + 1)

    def begin(self, task: int) -> None:
        """Begin with the next task; the one behind the last is the end."""
        self.task = task

    def holds(self, tile: MatrixTile, *, write: bool) -> bool:
        """Return whether a tile is here; if it is to be written, DRAM's copy is now out of date."""
        resident = self.resident.get(tile)
        if resident is not None and write:
            resident.mark_dirty()
        return resident is not None

    def place(
        self,
        tile: MatrixTile,
        *,
        dirty: bool,
        wish: Wish | None = None,
    ) -> Resident | None:
        """Give the tile a place; None if it has no room (`victim`).

        A tile that may lie in one place only stays there.
        """
        size, own = self.size_of(tile), self.wish_of(tile)
        found = self.room.take(size, own if own.only or wish is None else wish)
        if found is None:
            return None
        start, users = found
        region = self._region(tile, start, users)
        self.resident[tile] = Resident(tile, start, size, region, dirty, lasting=own.lasting)
        self._since[tile] = self.task
        return self.resident[tile]

    def _region(self, tile: MatrixTile, start: int, users: Iterable[Ref]) -> Region:
        """Return the region of a tile whose bytes these instructions have used."""
        place = Interval(start, start + self.size_of(tile))
        pieces = self.piece_of(tile)
        return Region(f"sb{start}", list(users), place=place, piece_bytes=pieces)

    def place_together(
        self, tiles: Sequence[MatrixTile], *, dirty: bool, wish: Wish | None = None
    ) -> bool:
        """Place equally large tiles one after another; False if they have no room so."""
        size = self.size_of(tiles[0])
        found = self.room.take(size * len(tiles), wish or Wish("low"))
        if found is None:
            return False
        for number, tile in enumerate(tiles):
            start = found[0] + number * size
            region = self._region(tile, start, found[1])
            self.resident[tile] = Resident(tile, start, size, region, dirty, bool(size % ALIGNMENT))
            self._since[tile] = self.task
        return True

    def fix(
        self, starts: Mapping[MatrixTile, int], size_bytes: int, wish: Wish, *, forever: bool
    ) -> bool:
        """Place tiles at their bytes in a piece of `size_bytes`; False if there is no room.

        forever: the bytes are never given back.
        """
        found = self.room.take(size_bytes, wish)
        if found is None:
            return False
        for tile, first in starts.items():
            start, size = found[0] + first, self.size_of(tile)
            lasting = forever or bool(start % ALIGNMENT or size % ALIGNMENT)
            region = self._region(tile, start, found[1])
            self.resident[tile] = Resident(tile, start, size, region, dirty=True, lasting=lasting)
            self._since[tile] = self.task
        return True

    def victim(
        self, pinned: Collection[MatrixTile], instead: MatrixTile | None = None
    ) -> Resident | None:
        """Return the tile to leave: the one that is needed again latest (Belady); None if none may.

        Tiles that have rested leave before those that have not. instead: the tile that has no room;
        if it may lie in one place only, what lies there leaves.
        """
        others = [r for r in self.resident.values() if r.tile not in pinned and not r.lasting]
        if instead is not None and (own := self.wish_of(instead)).only:
            others = [r for r in others if any(map(r.overlaps, own.ranges))]
        others.reverse()  # of tiles that are needed again together, the one that came last leaves

        if not self.rest_tasks:  # all have rested
            return max(others, key=lambda r: self._next_use(r.tile), default=None)
        return max(
            others, key=lambda r: (self._has_rested(r.tile), self._next_use(r.tile)), default=None
        )

    def _has_rested(self, tile: MatrixTile) -> bool:
        """Return whether a tile has not been used for `rest_tasks`."""
        last = max(self._since[tile], self._last_use.get(tile, 0))
        return self.task - last >= self.rest_tasks

    def no_room(self, what: str, size: int, pinned: Collection[MatrixTile]) -> RoomError:
        """Return the error for `size` bytes that have no room beside the tiles used with them.

        Its numbers add up: the bytes needed, rounded to whole words, exceed the bytes that are free
        or the largest free piece.
        """
        held = [self.resident[t] for t in pinned if t in self.resident]
        beside = sum(in_words(r.size_bytes) for r in held if not r.lasting)
        rest = self.room.size_bytes - self.room.free_bytes - beside
        text = f"{self.where} has no room for {what}: it needs {in_words(size)} bytes per partition"
        text += f" ({size} in whole words of {ALIGNMENT})" if size % ALIGNMENT else ""
        text += f" beside {beside} of the tiles used with it"
        text += f" and {rest} of what stays (identities, blocks)" if rest else ""
        text += f", found {self.room.size_bytes}"
        if in_words(size) + beside + rest <= self.room.size_bytes:
            text += f", of which the largest piece free is {self.room.largest_piece} bytes"
        return RoomError(text)

    def _next_use(self, tile: MatrixTile) -> int:
        later = self.uses.get(tile)
        return later[0] if later else 1 << 60

    def forget(self) -> None:
        """Begin again with an empty state buffer, whose bytes have no users."""
        self.room = Room(self.room.size_bytes, self.room.bank_bytes)
        self.resident.clear()
        self._since.clear()

    def drop(self, resident: Resident) -> None:
        """Take a tile out and give its bytes back."""
        tile = resident.tile
        del self.resident[tile]
        if not resident.lasting:
            self.room.give_back(resident.start, resident.size_bytes, resident.region.users())
        self.stays.append(
            Stay(tile, resident.start, resident.size_bytes, self._since.pop(tile), self.task)
        )

    def used(self, tile: MatrixTile) -> bool:
        """Note that the present task has used a tile; return whether this was its last use."""
        self._last_use[tile] = self.task
        later = self.uses[tile]
        if later and later[0] == self.task:
            later.popleft()
        return not later

    def users(self, tile: MatrixTile) -> list[Ref]:
        """Return the instructions that use a tile's bytes."""
        return self.resident[tile].region.users()
