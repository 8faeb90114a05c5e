"""Which ports a stream will use, and when, if nothing refuses it: its course."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.machine.event.ports.ports import Need, Timeline, number_of

EVERY_PARTITION = 1 << 40


class Use(NamedTuple):
    """A need from tick `first` to tick `stop`."""

    need: Need
    first: int
    stop: int


UseTable = npt.NDArray[np.int64]
"""Uses of ports, in the order of time: int64 [5, uses], rows FIRST to HIGH.

A use is of a port, by its number, in partitions low <= p < high, from tick `first` to tick `stop`.
"""

FIRST, STOP, PORT, LOW, HIGH = range(5)
NO_USES: UseTable = np.zeros((5, 0), np.int64)


class UseSteps(NamedTuple):
    """Uses of `ticks` ticks and `lanes` partitions each, all by `ticks_on` and `lanes_on` apart."""

    ticks: int
    ticks_on: int
    lanes: int
    lanes_on: int


class PortUses:
    """The uses of one port, in the order of time: as lists, for most have few, and as a table.

    columns: first, stop, low, high of all uses. table: of the same uses; made of them if it is
    needed and not given. begin, end, lowest, highest: of all of them together.
    """

    def __init__(self, number: int, *columns: list[int], table: UseTable | None = None) -> None:
        self.number, self._table = number, table
        self.first, self.stop, self.low, self.high = columns
        self.begin, self.end = self.first[0], self.stop[-1]
        self.lowest, self.highest = min(self.low), max(self.high)
        self._are_steps_known = False
        self._steps: UseSteps | None = None

    @classmethod
    def of_table(cls, table: UseTable) -> PortUses:
        """Return the uses of a table, all of one port."""
        columns = (table[row].tolist() for row in (FIRST, STOP, LOW, HIGH))
        return cls(int(table[PORT, 0]), *columns, table=table)

    @property
    def table(self) -> UseTable:
        """Return all uses as a table."""
        if self._table is None:
            ports = [self.number] * len(self.first)
            self._table = np.array([self.first, self.stop, ports, self.low, self.high], np.int64)
        return self._table

    @property
    def steps(self) -> UseSteps | None:
        """Return how they follow one another, if all do alike and each later than the last."""
        if not self._are_steps_known:
            self._steps, self._are_steps_known = self._find_steps(), True
        return self._steps

    def _find_steps(self) -> UseSteps | None:
        first, stop, _, low, high = self.table
        ticks, lanes = stop - first, high - low
        on, lanes_on = np.diff(first), np.diff(low)
        found = UseSteps(*(int(column[0]) for column in (ticks, on, lanes, lanes_on)))
        alike = zip((ticks, on, lanes, lanes_on), found, strict=True)
        return found if found.ticks_on > 0 and all((c == one).all() for c, one in alike) else None


class Course:
    """What a stream uses of each port, by its number, in ticks from any one on.

    A course may say that a port is used when it is not; where it says nothing none is. Streams that
    are alike have one course, each from a tick of its own on.
    """

    def __init__(self, ports: dict[int, PortUses]) -> None:
        self.ports = ports

    @classmethod
    def of_table(cls, table: UseTable) -> Course:
        """Return the course of all uses of a table."""
        number = table[PORT]
        if not len(number):
            return cls({})
        if (number == number[0]).all():
            return cls({int(number[0]): PortUses.of_table(table)})
        ports = dict.fromkeys(number.tolist())
        return cls({port: PortUses.of_table(table[:, number == port]) for port in ports})


class PlacedCourse(NamedTuple):
    """A course, and the tick from which its own are counted."""

    course: Course
    origin: int


def table_of(uses: Iterable[Use]) -> UseTable:
    """Return uses, given in the order of time, as a table."""
    rows = [(first, stop, *place_of(need)) for need, first, stop in uses]
    return np.array(rows, np.int64).reshape(-1, 5).T.copy() if rows else NO_USES


@lru_cache(maxsize=1024)
def course_in_slots(timeline: Timeline, spacing: int, period: int) -> Course:
    """Return what is used from the first slot on, if there is one access in `spacing` slots.

    An access is taken to use its ports until the next.
    """
    ticks, ports = spacing * period, dict[int, tuple[list[int], ...]]()
    for begin, end, needs in timeline:
        for need in needs:
            number, lowest, highest = place_of(need)
            if number not in ports:
                ports[number] = [], [], [], []
            first, stop, low, high = ports[number]
            first.append(begin * ticks)
            stop.append(end * ticks)
            low.append(lowest)
            high.append(highest)
    return Course({number: PortUses(number, *columns) for number, columns in ports.items()})


@lru_cache(maxsize=4096)
def place_of(need: Need) -> tuple[int, int, int]:
    """Return port and partitions; a port of the result buffer is one for all partitions."""
    number = number_of(need.port)
    if not need.port.is_of_partitions:
        return number, 0, EVERY_PARTITION
    return number, need.first, need.stop


def joined(tables: list[UseTable]) -> UseTable:
    """Return tables that follow one another as one."""
    parts = [table for table in tables if table.shape[1]]
    return parts[0] if len(parts) == 1 else np.concatenate([NO_USES, *parts], axis=1)
