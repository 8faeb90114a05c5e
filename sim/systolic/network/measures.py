"""What one says of a topology at once: its links, its diameter, its bisection."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi, prod, sin

from systolic.network.network import Network
from systolic.network.topologies import GridTopology

MOST_PAIRS = 1 << 18


@dataclass(frozen=True, slots=True)
class TopologyMeasures:
    """links: each way; links of unlike directions count one by one, so that it may be a half.

    diameter: the most links on a route between two hosts. bisection: the links each way between
    two halves of the hosts, cut where they are fewest; None of a network without a name, and where
    the halves are not equal.
    """

    nodes: int
    hosts: int
    links: float
    diameter: int | None
    bisection: int | None


def measures_of(network: Network) -> TopologyMeasures:
    """Return the measures of a network."""
    return TopologyMeasures(
        nodes=len(network.nodes),
        hosts=len(network.hosts),
        links=len(network.links) / 2,
        diameter=_diameter(network),
        bisection=_bisection(network),
    )


def _diameter(network: Network) -> int | None:
    """Return the most links of a route; None for a file of too many nodes to try all pairs."""
    shape = network.shape
    if network.kind == "mesh":
        return sum(size - 1 for size in shape)
    if network.kind in ("ring", "torus"):
        return sum(size // 2 for size in shape)
    hosts = network.hosts
    if len(hosts) ** 2 > MOST_PAIRS:
        return 4 if network.kind == "clos" else None
    return max(
        len(network.route(source, target).links)
        for source in hosts
        for target in hosts
        if source != target
    )


def _bisection(network: Network) -> int | None:
    """Return the links each way across the middle of the longest dimension of even size."""
    if network.kind == "clos":
        leaves = sum(str(node).startswith("leaf") for node in network.nodes)
        spines = sum(str(node).startswith("spine") for node in network.nodes)
        return None if leaves % 2 else min(len(network.hosts), leaves * spines) // 2
    even = [size for size in network.shape if size % 2 == 0]
    if network.kind == "file" or not even:
        return None
    longest = max(even)
    wraps = network.kind != "mesh" and longest > 2
    return prod(network.shape) // longest * (2 if wraps else 1)


def positions(network: Network) -> dict[object, tuple[float, float]]:
    """Return where a picture shows each node: x to the right, y downwards, a unit between two.

    A grid of more than two dimensions is laid side by side; a ring is a circle; a Clos network has
    its hosts below; nodes of a file stand on a circle.
    """
    shape = network.shape
    if network.kind in ("mesh", "torus") and len(shape) >= 1:
        grid = GridTopology(shape, wraps=False)
        found: dict[object, tuple[float, float]] = {}
        for node in network.nodes:
            places = [grid.place(int(node), axis) for axis in range(len(shape))]
            x, y = places[0], places[1] if len(shape) > 1 else 0
            for axis in range(2, len(shape)):
                x += places[axis] * (prod((shape[0] + 1, *shape[2:axis])))
            found[node] = (float(x), float(y))
        return found
    if network.kind == "clos":
        switches = [[n for n in network.nodes if str(n).startswith(k)] for k in ("spine", "leaf")]
        return {
            node: ((place + 0.5) * len(network.hosts) / len(row), 1.6 * level)
            for level, row in enumerate([*switches, list(network.hosts)])
            for place, node in enumerate(row)
        }
    count = len(network.nodes)
    radius = max(1.0, count / (2 * pi) * 1.2)
    return {
        node: (radius * sin(2 * pi * place / count), -radius * cos(2 * pi * place / count))
        for place, node in enumerate(network.nodes)
    }
