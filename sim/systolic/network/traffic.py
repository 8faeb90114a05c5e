"""Messages, and what each waits for: the work of a network, the same for both engines.

A message enters in a given cycle, or `delay` cycles after a gate has opened. A gate opens when all
messages that count for it have arrived. In this way a collective is a plain list of messages.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from systolic.network.spec import Node

NO_GATE = -1


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages as columns; a message's place in them is its number.

    entries: the tick in which the message enters, at the earliest. waits: the gate that it waits
    for, or NO_GATE. opens: the gate that its arrival counts for, or NO_GATE. delay_ticks: from a
    gate's opening to the entry of what waits for the gate. tail_ticks: from the last arrival to the
    end of the run.
    """

    sources: Sequence[Node]
    targets: Sequence[Node]
    sizes_bytes: Sequence[int]
    entries: Sequence[int] = ()
    waits: Sequence[int] = ()
    opens: Sequence[int] = ()
    delay_ticks: int = 0
    tail_ticks: int = 0

    def __len__(self) -> int:
        return len(self.sources)

    def entry(self, message: int) -> int:
        """Return the earliest tick in which a message enters."""
        return self.entries[message] if self.entries else 0

    def gates(self) -> tuple[list[int], Callable[[int], Sequence[int]]]:
        """Return how many arrivals each gate counts, and what gives the messages that wait for it."""
        waits, opens = (np.asarray(each, dtype=np.int64) for each in (self.waits, self.opens))
        count = max(waits.max(initial=NO_GATE), opens.max(initial=NO_GATE)) + 1
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
