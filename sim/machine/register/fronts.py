"""Weights on their way: each lane of a read is a front that passes through the grid.

A front carries the elements of one column (left path) or one row (top path), and leaves one in
every PE it passes, a step in every hop. Nothing stops it once it is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Start = tuple[int, int, int]
"""First PE (flat index), first element (index into the carried values), number of elements."""


class _Lot:
    """Fronts that step in the same cycles: where each is, and what it leaves there."""

    def __init__(self, capacity: int, steps: Array) -> None:
        self.count = 0
        self._at = np.zeros((2, capacity), np.int64)
        self._steps = steps
        self._ids: list[int] = []
        self._place: dict[int, int] = {}

    def add(self, number: int, pe: int, element: int) -> None:
        place = self.count
        if place == self._at.shape[1]:
            self._at = np.concatenate([self._at, np.zeros_like(self._at)], axis=1)
        self._at[0, place] = pe
        self._at[1, place] = element
        self._ids.append(number)
        self._place[number] = place
        self.count += 1

    def remove(self, number: int) -> None:
        """Close the gap with the last front; their order means nothing."""
        place, last = self._place.pop(number), self._ids.pop()
        self.count -= 1
        if last != number:
            self._at[:, place] = self._at[:, self.count]
            self._ids[place] = last
            self._place[last] = place

    def leave(self, plane: Array, values: Array) -> None:
        """Write every front's element into its PE."""
        at = self._at[:, : self.count]
        plane[at[0]] = values[at[1]]

    def step(self) -> None:
        """Move every front on to its next PE."""
        at = self._at[:, : self.count]
        np.add(at, self._steps, at)


class Fronts:
    """All weights in transit. `hop` and `cell` are those along the front's way.

    Args:
        size: most elements a front carries.
        hop: cycles between the cells it passes.
        cell: PEs of a cell it passes at once.
        stride: flat distance from a PE to the next one it passes.
        is_tagged: also note in each PE whether its weight is an integer.

    """

    def __init__(self, size: int, hop: int, cell: int, stride: int, is_tagged: bool) -> None:
        self._size, self._hop, self._cell, self._stride = size, hop, cell, stride
        steps = np.array([[cell * stride], [cell]], np.int64)
        self._lots = [_Lot(64, steps) for _ in range(hop)]
        self._values = np.zeros(64 * size, np.int32)
        self._tags = np.zeros(64 * size, bool)
        self._is_tagged = is_tagged
        self._free = list(range(64))
        self._starting: dict[int, list[tuple[int, Start]]] = {}
        self._ending: dict[int, list[int]] = {}
        self._slot_of: dict[int, int] = {}
        self._users: dict[int, int] = {}
        self._fronts = 0

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is on its way."""
        return not self._users

    def slot(self, is_integer: bool) -> tuple[int, Array]:
        """Return a free slot and its place [size] for values, as bits, to be filled."""
        if not self._free:
            held = len(self._values) // self._size
            self._values = np.concatenate([self._values, np.zeros_like(self._values)])
            self._tags = np.concatenate([self._tags, np.zeros_like(self._tags)])
            self._free.extend(range(held, 2 * held))
        slot = self._free.pop()
        place = slice(slot * self._size, (slot + 1) * self._size)
        if self._is_tagged:
            self._tags[place] = is_integer
        return slot, self._values[place]

    def carried(self) -> Array:
        """Return the values of all fronts on their way, as bits, in no order."""
        used = sorted(self._users)
        return self._values.reshape(-1, self._size)[used]

    def send(self, slot: int, pe: int, count: int, arrival: int) -> None:
        """Let the first `count` values reach their PEs, the first of which is `pe`, from `arrival`.

        The elements of one cell arrive together: each of them is a front of its own.
        """
        starts = self._starting.setdefault(arrival, [])
        lanes = min(self._cell, count)
        for lane in range(lanes):
            elements = -(-(count - lane) // self._cell)
            first = slot * self._size + lane
            starts.append((slot, (pe + lane * self._stride, first, elements)))
        self._users[slot] = lanes

    def step(self, cycle: int, plane: Array, tags: Array) -> None:
        """Write what arrives in this cycle into `plane` (flat bits); note its type in `tags`."""
        lot = self._lots[cycle % self._hop]
        for slot, start in self._starting.pop(cycle, ()):
            self._begin(lot, cycle, slot, start)
        if lot.count:
            lot.leave(plane, self._values)
            if self._is_tagged:
                lot.leave(tags, self._tags)
            lot.step()
        for number in self._ending.pop(cycle, ()):
            self._end(lot, number)

    def _begin(self, lot: _Lot, cycle: int, slot: int, start: Start) -> None:
        pe, element, count = start
        number = self._fronts = self._fronts + 1
        lot.add(number, pe, element)
        self._slot_of[number] = slot
        self._ending.setdefault(cycle + self._hop * (count - 1), []).append(number)

    def _end(self, lot: _Lot, number: int) -> None:
        lot.remove(number)
        slot = self._slot_of.pop(number)
        self._users[slot] -= 1
        if not self._users[slot]:
            del self._users[slot]
            self._free.append(slot)
