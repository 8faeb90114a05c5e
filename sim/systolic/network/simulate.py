"""`systolic.network.run`: messages over a network, and the cycle of each packet's arrival."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from systolic.errors import ConfigError, perhaps
from systolic.network.network import Network
from systolic.network.outcome import NetworkOutcome
from systolic.network.read import read_network
from systolic.network.spec import NodeName
from systolic.network.traffic import Traffic

NetworkEngine: TypeAlias = Literal["event", "stepped"]
MessageTuple: TypeAlias = tuple[NodeName, NodeName, int, int]
"""(source, target, size_bytes, at_cycle)."""


def run(
    network: Mapping[str, Any] | Network,
    messages: Iterable[MessageTuple],
    engine: NetworkEngine = "event",
) -> list[list[int]]:
    """Return, for each message in order, for each packet the cycle of its arrival.

    A packet arrives in the cycle in which its last flit is usable at the target. Cycles are ticks:
    with several clocks a tick is the common period of all of them.

    Args:
        network: as in the table [network] of a system file, or a network that was read before.
        messages: (source, target, size_bytes, at_cycle); messages of one cycle enter in list order.
        engine: "event", or "stepped", which steps every flit in every cycle.

    Raises:
        ConfigError: a network or messages that cannot be: a route that does not fit its links, a
            message to nowhere, a negative time.
        SimulationError: a deadlock, named link by link.

    """
    found = read_network(network)
    outcome = engine_of(engine)(found, traffic_of(messages))
    return [list(map(int, each)) for each in outcome.arrivals]


def engine_of(engine: str) -> Callable[..., NetworkOutcome]:
    """Return the `simulate` of an engine; it is imported when it is asked for."""
    if engine == "event":
        from systolic.network.event.simulate import simulate as event

        return event
    if engine == "stepped":
        from systolic.network.stepped import simulate as stepped

        return stepped
    known = ("event", "stepped")
    raise ConfigError(
        f'engine: needs one of "event", "stepped", found "{engine}"{perhaps(engine, known)}'
    )


def traffic_of(messages: Iterable[MessageTuple]) -> Traffic:
    """Return messages as traffic, each checked on its own."""
    listed = [_checked(number, message) for number, message in enumerate(messages)]
    return Traffic(
        sources=[each[0] for each in listed],
        targets=[each[1] for each in listed],
        sizes_bytes=[each[2] for each in listed],
        entries=[each[3] for each in listed],
    )


def _checked(number: int, message: Sequence[Any]) -> MessageTuple:
    if len(message) != 4:
        raise ConfigError(
            f"message {number}: needs (source, target, size_bytes, at_cycle), found {message!r}"
        )
    source, target, size, cycle = message
    if source == target:
        raise ConfigError(f"message {number}: from node {source!r} to itself")
    for name, value, least in (("size_bytes", size, 1), ("at_cycle", cycle, 0)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ConfigError(
                f"message {number}: {name}: needs an integer >= {least}, found {value!r}"
            )
    return source, target, size, cycle
