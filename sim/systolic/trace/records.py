"""What a run leaves behind: a Trace. Both engines fill the same one (`recorder`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from systolic.trace.grid import GridHistory
from systolic.trace.labels import LabelInterval
from systolic.trace.transfers import Transfers
from systolic.trace.words import WordTable

ALL_PARTITIONS = -1
"""Where a port belongs to a bank in all partitions, instead of the number of one."""
EXCLUSIVE = "exclusive"
"""The direction, of a stall, where an engine was kept from a buffer by one that it excludes."""
NO_BANK = -1
"""The bank of such a stall: this number less the number of the chip's exclusion, from 0."""


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
    notifications: tick and processor of each interrupt to the host.
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
    notifications: tuple[tuple[int, str], ...] = ()

    @property
    def array(self) -> str:
        """Return the array, whose clock cycles are counted in; of several cores the first one's.

        Its name is ``pe_array``, or ``core0.pe_array``.
        """
        return "pe_array" if "pe_array" in self.periods else next(iter(self.periods))

    def cycles(self, unit: str = "") -> int:
        """Return the length of the run in cycles of `unit` ("": the array)."""
        return -(-self.ticks // self.periods[unit or self.array])
