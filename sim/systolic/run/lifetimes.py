"""How long the bytes that an instruction writes in the state buffer are of use: to their last read.

The lives are found from the program's accesses and from the times of a finished run. The plan of
the compiler plays no part, so a program written by hand has lives as well.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Instruction, Program
from systolic.isa.effects import reads, writes
from systolic.isa.footprint import (
    LARGEST_MASK,
    Footprint,
    granule_bytes,
    shared_lanes,
    uncovered,
)
from systolic.report.plots.subject import Life
from systolic.spans import Interval
from systolic.trace.records import Trace

AT_CYCLE_0 = -1
SHELVES = 512
"""The equal parts into which a partition's bytes are sorted, so that few lives are compared."""


class _Use(NamedTuple):
    """A read or a write of a set of bytes: when it begins, and when its last element is moved."""

    first: int
    is_write: bool
    instruction: int
    stop: int
    bytes: Footprint


@dataclass(eq=False)
class _Alive:
    """A life that may still be read. granule: bytes that are told apart, at least."""

    writer: int
    first: int
    bytes: Footprint
    granule: int
    last_read: int | None = None
    _left: npt.NDArray[np.bool_] | None = None
    """What is not overwritten, [partitions, granules]; None while all is there."""

    def overwrite(self, by: Footprint) -> bool:
        """Take bytes away; return whether none is left. Of too many to count, all stay."""
        shape = self.bytes.stop - self.bytes.first, self.bytes.runs * self.bytes.run // self.granule
        if math.prod(shape) > LARGEST_MASK:
            return False
        if self._left is None:
            self._left = np.ones(shape, np.bool_)
        self._left[shared_lanes(self.bytes, by)] &= ~by.holds(self._places)
        return not self._left.any()

    def is_read_by(self, wanted: Footprint) -> bool:
        """Return whether bytes are wanted that are still of this life."""
        if not self.bytes.meets(wanted):
            return False
        if self._left is None:
            return True
        left = self._left[shared_lanes(self.bytes, wanted)]
        return bool((left & wanted.holds(self._places)).any())

    @cached_property
    def _places(self) -> npt.NDArray[np.int64]:
        return self.bytes.places(self.granule)

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

    def __init__(self, partition_bytes: int, granule: int) -> None:
        self._part = max(1, partition_bytes // SHELVES)
        self._granule = granule
        self._shelves: defaultdict[int, dict[int, _Alive]] = defaultdict(dict)

    def _of(self, found: Footprint) -> range:
        return range(found.low // self._part, (found.high - 1) // self._part + 1)

    def add(self, writer: int, first: int, found: Footprint) -> _Alive:
        """Begin a life, and return it."""
        life = _Alive(writer, first, found, self._granule)
        for shelf in self._of(life.bytes):
            self._shelves[shelf][id(life)] = life
        return life

    def remove(self, life: _Alive) -> None:
        """Take a life away."""
        for shelf in self._of(life.bytes):
            del self._shelves[shelf][id(life)]

    def near(self, wanted: Footprint) -> list[_Alive]:
        """Return the lives whose boxes meet the box of some bytes."""
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


def accesses_of(instruction: Instruction) -> Iterator[tuple[Access, bool]]:
    """Yield what an instruction reads, and what it writes; True stands for a write."""
    yield from ((access, False) for access in reads(instruction))
    yield from ((access, True) for access in writes(instruction))


def lifetimes(
    program: Program,
    chip: Chip,
    trace: Trace,
    accesses: Callable[[int], Iterable[tuple[Access, bool]]] | None = None,
) -> list[Life]:
    """Return the lives of a run, in the order of their beginnings.

    accesses: of instructions by number, those to the chip's buffers (default: all they make).
    """
    found_of = accesses or (lambda index: accesses_of(program.instructions[index]))
    uses = sorted(_uses(trace, found_of), key=lambda use: (use.first, use.is_write))
    granule = granule_bytes(list({id(use.bytes): use.bytes for use in uses}.values()))
    shelves, found = _Shelves(chip.state_buffer.bytes_per_partition, granule), list[Life]()
    for use in uses:
        if use.is_write:
            found += _write(shelves, use)
        else:
            _read(shelves, use)
    found += [life.ended(trace.ticks) for life in shelves.all()]
    return sorted(found, key=lambda life: (life.first, life.writer, life.bytes.first))


def _uses(trace: Trace, accesses: Callable[[int], Iterable[tuple[Access, bool]]]) -> Iterator[_Use]:
    footprints: dict[object, Footprint] = {}
    for times in trace.times:
        period = trace.periods[times.unit]
        for access, is_write in accesses(times.instruction):
            if access.buffer is Buffer.STATE:
                if access not in footprints:
                    footprints[access] = Footprint.of(access)
                stop = (times.done if is_write else times.last) + period
                yield _Use(times.first, is_write, times.instruction, stop, footprints[access])


def _read(shelves: _Shelves, use: _Use) -> None:
    near = [life for life in shelves.near(use.bytes) if life.is_read_by(use.bytes)]
    if uncovered(use.bytes, [life.bytes for life in near]) is not None:
        near.append(shelves.add(AT_CYCLE_0, 0, use.bytes))
    for life in near:
        life.last_read = max(life.last_read or 0, use.stop)


def _write(shelves: _Shelves, use: _Use) -> Iterator[Life]:
    """Begin a life, and yield those that end by being overwritten."""
    for life in shelves.near(use.bytes):
        covered = use.bytes.covers(life.bytes)
        if covered or (use.bytes.meets(life.bytes) and life.overwrite(use.bytes)):
            shelves.remove(life)
            yield life.ended(use.first)
    shelves.add(use.instruction, use.first, use.bytes)
