"""Routes from a table, or the shortest ones where the table has none; each must fit its links.

A router is no function inside another, so that networks can be sent to other processes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from systolic.errors import ConfigError, perhaps
from systolic.network.network import NetworkLink, NetworkRoute
from systolic.network.spec import NodeName, RouteTable

Router = Callable[[NodeName, NodeName], NetworkRoute]


def table_router(
    routes: Sequence[RouteTable], nodes: Sequence[NodeName], links: Sequence[NetworkLink]
) -> Router:
    """Return the router of a table of routes; all of them are checked now."""
    known = {(each.source, each.target): _checked(each, links) for each in routes}
    if len(known) < len(routes):
        pairs = [(each.source, each.target) for each in routes]
        source, target = next(pair for pair in pairs if pairs.count(pair) > 1)
        raise ConfigError(f"network: two routes from node {source} to node {target}")
    return partial(_table_route, nodes, known)


def _table_route(
    nodes: Sequence[NodeName],
    known: Mapping[tuple[NodeName, NodeName], NetworkRoute],
    source: NodeName,
    target: NodeName,
) -> NetworkRoute:
    check_nodes((source, target), nodes)
    if (source, target) not in known:
        raise ConfigError(f"network: no route from node {source} to node {target}")
    return known[source, target]


def check_nodes(asked: Sequence[NodeName], nodes: Sequence[NodeName]) -> None:
    """Raise ConfigError for a node that no link names."""
    for node in asked:
        if node not in nodes:
            raise ConfigError(f"network: no node {node!r}{perhaps(str(node), map(str, nodes))}")


def _checked(table: RouteTable, links: Sequence[NetworkLink]) -> NetworkRoute:
    """Return a route whose links lead from its source to its target, on channels that they have."""
    what = f"network: the route from node {table.source} to node {table.target}"
    channels = (0,) * len(table.links) if table.channels is None else table.channels
    if len(channels) != len(table.links):
        raise ConfigError(f"{what} has {len(table.links)} links and {len(channels)} channels")
    here = table.source
    for number, channel in zip(table.links, channels, strict=True):
        if number >= len(links):
            raise ConfigError(f"{what}: no link {number} (there are 0 to {len(links) - 1})")
        link = links[number]
        if link.source != here:
            raise ConfigError(f"{what}: link {number} ({link}) does not begin at node {here}")
        if channel >= link.channels:
            raise ConfigError(
                f"{what}: link {number} ({link}) has {link.channels} channels, found channel "
                f"{channel}"
            )
        here = link.target
    if here != table.target:
        raise ConfigError(f"{what} ends at node {here}")
    return NetworkRoute(table.links, channels)


def shortest_router(nodes: Sequence[NodeName], links: Sequence[NetworkLink]) -> Router:
    """Return the router of fewest links; of equally short ways the one of the first links."""
    leaving: dict[NodeName, list[int]] = {node: [] for node in nodes}
    for number, link in enumerate(links):
        leaving[link.source].append(number)
    return partial(_shortest_route, nodes, links, leaving)


def _shortest_route(
    nodes: Sequence[NodeName],
    links: Sequence[NetworkLink],
    leaving: Mapping[NodeName, Sequence[int]],
    source: NodeName,
    target: NodeName,
) -> NetworkRoute:
    """Return the shortest way; leaving: the numbers of the links from each node."""
    check_nodes((source, target), nodes)
    came_by: dict[NodeName, int] = {}
    queue = deque([source])
    while queue and target not in came_by:
        for number in leaving[queue.popleft()]:
            node = links[number].target
            if node not in came_by and node != source:
                came_by[node] = number
                queue.append(node)
    if target not in came_by:
        raise ConfigError(f"network: no links lead from node {source} to node {target}")
    way = [came_by[target]]
    while links[way[0]].source != source:
        way.insert(0, came_by[links[way[0]].source])
    return NetworkRoute(tuple(way), (0,) * len(way))
