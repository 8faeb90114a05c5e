"""Deadlocks of buffers: a circle in which each full buffer waits for the next one.

`circle_of` also finds the circles that routes make possible, before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from systolic.errors import ConfigError, SimulationError, listed
from systolic.network.network import Network, NetworkLink, NetworkRoute

ChannelBuffer: TypeAlias = tuple[int, int]
"""The buffer at the far end of a link: the link's number, and the channel."""


def circle_of(waits: Mapping[ChannelBuffer, Iterable[ChannelBuffer]]) -> list[ChannelBuffer]:
    """Return buffers that wait each for the next, and the last for the first; or nothing."""
    done: set[ChannelBuffer] = set()
    for start in waits:
        path: list[ChannelBuffer] = []
        place: dict[ChannelBuffer, int] = {}
        stack = [(start, iter(waits[start]))] if start not in done else []
        if stack:
            place[start] = 0
            path.append(start)
        while stack:
            buffer, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                stack.pop()
                path.pop()
                del place[buffer]
                done.add(buffer)
            elif following in place:
                return path[place[following] :]
            elif following not in done and following in waits:
                place[following] = len(path)
                path.append(following)
                stack.append((following, iter(waits[following])))
    return []


def named(links: Sequence[NetworkLink], circle: Iterable[ChannelBuffer]) -> str:
    """Return a circle link by link, ``link 0 (0 -> 1) channel 0, link 1 (1 -> 2) channel 0``."""
    return listed((f"link {n} ({links[n]}) channel {c}" for n, c in circle), most=64)


def refuse_deadlock(
    links: Sequence[NetworkLink],
    waits: Mapping[ChannelBuffer, Iterable[ChannelBuffer]],
    tick: int,
    left: int,
) -> None:
    """Raise SimulationError for a run that has stopped; waits: what each buffer's first waits for.

    left: the messages that have not arrived.
    """
    circle = named(links, circle_of(waits))
    raise SimulationError(
        f"the network is in a deadlock since cycle {tick}, with {left} messages on their way: each "
        f"of these buffers is full and waits for the next, the last for the first: {circle}"
    )


def refuse_circles(network: Network, routes: Iterable[NetworkRoute]) -> None:
    """Raise ConfigError for routes that can deadlock, because their buffers wait in a circle."""
    waits: dict[ChannelBuffer, dict[ChannelBuffer, None]] = {}
    for route in routes:
        buffers = list(zip(route.links, route.channels, strict=True))
        for before, after in pairwise(buffers):
            waits.setdefault(before, {})[after] = None
    if circle := circle_of(waits):
        raise ConfigError(
            "network: these routes can deadlock: each of these buffers can wait for the next, the "
            f"last for the first: {named(network.links, circle)}; another channel where the circle "
            "closes avoids it"
        )
