"""The event model: an event for each grant, or for a whole train of packets."""

from __future__ import annotations

from systolic.collector import collector_at_rest
from systolic.network.event.course import FEWEST_PACKETS
from systolic.network.event.links import Links
from systolic.network.event.trains import TrainLinks
from systolic.network.network import Network
from systolic.network.outcome import NetworkOutcome
from systolic.network.traffic import Traffic


def simulate(
    network: Network,
    traffic: Traffic,
    *,
    hops: bool = False,
    arrivals: bool = True,
    train_packets: int | None = FEWEST_PACKETS,
) -> NetworkOutcome:
    """Return what the network does with the traffic.

    hops: whether each hop is recorded, for which there are no trains. arrivals: whether the arrival
    of each packet is kept. train_packets: the fewest packets that are sent together; None for no
    trains.
    """
    with collector_at_rest():  # a run has many objects, and leaves no cycles of references
        if hops or train_packets is None:
            return Links(network, traffic, hops=hops, arrivals=arrivals).run()
        return TrainLinks(network, traffic, arrivals=arrivals, fewest_packets=train_packets).run()
