"""What a run leaves behind: a Trace, and the Recorder that collects it while the machine runs.

Both engines fill the same Trace. Words and grid history are kept only if a caller asks for them, so
that other runs do not pay for them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from systolic.trace.grid import GridHistory, GridShape, LoadPass, MatMulPass
from systolic.trace.labels import Claim, LabelInterval, resolve
from systolic.trace.transfers import Transfers
from systolic.trace.words import KINDS, Words, WordTable

_Pass = TypeVar("_Pass", LoadPass, MatMulPass)
ALL_PARTITIONS = -1
"""Where a port belongs to a bank in all partitions, instead of the number of one."""
EXCLUSIVE = "exclusive"
"""The direction, of a stall, where an engine was kept from a buffer by one that it excludes."""
NO_BANK = -1
"""The bank of such a stall: this number less that of the chip's exclusion, from 0."""


class InstructionTimes(NamedTuple):
    """When one instruction did what, in ticks (each the beginning of a cycle of its unit).

    start: issued; first and last: first and last read (or injection); done: last write (for a
    LoadWeights its last read).
    """

    instruction: int
    unit: str
    start: int
    first: int
    last: int
    done: int


class FetchTimes(NamedTuple):
    """When one instruction was fetched, in ticks, on a chip with fetch.

    begin: the path takes it. arrival: its unit may start it from then on.
    """

    begin: int
    instruction: int
    unit: str
    arrival: int


class Stall(NamedTuple):
    """A port refused: `cycles` consecutive cycles of `unit` from `tick` on.

    partition: of the port, where each partition has its own (`port_scope`); else ALL_PARTITIONS.
    Where engines exclude one another it is the buffer: direction EXCLUSIVE, no bank.
    """

    tick: int
    unit: str
    instruction: int
    cycles: int
    buffer: str
    bank: int
    direction: str
    winner: str
    partition: int = ALL_PARTITIONS

    @property
    def place(self) -> str:
        """Return what was refused, such as ``state_buffer 3 read``."""
        bank = () if self.direction == EXCLUSIVE else (str(self.bank),)
        return " ".join((self.buffer, *bank, self.direction))


class SemaphoreEvent(NamedTuple):
    """A post (value: the count after it), or a wait that an instruction's start satisfied."""

    tick: int
    kind: str
    unit: str
    semaphore: int
    value: int


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything observed in one run. Times in ticks; `periods` gives each unit's ticks per cycle.

    labels: per unit, intervals in cycles of that unit that cover the whole run.
    port_cycles: per (buffer, bank, direction), ticks in which the port was in use; where each
    partition has a port of its own, the sum over all of them.
    transfers: what the DMA queues moved, and what DRAM's channels and banks made of it.
    fetches: in the order in which they began; none on a chip without fetch.
    """

    ticks: int
    periods: dict[str, int]
    labels: dict[str, tuple[LabelInterval, ...]]
    times: tuple[InstructionTimes, ...]
    stalls: tuple[Stall, ...]
    semaphores: tuple[SemaphoreEvent, ...]
    port_cycles: dict[tuple[str, int, str], int]
    words: WordTable
    grid: GridHistory
    transfers: Transfers
    fetches: tuple[FetchTimes, ...] = ()

    def cycles(self, unit: str = "pe_array") -> int:
        """Return the length of the run in cycles of `unit`."""
        return -(-self.ticks // self.periods[unit])


@dataclass
class Recorder:
    """Collects records during a run. `kinds`: word kinds to keep; `grid`: keep grid history."""

    units: tuple[str, ...]
    kinds: frozenset[str] = frozenset()
    keep_grid: bool = False
    chunks: list[npt.NDArray[np.void]] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)
    posts: list[tuple[int, str, int]] = field(default_factory=list)
    waits: list[SemaphoreEvent] = field(default_factory=list)
    claims: defaultdict[str, list[Claim]] = field(default_factory=lambda: defaultdict(list))
    port_cycles: Counter[tuple[str, int, str]] = field(default_factory=Counter)
    times: list[InstructionTimes] = field(default_factory=list)
    loads: list[LoadPass] = field(default_factory=list)
    matmuls: list[MatMulPass] = field(default_factory=list)
    transfers: Transfers = field(default_factory=Transfers)
    fetches: list[FetchTimes] = field(default_factory=list)

    def __post_init__(self) -> None:
        unknown = self.kinds - set(KINDS)
        if unknown:
            raise ValueError(f"unknown word kinds {sorted(unknown)}")

    def wants(self, kind: str) -> bool:
        """Return whether words of that kind are to be recorded."""
        return kind in self.kinds

    def words(self, kind: str, unit: str, instruction: int, words: Words) -> None:
        """Record words if that kind is wanted."""
        if kind in self.kinds:
            self.chunks.append(words.rows(kind, self.units.index(unit), instruction))

    def post(self, tick: int, unit: str, semaphore: int) -> None:
        """Record a post made in the cycle of `unit` that begins at `tick`."""
        self.posts.append((tick, unit, semaphore))

    def wait(self, tick: int, unit: str, semaphore: int, value: int) -> None:
        """Record a wait satisfied by an instruction that starts at `tick`."""
        self.waits.append(SemaphoreEvent(tick, "wait", unit, semaphore, value))

    def claim(self, unit: str, label: str, first: int, stop: int, order: int = 0) -> None:
        """Claim a label for cycles first <= cycle < stop of the unit (see `labels.Claim`)."""
        if stop > first:
            self.claims[unit].append((first, stop, label, order))

    def finish(self, ticks: int, periods: dict[str, int], shape: GridShape) -> Trace:
        """Return the Trace of a run of `ticks` ticks, everything sorted."""
        labels = {
            unit: resolve(self.claims.get(unit, ()), -(-ticks // periods[unit]))
            for unit in self.units
        }
        return Trace(
            ticks=ticks,
            periods=dict(periods),
            labels=labels,
            times=tuple(sorted(self.times)),
            stalls=tuple(sorted(self.stalls)),
            semaphores=tuple(sorted([*_counted(self.posts), *self.waits])),
            port_cycles=dict(sorted(self.port_cycles.items())),
            words=WordTable.join(self.chunks, self.units),
            grid=GridHistory(shape, _in_order(self.loads), _in_order(self.matmuls)),
            transfers=self.transfers,
            fetches=tuple(sorted(self.fetches)),
        )


def _in_order(passes: Sequence[_Pass]) -> tuple[_Pass, ...]:
    """Return passes in the order of the queue: on tiles they end in any order."""
    return tuple(sorted(passes, key=lambda each: each.instruction))


def _counted(posts: list[tuple[int, str, int]]) -> list[SemaphoreEvent]:
    count: defaultdict[int, int] = defaultdict(int)
    events = []
    for tick, unit, semaphore in sorted(posts):
        count[semaphore] += 1
        events.append(SemaphoreEvent(tick, "post", unit, semaphore, count[semaphore]))
    return events
