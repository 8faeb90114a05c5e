"""Weights on their way: each lane of a read is a front that passes through the grid.

A front carries the elements of one column (left path) or one row (top path), and leaves one in
every PE it passes, a step in every hop. Nothing stops it once it is read.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from systolic.arrays import Array

FEW = 64


class _Lot:
    """Fronts that step in the same cycles: the PE each is at, and the value it leaves there.

    The fronts are at first <= place < last, in the order of `numbers`. The other places hold no
    front; what they hold steps along too, and means nothing.
    """

    def __init__(self, pe_step: int, value_step: int) -> None:
        self.first = self.last = 0
        self.numbers: deque[int] = deque()
        self._step_sizes = pe_step, value_step
        self._hold(4 * FEW)

    def _hold(self, room: int) -> None:
        self._room = room
        self._at = np.zeros(2 * room, np.int64)
        self._pe, self._value = self._at[:room], self._at[room:]
        self._steps = np.repeat(np.array(self._step_sizes), room)

    def add(self, number: int, pe: int, value: int) -> None:
        """Begin with that PE and that value (flat indices)."""
        if self.last == self._room:
            self._make_room()
        self._pe[self.last], self._value[self.last] = pe, value
        self.numbers.append(number)
        self.last += 1

    def _make_room(self) -> None:
        """Move all to the first places, of twice as many if more than half are taken."""
        pe, value = self._pe[self.first :].copy(), self._value[self.first :].copy()
        if 2 * len(pe) > self._room:
            self._hold(2 * self._room)
        self.first, self.last = 0, len(pe)
        self._pe[: self.last], self._value[: self.last] = pe, value

    def remove(self, number: int) -> None:
        """Take out a front: nearly always the oldest, or the oldest takes its place."""
        numbers, first = self.numbers, self.first
        oldest = numbers.popleft()
        if oldest != number:
            index = numbers.index(number)
            numbers[index] = oldest
            place = first + 1 + index
            self._pe[place], self._value[place] = self._pe[first], self._value[first]
        self.first = first + 1

    def leave(self, plane: Array, values: Array) -> None:
        """Write every front's value into its PE."""
        first, last = self.first, self.last
        plane[self._pe[first:last]] = values[self._value[first:last]]

    def leave_and_step(self, plane: Array, values: Array) -> None:
        """Write every front's value into its PE, and move every front on to its next PE."""
        first, last = self.first, self.last
        plane[self._pe[first:last]] = values[self._value[first:last]]
        np.add(self._at, self._steps, self._at)


@dataclass(frozen=True, slots=True)
class GridPath:
    """How fronts pass through a grid.

    size: most elements a front carries; hop: cycles from cell to cell; cell: PEs of a cell, which
    it passes at once; stride: flat distance from a PE to the next one.
    """

    size: int
    hop: int
    cell: int
    stride: int


class Fronts:
    """All weights in transit. `is_tagged`: also note in each PE whether its weight is an integer.

    The elements that reach one cell arrive together: each of them begins a front of its own.
    """

    def __init__(self, way: GridPath, is_tagged: bool) -> None:
        self._way = way
        self._size, self._hop, self._cell = way.size, way.hop, way.cell
        step = way.cell * way.stride
        self._lots = [_Lot(step, way.cell) for _ in range(way.hop)]
        self._is_tagged = is_tagged
        self._slots = FEW
        self._free = list(range(FEW))
        self._hold(np.zeros(FEW * way.size, np.int32), np.zeros(FEW * way.size, bool))
        self._starting: dict[int, list[tuple[int, int, int, int]]] = {}
        self._ending: dict[int, list[int]] = {}

    def _hold(self, values: Array, tags: Array) -> None:
        self._values, self._tags = values, tags
        self._floats = values.view(np.float32)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is on its way."""
        return len(self._free) == self._slots

    def carried(self) -> Array:
        """Return the values of all fronts on their way, as bits, in no order."""
        return self._values.reshape(-1, self._size)[sorted({*range(self._slots)} - {*self._free})]

    def send(self, operand: Array, is_integer: bool, pe: int, arrival: int) -> Array:
        """Send a front that reaches its first PE in cycle `arrival`; return what it carries."""
        if not self._free:
            self._double()
        slot = self._free.pop()
        first, count = slot * self._size, len(operand)
        carried = (self._values if is_integer else self._floats)[first : first + count]
        carried[:] = operand
        if self._is_tagged:
            self._tags[first : first + count] = is_integer
        starts = self._starting.setdefault(arrival, [])
        starts.append((slot * self._cell, pe, first, (count - 1) // self._cell))
        for lane in range(1, min(self._cell, count)):
            steps = (count - lane - 1) // self._cell
            number = slot * self._cell + lane
            starts.append((number, pe + lane * self._way.stride, first + lane, steps))
        return carried

    def _double(self) -> None:
        words = 2 * len(self._values)
        self._hold(np.resize(self._values, words), np.resize(self._tags, words))
        self._free.extend(range(self._slots, 2 * self._slots))
        self._slots *= 2

    def step(self, cycle: int, plane: Array, tags: Array) -> None:
        """Write what arrives in this cycle into `plane` (flat bits); note its type in `tags`."""
        lot = self._lots[cycle % self._hop]
        for number, pe, value, steps in self._starting.pop(cycle, ()):
            lot.add(number, pe, value)
            self._ending.setdefault(cycle + self._hop * steps, []).append(number)
        if lot.numbers:
            if self._is_tagged:
                lot.leave(tags, self._tags)
            lot.leave_and_step(plane, self._values)
        for number in self._ending.pop(cycle, ()):
            lot.remove(number)
            if number % self._cell == 0:  # no other lane of the slot has further to go
                self._free.append(number // self._cell)
