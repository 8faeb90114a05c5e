"""One label for each link and cycle: sending, blocked by credit of a node, or idle.

From the recorded hops. A link is blocked while its wire is free and a packet that has its bytes
lacks a slot at the far end. Nothing was granted in such a gap; so all that asked in it lacked one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from systolic.network.network import Network
from systolic.network.outcome import HopTimes, NetworkOutcome
from systolic.network.traffic import Traffic

SENDING, IDLE = "sending", "idle"


class LinkInterval(NamedTuple):
    """Ticks `first` to before `stop` of a link. message: that is sent, or -1."""

    first: int
    stop: int
    label: str
    message: int = -1
    packet: int = -1


def link_labels(
    network: Network, traffic: Traffic, outcome: NetworkOutcome
) -> list[tuple[LinkInterval, ...]]:
    """Return, by link, its intervals, which cover the run; hops must have been recorded."""
    by_link: list[list[HopTimes]] = [[] for _ in network.links]
    for hop in outcome.hops:
        by_link[hop.link].append(hop)
    return [
        tuple(_intervals(network, traffic, number, hops, outcome.ticks))
        for number, hops in enumerate(by_link)
    ]


def _intervals(
    network: Network, traffic: Traffic, number: int, hops: list[HopTimes], ticks: int
) -> Iterator[LinkInterval]:
    link = network.links[number]
    hops.sort(key=lambda each: each.granted)
    blocked, free = f"blocked by credit of {link.target}", 0
    for hop, asked in zip(hops, _first_asks(hops, link.period), strict=True):
        since = min(hop.granted, max(free, asked))
        if since > free:
            yield LinkInterval(free, since, IDLE)
        if hop.granted > since:
            yield LinkInterval(since, hop.granted, blocked)
        free = hop.granted + link.flits(_size(network, traffic, hop)) * link.period
        yield LinkInterval(hop.granted, free, SENDING, hop.message, hop.packet)
    if free < ticks:
        yield LinkInterval(free, ticks, IDLE)


def _size(network: Network, traffic: Traffic, hop: HopTimes) -> int:
    whole, count, last = network.cut(traffic.sizes_bytes[hop.message])
    return last if hop.packet == count - 1 else whole


def _first_asks(hops: Sequence[HopTimes], period: int) -> list[int]:
    """Return for each hop when the first asked of those that are granted then or later."""
    asks = [-(-max(hop.first, hop.ready) // period) * period for hop in hops]
    return list(accumulate(reversed(asks), min))[::-1]
