"""From the table of a network to a `Network`, or one line that says what does not fit.

Not here: the links of named topologies (`topologies`), files of other kinds (`files`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from systolic.errors import ConfigError, listed, perhaps, shortened
from systolic.network.files import tables_of_file
from systolic.network.network import Network, NetworkLink
from systolic.network.routes import Router, shortest_router, table_router
from systolic.network.spec import LinkSettings, LinkTable, NetworkTable, NodeName, RouteTable
from systolic.network.topologies import topology


def read_network(tables: Mapping[str, Any] | NetworkTable | Network) -> Network:
    """Return the network that tables describe; ConfigError says what does not fit."""
    if isinstance(tables, Network):
        return tables
    if isinstance(tables, NetworkTable):
        return network_of(tables)
    try:
        return network_of(NetworkTable.model_validate(tables))
    except ValidationError as error:
        fault = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        raise ConfigError(f"network: {_place(fault['loc'])}{_said(fault)}") from None


def _place(place: tuple[int | str, ...]) -> str:
    words = [f"#{word}" if isinstance(word, int) else shortened(word) for word in place]
    return f"{' '.join(words)}: " if words else ""


def _said(fault: Any) -> str:
    if fault["type"] == "extra_forbidden":
        known = LinkTable.model_fields | NetworkTable.model_fields | RouteTable.model_fields
        return f"is no key of this table{perhaps(str(fault['loc'][-1]), known)}"
    text = str(fault["ctx"]["error"]) if fault["type"] == "value_error" else fault["msg"]
    found = "" if fault["type"] in ("missing", "value_error") else f", found {fault['input']!r}"
    return f"{text}{shortened(found, 80)}"


def network_of(table: NetworkTable) -> Network:
    """Return the network of a table."""
    if table.file is not None:
        return _of_file(table, table.file)
    if table.kind is not None:
        return _named_topology(table)
    named = {"shape": table.shape, "leaves": table.leaves, "hosts": table.hosts}
    for key, value in (named | {"spines": table.spines, "link": table.link}).items():
        if value is not None:
            raise ConfigError(f"network: {key}: needs a kind of topology beside it")
    if not table.links:
        raise ConfigError("network: needs links, or a kind: ring, mesh, torus or clos")
    periods = Periods(table.clock)
    links = tuple(_link(each, each.source, each.target, periods, 1) for each in table.links)
    nodes = tuple(dict.fromkeys(node for each in links for node in (each.source, each.target)))
    if table.routes:
        router = table_router(table.routes, nodes, links)
    else:
        router = shortest_router(nodes, links)
    return _network(table, (nodes, nodes), links, router, periods)


def _of_file(table: NetworkTable, file: str) -> Network:
    """Return the network whose links and routes stand in a file of their own."""
    if table.kind is not None or table.links or table.routes:
        raise ConfigError("network: file: stands beside a kind, links or routes")
    link = {} if table.link is None else table.link.model_dump(exclude_unset=True)
    own = table.model_dump(exclude={"file", "link"}, exclude_unset=True)
    try:
        return read_network(own | tables_of_file(Path(file), link))
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if text.startswith(file) else f"{file}: {text}") from None


class Periods:
    """The ticks of a cycle of each clock; a tick is the common period of all of them."""

    def __init__(self, clock: Mapping[str, int]) -> None:
        self.clock = clock
        self.ticks_mhz = math.lcm(*clock.values()) if clock else None

    def mhz(self, name: str | None) -> int | None:
        """Return the frequency of a clock; None without a table of clocks."""
        if name is None:
            return next(iter(self.clock.values()), None)
        if name not in self.clock:
            raise ConfigError(
                f'network: clock: no clock "{shortened(name)}" (there are: {listed(self.clock)})'
                f"{perhaps(name, self.clock)}"
            )
        return self.clock[name]

    def ticks(self, name: str | None) -> int:
        """Return the period of a clock in ticks."""
        mhz = self.mhz(name)
        return 1 if mhz is None or self.ticks_mhz is None else self.ticks_mhz // mhz


def _link(
    each: LinkSettings, source: NodeName, target: NodeName, periods: Periods, channels: int
) -> NetworkLink:
    """Return a link; channels: its count where the table says nothing."""
    if source == target:
        raise ConfigError(f"network: a link from node {source} to itself")
    if each.bytes_per_cycle is None:
        raise ConfigError(f"network: the link {source} -> {target} needs bytes_per_cycle")
    return NetworkLink(
        source=source,
        target=target,
        bytes_per_cycle=each.bytes_per_cycle,
        latency_cycles=_latency(each, f"{source} -> {target}", periods),
        slots=each.slots,
        credit_cycles=each.credit_cycles,
        hop_cycles=each.hop_cycles,
        channels=each.channels or channels,
        period=periods.ticks(each.clock),
    )


def _latency(each: LinkSettings, link: str, periods: Periods) -> int:
    if (each.latency_cycles is None) == (each.latency_ns is None):
        raise ConfigError(f"network: the link {link} needs either latency_cycles or latency_ns")
    if each.latency_cycles is not None:
        return each.latency_cycles
    mhz = periods.mhz(each.clock)
    if mhz is None:
        raise ConfigError("network: latency_ns: needs a table clock, which says what a cycle is")
    assert each.latency_ns is not None
    return max(1, math.ceil(round(each.latency_ns * mhz / 1000, 9)))


def _named_topology(table: NetworkTable) -> Network:
    """Return a named topology, all of whose links are alike."""
    if table.links or table.routes:
        raise ConfigError(f'network: links and routes stand beside kind = "{table.kind}"')
    if table.link is None:
        raise ConfigError(f'network: kind = "{table.kind}" needs a table link')
    found = topology(table)
    periods = Periods(table.clock)
    links = tuple(
        _link(table.link, source, target, periods, found.channels) for source, target in found.ends
    )
    if links and links[0].channels < found.channels:
        raise ConfigError(
            f"network: link: channels: a {table.kind} needs {found.channels}, without which its "
            f"routes can deadlock, found {links[0].channels}"
        )
    return _network(table, (found.nodes, found.hosts), links, found.router, periods)


def _network(
    table: NetworkTable,
    nodes: tuple[tuple[NodeName, ...], tuple[NodeName, ...]],
    links: tuple[NetworkLink, ...],
    router: Router,
    periods: Periods,
) -> Network:
    """Return a network; nodes: all of them, and those that are no switches."""
    return Network(
        nodes=nodes[0],
        hosts=nodes[1],
        links=links,
        router=router,
        packet_bytes=table.packet_bytes,
        header_bytes=table.header_bytes,
        forwarding=table.forwarding,
        arbitration=table.arbitration,
        ticks_mhz=periods.ticks_mhz,
        kind=table.kind or "file",
        shape=table.shape or (),
    )
