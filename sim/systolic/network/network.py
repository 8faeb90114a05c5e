"""A network as both engines take it: links with all times in ticks, and the way between two nodes.

A tick is the common period of all clocks; with one clock it is a cycle. Not here: tables (`read`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from systolic.network.spec import Arbitration, Forwarding, NodeName


@dataclass(frozen=True, slots=True)
class NetworkLink:
    """A directed link. Cycles are of its own clock, whose period is `period` ticks."""

    source: NodeName
    target: NodeName
    bytes_per_cycle: int
    latency_cycles: int
    slots: int
    credit_cycles: int
    hop_cycles: int
    channels: int
    period: int = 1

    def flits(self, size_bytes: int) -> int:
        """Return the flits of a packet of that many bytes."""
        return -(-size_bytes // self.bytes_per_cycle)

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


@dataclass(frozen=True, slots=True, eq=False)
class NetworkRoute:
    """The way from a node to another: the number of each link, and the channel on it.

    Between two nodes there is one route, which is made once, so that it stands for itself.
    """

    links: tuple[int, ...]
    channels: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Network:
    """Links, and the routes between nodes.

    router: returns the route between two nodes, or raises ConfigError. ticks_mhz: None if the
    network has no clock table, and then all links have one clock. shape: of a named topology.
    hosts: the nodes that are no switches.
    """

    nodes: tuple[NodeName, ...]
    hosts: tuple[NodeName, ...]
    links: tuple[NetworkLink, ...]
    router: Callable[[NodeName, NodeName], NetworkRoute]
    packet_bytes: int | None = None
    header_bytes: int = 0
    forwarding: Forwarding = "cut_through"
    arbitration: Arbitration = "round_robin"
    ticks_mhz: int | None = None
    kind: str = "file"
    shape: tuple[int, ...] = ()
    _routes: dict[tuple[NodeName, NodeName], NetworkRoute] = field(default_factory=dict)

    def route(self, source: NodeName, target: NodeName) -> NetworkRoute:
        """Return the route between two nodes; ConfigError if there is none."""
        pair = source, target
        if pair not in self._routes:
            self._routes[pair] = self.router(source, target)
        return self._routes[pair]

    def cut(self, size_bytes: int) -> tuple[int, int, int]:
        """Return how a message is cut: the bytes of a packet, their count, the bytes of the last.

        Headers are included.
        """
        most = min(self.packet_bytes or size_bytes, size_bytes)
        count = -(-size_bytes // most)
        last = size_bytes - (count - 1) * most
        return most + self.header_bytes, count, last + self.header_bytes

    def packets(self, size_bytes: int) -> list[int]:
        """Return the bytes of each packet of a message, header included; the last is shorter."""
        whole, count, last = self.cut(size_bytes)
        return [whole] * (count - 1) + [last]
