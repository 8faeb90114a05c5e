"""Weights on their way: each lane of a read is a front that passes through the grid.

A front carries the elements of one column (left path) or one row (top path), and leaves one in
every PE it passes, a step in every hop. Nothing stops it once it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
FEW = 64


class _Lot:
    """Fronts that step in the same cycles: pairs of the PE each is at, and the value it leaves."""

    def __init__(self, pe_step: int, value_step: int) -> None:
        self.count = 0
        self._steps = pe_step, value_step
        self._numbers: list[int] = []
        self._place: dict[int, int] = {}
        self._hold(np.zeros(2 * FEW, np.int64))

    def _hold(self, at: Array) -> None:
        self._at = at
        self._step = np.resize(np.array(self._steps), len(at))

    def add(self, number: int, pe: int, value: int) -> None:
        """Begin with that PE and that value (flat indices)."""
        place = self.count
        if 2 * place == len(self._at):
            self._hold(np.resize(self._at, 4 * place))
        self._at[2 * place], self._at[2 * place + 1] = pe, value
        self._numbers.append(number)
        self._place[number] = place
        self.count = place + 1

    def remove(self, number: int) -> None:
        """Close the gap with the last front; their order means nothing."""
        place, last = 2 * self._place.pop(number), self._numbers.pop()
        self.count -= 1
        if last != number:
            end = 2 * self.count
            self._at[place : place + 2] = self._at[end : end + 2]
            self._numbers[place // 2] = last
            self._place[last] = place // 2

    def leave(self, plane: Array, values: Array) -> None:
        """Write every front's value into its PE."""
        end = 2 * self.count
        plane[self._at[0:end:2]] = values[self._at[1:end:2]]

    def step(self) -> None:
        """Move every front on to its next PE."""
        at = self._at[: 2 * self.count]
        np.add(at, self._step[: at.size], at)


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
        step = way.cell * way.stride
        self._lots = [_Lot(step, way.cell) for _ in range(way.hop)]
        self._is_tagged = is_tagged
        self._free = list(range(FEW))
        self._hold(np.zeros(FEW * way.size, np.int32), np.zeros(FEW * way.size, bool))
        self._starting: dict[int, list[tuple[int, int, int, int]]] = {}
        self._ending: dict[int, list[int]] = {}
        self._users: dict[int, int] = {}

    def _hold(self, values: Array, tags: Array) -> None:
        self._values, self._tags = values, tags
        self._floats = values.view(np.float32)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is on its way."""
        return not self._users

    def carried(self) -> Array:
        """Return the values of all fronts on their way, as bits, in no order."""
        return self._values.reshape(-1, self._way.size)[sorted(self._users)]

    def send(self, operand: Array, is_integer: bool, pe: int, arrival: int) -> Array:
        """Send a front that reaches its first PE in cycle `arrival`; return what it carries."""
        size, cell = self._way.size, self._way.cell
        slot = self._slot()
        first, count = slot * size, len(operand)
        carried = (self._values if is_integer else self._floats)[first : first + count]
        carried[:] = operand
        if self._is_tagged:
            self._tags[first : first + count] = is_integer
        starts = self._starting.setdefault(arrival, [])
        lanes = min(cell, count)
        for lane in range(lanes):
            steps = (count - lane - 1) // cell
            starts.append((slot * cell + lane, pe + lane * self._way.stride, first + lane, steps))
        self._users[slot] = lanes
        return carried

    def _slot(self) -> int:
        if not self._free:
            held = len(self._values) // self._way.size
            double = 2 * len(self._values)
            self._hold(np.resize(self._values, double), np.resize(self._tags, double))
            self._free.extend(range(held, 2 * held))
        return self._free.pop()

    def step(self, cycle: int, plane: Array, tags: Array) -> None:
        """Write what arrives in this cycle into `plane` (flat bits); note its type in `tags`."""
        lot = self._lots[cycle % self._way.hop]
        for number, pe, value, steps in self._starting.pop(cycle, ()):
            lot.add(number, pe, value)
            self._ending.setdefault(cycle + self._way.hop * steps, []).append(number)
        if lot.count:
            lot.leave(plane, self._values)
            if self._is_tagged:
                lot.leave(tags, self._tags)
            lot.step()
        for number in self._ending.pop(cycle, ()):
            self._end(lot, number)

    def _end(self, lot: _Lot, number: int) -> None:
        lot.remove(number)
        slot = number // self._way.cell
        users = self._users[slot] - 1
        if users:
            self._users[slot] = users
        else:
            del self._users[slot]
            self._free.append(slot)
