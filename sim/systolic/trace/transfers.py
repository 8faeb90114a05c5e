"""Counts of what the DMA queues moved in a run, and of the bursts in DRAM's channels and banks.

Both engines fill these counts, which must be equal. Not here: times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class ChannelCounts:
    """One DRAM channel.

    hits, opened, conflicts: bursts that found their row open, the bank closed, another row open;
    busy_cycles: DMA cycles in which a queue held the data bus.
    """

    hits: int = 0
    opened: int = 0
    conflicts: int = 0
    busy_cycles: int = 0

    def count(self, *, hits: int = 0, opened: int = 0, conflicts: int = 0, busy: int = 0) -> None:
        """Add bursts of each kind, and busy cycles."""
        self.hits += hits
        self.opened += opened
        self.conflicts += conflicts
        self.busy_cycles += busy

    @property
    def bursts(self) -> int:
        """Return all bursts."""
        return self.hits + self.opened + self.conflicts


@dataclass(slots=True)
class QueueWaits:
    """DMA cycles in which a queue's burst waited: for its bank, for its row, for the data bus."""

    bank_cycles: int = 0
    row_cycles: int = 0
    bus_cycles: int = 0

    def count(self, *, bank: int = 0, row: int = 0, bus: int = 0) -> None:
        """Add cycles of each wait."""
        self.bank_cycles += bank
        self.row_cycles += row
        self.bus_cycles += bus


@dataclass(slots=True)
class Transfers:
    """All copies of a run.

    copies: how many copies. runs: how many descriptors there are of each length in bytes. channels:
    by number. waits: by unit. The last two are empty for DRAM without an organisation.
    """

    copies: int = 0
    runs: Counter[int] = field(default_factory=Counter)
    channels: dict[int, ChannelCounts] = field(default_factory=dict)
    waits: dict[str, QueueWaits] = field(default_factory=dict)

    def add(self, runs_by_size: Iterable[tuple[int, int]]) -> None:
        """Count a copy with that many descriptors of each length: (bytes, how many)."""
        self.copies += 1
        for size, count in runs_by_size:
            self.runs[size] += count

    @property
    def descriptors(self) -> int:
        """Return the descriptors of all copies."""
        return self.runs.total()

    @property
    def moved_bytes(self) -> int:
        """Return the bytes of all copies."""
        return sum(size * count for size, count in self.runs.items())
