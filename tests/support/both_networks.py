"""The two models of a network held against each other: all that they say of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from systolic.errors import SimulationError
from systolic.network.event.simulate import simulate as event
from systolic.network.network import Network
from systolic.network.outcome import NetworkOutcome
from systolic.network.stepped import simulate as stepped
from systolic.network.traffic import Traffic


def observed(run: Callable[[], NetworkOutcome]) -> dict[str, Any]:
    """Return what a run says, as plain values; of a deadlock, which buffers it names."""
    try:
        outcome = run()
    except SimulationError as error:
        return {"deadlock": sorted(str(error).split("for the first: ")[1].split(", "))}
    return {
        "arrivals": [list(each) for each in outcome.arrivals],
        "ticks": outcome.ticks,
        "packets": outcome.packets,
        "packet_hops": outcome.packet_hops,
        "busy": list(outcome.busy_cycles),
        "blocked": list(outcome.blocked_cycles),
        "bytes": (outcome.sent_bytes, outcome.received_bytes),
        "deepest": list(outcome.deepest_packets),
        "entries": list(outcome.entries),
    }


def stepped_run(network: Network, traffic: Traffic) -> dict[str, Any]:
    """Return what the stepped model says, hops included."""
    hops: list[Any] = []

    def run() -> NetworkOutcome:
        outcome = stepped(network, traffic, hops=True)
        hops.extend(sorted(outcome.hops))
        return outcome

    found = observed(run)
    return {**found, "hops": hops}


def event_run(network: Network, traffic: Traffic) -> dict[str, Any]:
    """Return what the event model says packet by packet, hops included."""
    hops: list[Any] = []

    def run() -> NetworkOutcome:
        outcome = event(network, traffic, hops=True)
        hops.extend(sorted(outcome.hops))
        return outcome

    found = observed(run)
    return {**found, "hops": hops}


def packet_run(network: Network, traffic: Traffic) -> dict[str, Any]:
    """Return what the event model says without trains."""
    return observed(lambda: event(network, traffic, train_packets=None))


def train_run(network: Network, traffic: Traffic, fewest: int) -> dict[str, Any]:
    """Return what the event model says with trains of so many packets or more."""
    return observed(lambda: event(network, traffic, train_packets=fewest))
