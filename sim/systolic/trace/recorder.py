"""The Recorder: collects what a run leaves behind while the machine runs, for both engines.

Words and grid history are kept only if a caller asks for them, so that other runs do not pay for
them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from systolic.trace.grid import GridHistory
from systolic.trace.labels import Claim, resolve
from systolic.trace.passes import GridShape, LoadPass, MatMulPass
from systolic.trace.records import FetchTimes, InstructionTimes, SemaphoreEvent, Stall, Trace
from systolic.trace.transfers import Transfers
from systolic.trace.words import KINDS, NO_CORE, Words, WordTable

_Pass = TypeVar("_Pass", LoadPass, MatMulPass)


_CORE = re.compile(r"core([0-9]+)\.")


@cache
def _core_of(unit: str) -> int:
    """Return the number of the core in the name of a unit, NO_CORE if there is none."""
    found = _CORE.match(unit)
    return int(found[1]) if found else NO_CORE


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
    notifications: list[tuple[int, str]] = field(default_factory=list)

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
            core = _core_of(unit)
            self.chunks.append(words.rows(kind, self.units.index(unit), instruction, core))

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
            notifications=tuple(sorted(self.notifications)),
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
