"""Messages, and what each waits for: the work of a network, the same for both engines.

A message enters in a given cycle, or `delay` cycles after a gate has opened. A gate opens when all
messages that count for it have arrived. In this way a collective is a plain list of messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat

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
    names: Sequence[str] = field(default=(), compare=False)

    def __len__(self) -> int:
        return len(self.sources)

    def entry(self, message: int) -> int:
        """Return the earliest tick in which a message enters."""
        return self.entries[message] if self.entries else 0

    def gates(self) -> tuple[list[int], list[list[int]]]:
        """Return, by gate, how many arrivals it counts, and the messages that wait for it."""
        most = max((*self.waits, *self.opens), default=NO_GATE) + 1
        counts, waiting = [0] * most, [list[int]() for _ in repeat(None, most)]
        for gate in self.opens:
            if gate != NO_GATE:
                counts[gate] += 1
        for message, gate in enumerate(self.waits):
            if gate != NO_GATE:
                waiting[gate].append(message)
        return counts, waiting

    def first(self) -> list[int]:
        """Return the messages that wait for no gate, in order."""
        if not self.waits:
            return list(range(len(self)))
        return [message for message, gate in enumerate(self.waits) if gate == NO_GATE]
