"""A system file: a network, and the messages and collectives that it carries.

Not here: reading TOML (`systolic.run.system`), and what a network does (`event`, `stepped`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from systolic.errors import ConfigError
from systolic.hw.spec.base import Count, Cycles, Spec
from systolic.hw.spec.provenance import Provenance
from systolic.network.collectives.collective import Collective, traffic_of_collective
from systolic.network.deadlock import refuse_circles
from systolic.network.network import Network
from systolic.network.simulate import traffic_of
from systolic.network.spec import NetworkTable, NodeName
from systolic.network.traffic import Traffic


class MessageTable(Spec):
    """[[messages]]: a message, or several alike."""

    source: NodeName = Field(description="node that sends")
    target: NodeName = Field(description="node that receives")
    size_bytes: Count = Field(description="bytes, without headers")
    at_cycle: Cycles = Field(default=0, description="when it enters the network")
    count: Annotated[int, Field(ge=1, le=1 << 20)] = Field(
        default=1, description="how many, one after the other"
    )
    every_cycles: Cycles = Field(default=0, description="from the entry of one to that of the next")


class CollectiveTable(Spec):
    """[[collectives]]: a collective of all nodes that are no switches."""

    operation: str = Field(description="such as all_reduce")
    algorithm: str = Field(default="", description="such as ring (default: the operation's first)")
    size_bytes: Count = Field(description="bytes of a rank's data")
    slices: Count = Field(default=1, description="parts of every chunk that go by themselves")
    alpha_cycles: Cycles = Field(default=0, description="from an arrival to the next send")
    root: Cycles = Field(default=0, description="rank whose data a broadcast sends")
    at_cycle: Cycles = Field(default=0, description="when it starts")


class SystemFile(Spec):
    """A whole system file."""

    name: str = Field(default="", description="name of the system (default: the file's)")
    description: str = Field(default="", description="what it shows")
    engine: Literal["event", "stepped"] = Field(default="event", description="model of the network")
    network: NetworkTable = Field(description="links and routes, or a topology")
    messages: tuple[MessageTable, ...] = Field(default=(), strict=False, description="messages")
    collectives: tuple[CollectiveTable, ...] = Field(
        default=(), strict=False, description="collectives, all at once unless at_cycle differs"
    )
    provenance: Provenance | None = Field(
        default=None, description="where the values come from, and which sources disagree"
    )


def system_traffic(file: SystemFile, network: Network) -> Traffic:
    """Return all messages of a system: its own first, then its collectives'.

    Raises:
        ConfigError: there are none, or routes that they take can deadlock.

    """
    parts = [_messages(file.messages)] if file.messages else []
    parts += [
        traffic_of_collective(network, Collective(**each.model_dump())) for each in file.collectives
    ]
    if not parts:
        raise ConfigError("messages, collectives: needs at least one of them")
    traffic = parts[0] if len(parts) == 1 else Traffic.joined(parts)
    pairs = dict.fromkeys(zip(traffic.sources, traffic.targets, strict=True))
    refuse_circles(network, (network.route(*pair) for pair in pairs))
    return traffic


def _messages(tables: Sequence[MessageTable]) -> Traffic:
    listed = [
        (each.source, each.target, each.size_bytes, each.at_cycle + number * each.every_cycles)
        for each in tables
        for number in range(each.count)
    ]
    return traffic_of(listed)
