"""What a run of a network leaves behind. Both engines fill the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class HopTimes(NamedTuple):
    """One packet on one link, in ticks.

    entered: its head is usable in front of the link, or it enters the network there. first: it is
    the first of its FIFO. ready: all that it needs from behind is there. granted: its first flit is
    sent.
    """

    message: int
    packet: int
    hop: int
    link: int
    channel: int
    entered: int
    first: int
    ready: int
    granted: int


@dataclass(frozen=True, eq=False)
class NetworkOutcome:
    """When packets arrived, and what the links did.

    arrivals: by message, for each packet the tick in which its last flit is usable at the target;
    empty if they were not asked for. ticks: the last of all arrivals. busy_cycles, blocked_cycles:
    by link, in cycles of its clock; a link is blocked while its wire is free and a packet that
    has its bytes lacks a slot. sent_bytes, received_bytes: with headers, by message summed up.
    deepest_packets: by node, the most packets at a target whose messages were not complete.
    hops: in order of the grants, if they were asked for.
    """

    arrivals: Sequence[Sequence[int]]
    ticks: int
    packets: int
    packet_hops: int
    busy_cycles: Sequence[int]
    blocked_cycles: Sequence[int]
    sent_bytes: int
    received_bytes: int
    deepest_packets: Sequence[int]
    entries: Sequence[int] = ()
    hops: Sequence[HopTimes] = ()
