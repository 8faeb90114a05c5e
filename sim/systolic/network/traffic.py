"""Messages, and what each waits for: the work of a network, the same for both engines.

A message enters in a given cycle, or some cycles after a gate has opened. A gate opens when all
messages that count for it have arrived. In this way a collective is a plain list of messages.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from systolic.network.spec import NodeName

NO_GATE = -1


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages as columns; a message's place in them is its number.

    entries: the tick in which the message enters, at the earliest. waits: the gate that it waits
    for, or NO_GATE. opens: the gate that its arrival counts for, or NO_GATE. delays: by gate, the
    ticks from its opening to the entry of what waits for it; a gate that nothing waits for ends as
    many ticks after it has opened, and the run is no shorter. carries: for pictures, which chunk a
    message carries (default: its number).
    """

    sources: Sequence[NodeName]
    targets: Sequence[NodeName]
    sizes_bytes: Sequence[int]
    entries: Sequence[int] = ()
    waits: Sequence[int] = ()
    opens: Sequence[int] = ()
    delays: Sequence[int] = ()
    carries: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.sources)

    def entry(self, message: int) -> int:
        """Return the earliest tick in which a message enters."""
        return self.entries[message] if self.entries else 0

    def gates(self) -> tuple[list[int], Callable[[int], Sequence[int]]]:
        """Return how many arrivals each gate counts, and a function from a gate to what waits."""
        waits, opens = (np.asarray(each, dtype=np.int64) for each in (self.waits, self.opens))
        count = len(self.delays)
        counts: list[int] = np.bincount(opens[opens != NO_GATE], minlength=count).tolist()
        order = np.argsort(waits, kind="stable")
        bounds = array("q", np.searchsorted(waits[order], np.arange(count + 1)).tobytes())
        messages = array("q", order.astype(np.int64).tobytes())
        return counts, lambda gate: messages[bounds[gate] : bounds[gate + 1]]

    def first(self) -> list[int]:
        """Return the messages that wait for no gate, in order."""
        if not self.waits:
            return list(range(len(self)))
        found: list[int] = np.flatnonzero(np.asarray(self.waits) == NO_GATE).tolist()
        return found

    @classmethod
    def joined(cls, parts: Sequence[Traffic]) -> Traffic:
        """Return the traffic of several parts at once, each with gates of its own."""
        gates = [0, *accumulate(len(part.delays) for part in parts)]
        columns: list[list[Any]] = [[] for _ in range(8)]
        for part, first in zip(parts, gates, strict=False):
            none = [NO_GATE] * len(part)
            columns[0] += part.sources
            columns[1] += part.targets
            columns[2] += part.sizes_bytes
            columns[3] += part.entries or [0] * len(part)
            columns[4] += [_moved(gate, first) for gate in part.waits or none]
            columns[5] += [_moved(gate, first) for gate in part.opens or none]
            columns[6] += part.delays
            columns[7] += part.carries or range(len(part))
        return cls(*columns)


def _moved(gate: int, first: int) -> int:
    return gate if gate == NO_GATE else gate + first
