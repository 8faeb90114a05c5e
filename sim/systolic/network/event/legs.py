"""The times of a packet on each link of its route, all in ticks: what does not depend on others.

A packet of B bytes has F = ceil(B / w) flits on a link of w bytes. Behind a link of w bytes and
period T it may take a link of w' bytes and period T' once no flit can be missing: flit j, sent in
t + j T', needs byte min((j + 1) w', B), which is in flit ceil(byte / w) - 1 of the link before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import gcd
from typing import TypeAlias

from systolic.network.network import Network, NetworkLink, NetworkRoute


@dataclass(frozen=True, slots=True)
class Leg:
    """A packet on one link of its route.

    buffer: at the far end, the number of its link and channel counted through. wire: for how long
    the link is taken. tail: from the first flit sent to the last. flight: the latency. credit: from
    the last flit's leaving the far buffer to the slot's being free. wait: from the head's being
    usable at the far end to its asking for the next link, which may then have to wait for an edge
    of its own clock; 0 on the last link.
    """

    link: int
    buffer: int
    period: int
    flits: int
    wire: int
    tail: int
    flight: int
    credit: int
    wait: int
    slots: int
    size_bytes: int


LAST = -1
"""Behind the last link of a route."""

Legs: TypeAlias = tuple[Leg, ...]
"""Of a packet on all links of its route."""


def edge(tick: int, period: int) -> int:
    """Return the first edge of a clock at or after a tick."""
    return tick if period == 1 else -(-tick // period) * period


def leg_builder(network: Network) -> Callable[[NetworkRoute, int], tuple[Leg, ...]]:
    """Return the function that gives the legs of a packet of a size on a route; it remembers."""
    bases = first_buffers(network)
    links, is_stored = network.links, network.forwarding == "store"

    @cache
    def leg(number: int, channel: int, after: int, size_bytes: int) -> Leg:
        link = links[number]
        flits = link.flits(size_bytes)
        wait = 0
        if after != LAST:
            wait = links[after].hop_cycles * links[after].period
            wait += flits * link.period if is_stored else lag_ticks(link, links[after], size_bytes)
        return Leg(
            link=number,
            buffer=bases[number] + channel,
            period=link.period,
            flits=flits,
            wire=flits * link.period,
            tail=(flits - 1) * link.period,
            flight=link.latency_cycles * link.period,
            credit=link.credit_cycles * link.period,
            wait=wait,
            slots=link.slots,
            size_bytes=size_bytes,
        )

    @cache
    def legs(route: NetworkRoute, size_bytes: int) -> Legs:
        return tuple(
            leg(number, channel, after, size_bytes)
            for number, channel, after in zip(
                route.links, route.channels, (*route.links[1:], LAST), strict=True
            )
        )

    return legs


def first_buffers(network: Network) -> list[int]:
    """Return, by link, the number of its first channel's buffer."""
    bases, count = [], 0
    for link in network.links:
        bases.append(count)
        count += link.channels
    return bases


def lag_ticks(before: NetworkLink, after: NetworkLink, size_bytes: int) -> int:
    """Return the least wait from the head's arrival with which no flit is missing.

    The need of a flit repeats every w / gcd(w, w') flits, a constant later or earlier each time; so
    it is greatest in the first such stretch, in the last one, or in the last flit.
    """
    width = before.bytes_per_cycle
    if width == after.bytes_per_cycle and before.period == after.period:
        return 0
    flits = after.flits(size_bytes)
    stretch = width // gcd(width, after.bytes_per_cycle)
    last = flits - 1
    places = {*range(min(stretch, last)), *range(max(0, last - stretch), last), last}

    def need(flit: int) -> int:
        stop_byte = min((flit + 1) * after.bytes_per_cycle, size_bytes)
        return (-(-stop_byte // width) - 1) * before.period - flit * after.period

    return max(need(flit) for flit in places)
