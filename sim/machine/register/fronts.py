"""Weights on their way: each lane of a read is a front that passes through the grid.

A front carries the elements of one column (left path) or one row (top path), and leaves one in
every PE it passes, a step in every hop. Nothing stops it once it is read.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
FEW = 64


class _Lot:
    """Fronts that step in the same cycles: pairs of the PE each is at, and the value it leaves.

    They are the pairs first <= place < last, in the order of `numbers`.
    """

    def __init__(self, pe_step: int, value_step: int) -> None:
        self.first = self.last = 0
        self.numbers: deque[int] = deque()
        self._at = np.zeros(4 * FEW, np.int64)
        self._steps = np.resize(np.array([pe_step, value_step]), 4 * FEW)

    def add(self, number: int, pe: int, value: int) -> None:
        """Begin with that PE and that value (flat indices)."""
        if 2 * self.last == len(self._at):
            self._make_room()
        place = 2 * self.last
        self._at[place], self._at[place + 1] = pe, value
        self.numbers.append(number)
        self.last += 1

    def _make_room(self) -> None:
        """Move all to the front of the array, doubled if it is more than half full."""
        live = self._at[2 * self.first :].copy()
        if 2 * len(live) > len(self._at):
            self._at = np.resize(self._at, 2 * len(self._at))
            self._steps = np.resize(self._steps, len(self._at))
        self._at[: len(live)] = live
        self.first, self.last = 0, len(live) // 2

    def remove(self, number: int) -> None:
        """Take out a front: nearly always the oldest, or the oldest takes its place."""
        numbers = self.numbers
        oldest = numbers.popleft()
        if oldest != number:
            index = numbers.index(number)
            numbers[index] = oldest
            place, head = 2 * (self.first + 1 + index), 2 * self.first
            self._at[place : place + 2] = self._at[head : head + 2]
        self.first += 1

    def step(self, *moves: tuple[Array, Array]) -> None:
        """Write every front's value into its PE (into each plane from its values), and move on."""
        size = 2 * (self.last - self.first)
        at = self._at[2 * self.first : 2 * self.last]
        for plane, values in moves:
            plane[at[::2]] = values[at[1::2]]
        np.add(at, self._steps[:size], at)


@dataclass(frozen=True, slots=True)
class Way:
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

    def __init__(self, way: Way, is_tagged: bool) -> None:
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
        cell = self._cell
        for lane in range(min(cell, count)):
            steps = (count - lane - 1) // cell
            starts.append((slot * cell + lane, pe + lane * self._way.stride, first + lane, steps))
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
                lot.step((plane, self._values), (tags, self._tags))
            else:
                lot.step((plane, self._values))
        for number in self._ending.pop(cycle, ()):
            lot.remove(number)
            slot, lane = divmod(number, self._cell)
            if not lane:  # no other lane of the slot has further to go
                self._free.append(slot)
