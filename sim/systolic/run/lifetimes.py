"""How long what instructions write in the state buffer is of use: from writing to its last read.

Told from the program and the times of a finished run, byte sets and all. What the compiler planned
is not asked, so programs written by hand are told alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from systolic.hw.spec import Chip
from systolic.isa import Buffer, Program
from systolic.isa.effects import reads, writes
from systolic.isa.footprint import Footprint, uncovered
from systolic.report.plots.subject import Life
from systolic.spans import Interval
from systolic.trace.records import Trace

AT_CYCLE_0 = -1
SHELVES = 512
"""Into so many equal parts the bytes of a partition are sorted, so that few lives are compared."""


class _Use(NamedTuple):
    """A read or a write of a set of bytes: when it begins, and when its last element is moved."""

    first: int
    is_write: bool
    instruction: int
    stop: int
    bytes: Footprint


@dataclass(eq=False)
class _Alive:
    """A life that may still be read. over: what has been written onto parts of it."""

    writer: int
    first: int
    bytes: Footprint
    last_read: int | None = None
    over: list[Footprint] = field(default_factory=list)

    def is_read_by(self, wanted: Footprint) -> bool:
        """Return whether bytes are wanted that are still of this life."""
        if not self.bytes.meets(wanted):
            return False
        return not self.over or uncovered(wanted, self.over, [self.bytes]) is not None

    def ended(self, otherwise: int) -> Life:
        """Return the whole life; unread, it ends at `otherwise`."""
        found = self.bytes
        return Life(
            self.writer,
            Interval(found.first, found.stop),
            Interval(found.low, found.high),
            (found.stop - found.first) * found.runs * found.run,
            self.first,
            otherwise if self.last_read is None else self.last_read,
        )


class _Shelves:
    """The lives that may still be read, sorted by where their bytes lie."""

    def __init__(self, partition_bytes: int) -> None:
        self._part = max(1, partition_bytes // SHELVES)
        self._shelves: defaultdict[int, dict[int, _Alive]] = defaultdict(dict)

    def _of(self, found: Footprint) -> range:
        return range(found.low // self._part, (found.high - 1) // self._part + 1)

    def add(self, life: _Alive) -> None:
        """Add a life."""
        for shelf in self._of(life.bytes):
            self._shelves[shelf][id(life)] = life

    def remove(self, life: _Alive) -> None:
        """Take a life away."""
        for shelf in self._of(life.bytes):
            del self._shelves[shelf][id(life)]

    def near(self, wanted: Footprint) -> list[_Alive]:
        """Return the lives whose boxes meet that of some bytes."""
        found: dict[int, _Alive] = {}
        for shelf in self._of(wanted):
            found |= self._shelves[shelf]
        return [life for life in found.values() if life.bytes.boxes_meet(wanted)]

    def all(self) -> list[_Alive]:
        """Return every life."""
        found: dict[int, _Alive] = {}
        for shelf in self._shelves.values():
            found |= shelf
        return list(found.values())


def lifetimes(program: Program, chip: Chip, trace: Trace) -> list[Life]:
    """Return the lives of a run, in the order of their beginnings."""
    shelves, found = _Shelves(chip.state_buffer.bytes_per_partition), list[Life]()
    for use in sorted(_uses(program, trace), key=lambda use: (use.first, use.is_write)):
        if use.is_write:
            found += _write(shelves, use)
        else:
            _read(shelves, use)
    found += [life.ended(trace.ticks) for life in shelves.all()]
    return sorted(found, key=lambda life: (life.first, life.writer, life.bytes.first))


def _uses(program: Program, trace: Trace) -> Iterator[_Use]:
    footprints: dict[object, Footprint] = {}
    for times in trace.times:
        instruction, period = program.instructions[times.instruction], trace.periods[times.unit]
        for accesses, is_write in ((reads(instruction), False), (writes(instruction), True)):
            for access in accesses:
                if access.buffer is Buffer.STATE:
                    if access not in footprints:
                        footprints[access] = Footprint.of(access)
                    stop = (times.done if is_write else times.last) + period
                    yield _Use(times.first, is_write, times.instruction, stop, footprints[access])


def _read(shelves: _Shelves, use: _Use) -> None:
    near = [life for life in shelves.near(use.bytes) if life.is_read_by(use.bytes)]
    if uncovered(use.bytes, [life.bytes for life in near]) is not None:
        near.append(_Alive(AT_CYCLE_0, 0, use.bytes))
        shelves.add(near[-1])
    for life in near:
        life.last_read = max(life.last_read or 0, use.stop)


def _write(shelves: _Shelves, use: _Use) -> Iterator[Life]:
    """Begin a life, and yield those that end by being overwritten."""
    for life in shelves.near(use.bytes):
        if use.bytes.covers(life.bytes):
            shelves.remove(life)
            yield life.ended(use.first)
        elif use.bytes.meets(life.bytes):
            life.over.append(use.bytes)
    shelves.add(_Alive(use.instruction, use.first, use.bytes))
