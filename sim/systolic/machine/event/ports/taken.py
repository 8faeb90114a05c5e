"""The ports that are in use in one tick, and which need of a stream another's use refuses."""

from __future__ import annotations

from collections.abc import Callable

from systolic.isa import Buffer
from systolic.machine.event.ports.hold import Hold
from systolic.machine.event.ports.ports import Need, Needs, Port
from systolic.machine.event.ports.stream import Lost, Stream, is_array


class TakenPorts:
    """The ports in use in a tick, each with the unit and the client of every use.

    has_partitions: whether each partition has a port of its own where one is needed.
    """

    def __init__(self, has_partitions: Callable[[Port], bool]) -> None:
        self._has_partitions = has_partitions
        self._uses: dict[Port, list[tuple[Need, str, str]]] = {}

    def take(self, stream: Stream, needs: Needs) -> None:
        """Note that a stream uses ports."""
        self._add(needs, stream.unit, stream.client)

    def take_hold(self, hold: Hold, now: int) -> None:
        """Note that sums use ports, if they do now."""
        if hold.state(now)[0]:
            self._add(hold.needs, hold.stream.unit, hold.client)

    def _add(self, needs: Needs, unit: str, client: str) -> None:
        for need in needs:
            self._uses.setdefault(need.port, []).append((need, unit, client))

    def first_refused(self, stream: Stream, needs: Needs) -> Lost | None:
        """Return the first need that another has; of partitions of their own the lowest."""
        for need in needs:
            others = self._uses.get(need.port)
            if not others:
                continue
            if self._has_partitions(need.port):
                low, high = need.first, need.stop
                met = [(o.first, c) for o, _, c in others if o.first < high and low < o.stop]
                if met:
                    first, client = min(met)
                    return Lost(need.port, client, max(low, first))
                continue
            for other, unit, client in others:
                in_flight = is_array(unit) and need.port.buffer == Buffer.RESULT
                mine = (unit, client) == (stream.unit, stream.client)
                own_lane = mine and not need.meets(other)
                if not (own_lane or (in_flight and unit == stream.unit)):
                    return Lost(need.port, client)
        return None
