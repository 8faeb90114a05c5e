"""The arbiter of a chip: cores whose state buffers have ports of either scope."""

from __future__ import annotations

from collections.abc import Sequence

from systolic.hw.spec.places import ChipPlace
from systolic.machine.event.chip.ports import core_of
from systolic.machine.event.ports.arbiter import Arbiter
from systolic.machine.event.ports.ports import Port
from systolic.machine.event.ports.stream import Stream
from systolic.machine.event.ticks import TickEnvironment


class ChipArbiter(Arbiter):
    """One arbiter for cores that depend on one another; no port belongs to two of them.

    splits: by core, whether each partition of its state buffer has ports of its own.
    """

    def __init__(
        self, env: TickEnvironment, splits: Sequence[bool], places: Sequence[ChipPlace]
    ) -> None:
        cores = [place.number for place in places if place.kind == "core"] or [0]
        self._splits = tuple(splits)
        self._mixes = len({splits[number] for number in range(len(splits))}) > 1
        super().__init__(env, is_split=splits[cores[0]])

    def has_partitions(self, port: Port) -> bool:
        """Return whether each partition has a port of its own here."""
        return port.is_of_partitions and self._splits[core_of(port.bank)]

    def may_meet(self, one: Stream, other: Stream) -> bool:
        """Return whether no partitions keep two streams apart that share a port."""
        if not self._mixes or (one.unit, one.client) == (other.unit, other.client):
            return super().may_meet(one, other)
        return any(
            a.meets(b) or (a.port == b.port and not self.has_partitions(a.port))
            for a in one.reach()
            for b in other.reach()
        )

    def is_split_for(self, streams: Sequence[Stream]) -> bool:
        """Return whether all ports that streams may need are of that scope."""
        if not self._mixes:
            return self._is_split
        return all(self._splits[core_of(need.port.bank)] for s in streams for need in s.reach())

    def is_whole_for(self, streams: Sequence[Stream]) -> bool:
        """Return whether none of the ports that streams may need is of that scope."""
        if not self._mixes:
            return not self._is_split
        return not any(self._splits[core_of(need.port.bank)] for s in streams for need in s.reach())
