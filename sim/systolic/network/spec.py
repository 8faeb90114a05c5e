"""What may stand in the table of a network: its links, its routes, or the name of its topology.

Every key is validated on its own, and what must agree between keys of one table. Not here: what
the keys lead to (`read`), and when a packet moves (`event`, `stepped`).
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from systolic.hw.spec.base import Count, Cycles, Side, Spec

NodeName: TypeAlias = int | str
"""The name of a node: a number from 0 in a named topology."""
Forwarding: TypeAlias = Literal["cut_through", "store"]
Arbitration: TypeAlias = Literal["round_robin", "oldest"]
TopologyKind: TypeAlias = Literal["ring", "mesh", "torus", "clos"]


class LinkSettings(Spec):
    """What a link is, wherever it leads; where a file has links, what they leave out."""

    bytes_per_cycle: Count | None = Field(
        default=None, description="bytes of a flit: the link sends a flit in a cycle (needed)"
    )
    latency_cycles: Count | None = Field(
        default=None,
        description="from a flit's being sent to its being usable at the far end (or latency_ns)",
    )
    latency_ns: Annotated[float, Field(gt=0, le=1e12)] | None = Field(
        default=None, description="the same in nanoseconds, rounded up to cycles of the link"
    )
    slots: Count = Field(default=8, description="packets of buffer at the far end, per channel")
    credit_cycles: Count = Field(
        default=1, description="from a packet's leaving the buffer to its slot's being free"
    )
    hop_cycles: Cycles = Field(
        default=0, description="cycles that the node in front of the link takes for a packet"
    )
    channels: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None, description="virtual channels (default: 1; on a ring or torus 2)"
    )
    clock: str | None = Field(default=None, description="its clock (default: the first)")


class LinkTable(LinkSettings):
    """[[network.links]]: a directed link."""

    source: NodeName = Field(description="node that sends")
    target: NodeName = Field(description="node that receives")


class RouteTable(Spec):
    """[[network.routes]]: the way of all packets from one node to another."""

    source: NodeName = Field(description="node where messages enter the network")
    target: NodeName = Field(description="node that takes them")
    links: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False, min_length=1)] = (
        Field(description="numbers of the links, in the order of the network's, from 0")
    )
    channels: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False)] | None = (
        Field(default=None, description="the virtual channel on each of them (default: 0)")
    )


class NetworkTable(Spec):
    """[network]: links and routes, or a topology by its name."""

    kind: TopologyKind | None = Field(default=None, description="topology, or links and routes")
    file: str | None = Field(
        default=None, description="links and routes from a .toml or .graphml file beside this one"
    )
    shape: Annotated[tuple[Side, ...], Field(strict=False, min_length=1)] | None = Field(
        default=None, description="nodes along each dimension of a ring, mesh or torus"
    )
    leaves: Side | None = Field(default=None, description="leaf switches of a Clos network")
    hosts: Side | None = Field(default=None, description="hosts at each leaf of a Clos network")
    spines: Side | None = Field(default=None, description="spine switches of a Clos network")
    link: LinkSettings | None = Field(
        default=None, description="every link of the topology; of a file, what its links leave out"
    )
    packet_bytes: Count | None = Field(
        default=None, description="most bytes of a message in a packet (default: all of them)"
    )
    header_bytes: Cycles = Field(default=0, description="bytes of header that each packet adds")
    forwarding: Forwarding = Field(
        default="cut_through", description="whether a packet goes on before all of it is there"
    )
    arbitration: Arbitration = Field(
        default="round_robin", description="which of several packets a link takes"
    )
    clock: dict[str, Count] = Field(default={}, description="clocks in MHz, by name")
    links: tuple[LinkTable, ...] = Field(default=(), strict=False, description="directed links")
    routes: tuple[RouteTable, ...] = Field(
        default=(), strict=False, description="ways between nodes (default: the shortest)"
    )
