"""A collective as a list of sends, in columns: the form that lowerings make.

Data are cut into chunks, and every chunk into slices; each slice goes its way by itself. A send
moves one slice of a stretch of chunks. Sends of one step see the data as the step before has left
them. Not here: the algorithms (`algorithms`), bytes and times (`collective`), values (`values`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from systolic.arrays import Integers
from systolic.network.traffic import NO_GATE


class Receipt(IntEnum):
    """What a node does with what it receives."""

    COPY = 0
    """It replaces its own."""
    RECEIVED_FIRST = 1
    """The sum of what is received and its own, in this order."""
    ASCENDING = 2
    """The sum of all that one step brings and its own, by the rank that each comes from."""


@dataclass(frozen=True, eq=False)
class CollectiveProgram:
    """Sends of one slice, as columns of equal length, in program order.

    steps; sources, targets: ranks. first, stop: chunks at the source; lands: where the first of
    them lies at the target. receipts: `Receipt`. waits, opens: gates, or NO_GATE. A gate below
    `gates` belongs to a slice, and the `barriers` from there on are of all slices.
    places: where each chunk lies in the data, which are cut into as many chunks of equal size.
    """

    ranks: int
    chunks: int
    gates: int
    barriers: int
    steps: Integers
    sources: Integers
    targets: Integers
    first: Integers
    stop: Integers
    lands: Integers
    receipts: Integers
    waits: Integers
    opens: Integers
    places: Integers


class ProgramBuilder:
    """Collects sends step by step; a step is given as columns over the nodes that send."""

    def __init__(self, ranks: int, chunks: int) -> None:
        self.ranks, self.chunks = ranks, chunks
        self._columns: list[tuple[Integers, ...]] = []
        self._gates = self._barriers = self._steps = 0

    def new_gates(self, count: int) -> Integers:
        """Return new gates, each of one slice."""
        self._gates += count
        return np.arange(self._gates - count, self._gates)

    def new_barrier(self) -> int:
        """Return a new gate of all slices; negative until the program is built."""
        self._barriers += 1
        return NO_GATE - self._barriers

    def next_step(self) -> None:
        """Begin a new step."""
        self._steps += 1

    def send(
        self,
        sources: Integers,
        targets: Integers,
        first: Integers | int,
        stop: Integers | int,
        receipt: Receipt,
        *,
        waits: Integers | int = NO_GATE,
        opens: Integers | int = NO_GATE,
        lands: Integers | None = None,
    ) -> None:
        """Add sends of the present step."""
        step = np.full(len(sources), self._steps)
        columns = (step, sources, targets, first, stop, first if lands is None else lands)
        every = (*columns, int(receipt), waits, opens)
        self._columns.append(tuple(np.broadcast_to(each, len(sources)) for each in every))

    def build(self, places: Integers | None = None) -> CollectiveProgram:
        """Return the program of all sends; places: by default chunks lie in their order."""
        columns = [
            np.concatenate(each).astype(np.int64) for each in zip(*self._columns, strict=True)
        ]
        steps, sources, targets, first, stop, lands, receipts, waits, opens = columns
        for gates in (waits, opens):
            is_barrier = gates < NO_GATE
            gates[is_barrier] = self._gates + (NO_GATE - 1 - gates[is_barrier])
        return CollectiveProgram(
            ranks=self.ranks,
            chunks=self.chunks,
            gates=self._gates,
            barriers=self._barriers,
            steps=steps,
            sources=sources,
            targets=targets,
            first=first,
            stop=stop,
            lands=lands,
            receipts=receipts,
            waits=waits,
            opens=opens,
            places=np.arange(self.chunks) if places is None else places,
        )
