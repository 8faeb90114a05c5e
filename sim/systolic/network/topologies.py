"""The named topologies: ring, mesh, torus and Clos: their links, and the way between two nodes.

Ring, mesh and torus: nodes are numbered row by row, x fastest; each node has links to the next and
to the previous node of each dimension, in this order. Routes go along x first, then along y, and so
on, each the shorter way, and the way of higher numbers where both are equally long. Channel 0 up to
the wrap-around link of a dimension, channel 1 on it and after it, so that no circle of buffers can
close (Dally and Seitz, 1987). Clos: host h is at leaf h // hosts; a packet goes up by spine
(source + destination) mod spines, and to a host of its own leaf by no spine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod

from systolic.errors import ConfigError
from systolic.network.network import NetworkRoute
from systolic.network.spec import NetworkTable, NodeName

MOST_NODES = 1 << 16
LinkEnds = tuple[tuple[NodeName, NodeName], ...]


@dataclass(frozen=True, slots=True)
class Topology:
    """The links (source, target), the nodes, the router, and the channels that routes need.

    hosts: the nodes that send and receive; the others are switches.
    """

    nodes: tuple[NodeName, ...]
    hosts: tuple[NodeName, ...]
    ends: LinkEnds
    router: Callable[[NodeName, NodeName], NetworkRoute]
    channels: int


def topology(table: NetworkTable) -> Topology:
    """Return the topology that a table names; ConfigError if a key is missing or too much."""
    if table.kind == "clos":
        return _clos(table)
    for key, value in (("leaves", table.leaves), ("hosts", table.hosts), ("spines", table.spines)):
        if value is not None:
            raise ConfigError(f"network: {key}: is a key of a clos, and the kind is {table.kind}")
    shape = table.shape
    if shape is None:
        raise ConfigError(f'network: kind = "{table.kind}" needs a shape, such as [4, 4]')
    if table.kind == "ring" and len(shape) != 1:
        raise ConfigError(f"network: shape: a ring has one dimension, found {list(shape)}")
    if not 2 <= prod(shape) <= MOST_NODES:
        raise ConfigError(f"network: shape: needs 2 to {MOST_NODES} nodes, found {list(shape)}")
    grid = GridTopology(shape, wraps=table.kind != "mesh")
    nodes = tuple(range(prod(shape)))
    return Topology(nodes, nodes, grid.ends, grid.route, 2)


class GridTopology:
    """A mesh or, with wrap-around links, a torus; a ring is a torus of one dimension."""

    def __init__(self, shape: tuple[int, ...], *, wraps: bool) -> None:
        self.shape, self.wraps = shape, wraps
        self.strides = [prod(shape[:axis]) for axis in range(len(shape))]
        found = tuple(self._links())
        self.ends: LinkEnds = tuple((source, target) for source, target, _ in found)
        self._number = {
            (source, axis_way): number for number, (source, _, axis_way) in enumerate(found)
        }

    def _links(self) -> Iterator[tuple[int, int, tuple[int, int]]]:
        """Yield each link: its source, its target, and its axis and direction."""
        for node in range(prod(self.shape)):
            for axis, size in enumerate(self.shape):
                place = self.place(node, axis)
                for way in (1, -1):
                    inside = 0 <= place + way < size
                    if inside or (self.wraps and size > 2):
                        target = node + ((place + way) % size - place) * self.strides[axis]
                        yield node, target, (axis, way)

    def place(self, node: int, axis: int) -> int:
        """Return a node's coordinate along an axis."""
        return node // self.strides[axis] % self.shape[axis]

    def link(self, source: int, axis: int, way: int) -> int:
        """Return the number of the link from a node along an axis; way: 1 or -1.

        Where a dimension has two nodes, both ways are the same link.
        """
        if self.shape[axis] == 2:
            way = 1 if self.place(source, axis) == 0 else -1
        return self._number[source, (axis, way)]

    def neighbour(self, node: int, axis: int, way: int) -> int:
        """Return the next node along an axis, around the end if need be."""
        place, size = self.place(node, axis), self.shape[axis]
        return node + ((place + way) % size - place) * self.strides[axis]

    def route(self, source: NodeName, target: NodeName) -> NetworkRoute:
        """Return the way along one axis after the other; ConfigError for an unknown node."""
        links, channels = list[int](), list[int]()
        here, goal = _number(source, prod(self.shape)), _number(target, prod(self.shape))
        for axis, size in enumerate(self.shape):
            way, channel = self._way(here, goal, axis), 0
            while self.place(here, axis) != self.place(goal, axis):
                place = self.place(here, axis)
                wraps_here = size > 2 and place == (size - 1 if way == 1 else 0)
                channel = 1 if wraps_here else channel
                links.append(self.link(here, axis, way))
                channels.append(channel)
                here = self.neighbour(here, axis, way)
        return NetworkRoute(tuple(links), tuple(channels))

    def _way(self, here: int, goal: int, axis: int) -> int:
        up = self.place(goal, axis) - self.place(here, axis)
        if not self.wraps:
            return 1 if up > 0 else -1
        size = self.shape[axis]
        return 1 if 2 * (up % size) <= size else -1


def _number(node: NodeName, count: int) -> int:
    if isinstance(node, int) and 0 <= node < count:
        return node
    raise ConfigError(f"network: no node {node!r} (there are 0 to {count - 1})")


def _clos(table: NetworkTable) -> Topology:
    if table.shape is not None:
        raise ConfigError("network: shape: a clos has leaves, hosts and spines instead")
    if table.leaves is None or table.hosts is None or table.spines is None:
        raise ConfigError('network: kind = "clos" needs leaves, hosts (of each leaf) and spines')
    leaves, hosts, spines = table.leaves, table.hosts, table.spines
    count = leaves * hosts
    if count < 2 or count * spines > MOST_NODES:
        raise ConfigError(f"network: a clos of {count} hosts and {spines} spines is not built")
    ends: list[tuple[NodeName, NodeName]] = []
    for host in range(count):
        ends += [(host, f"leaf{host // hosts}"), (f"leaf{host // hosts}", host)]
    for leaf in range(leaves):
        for spine in range(spines):
            ends += [(f"leaf{leaf}", f"spine{spine}"), (f"spine{spine}", f"leaf{leaf}")]
    names = (*range(count), *(f"leaf{n}" for n in range(leaves)))
    nodes: tuple[NodeName, ...] = (*names, *(f"spine{n}" for n in range(spines)))
    router = partial(_clos_route, count, hosts, spines)
    return Topology(nodes, tuple(range(count)), tuple(ends), router, 1)


def _clos_route(
    count: int, hosts: int, spines: int, source: NodeName, target: NodeName
) -> NetworkRoute:
    """Return the way from host to host; count: all hosts, `hosts` of them at each leaf."""
    first, last = _number(source, count), _number(target, count)
    here, there = first // hosts, last // hosts
    links = [2 * first]
    if here != there:
        spine, base = (first + last) % spines, 2 * count
        links += [base + 2 * (here * spines + spine), base + 2 * (there * spines + spine) + 1]
    links.append(2 * last + 1)
    return NetworkRoute(tuple(links), (0,) * len(links))
