"""How deep the queues at targets become: packets whose message is not complete yet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from systolic.arrays import Integers
from systolic.network.spec import NodeName


def deepest_packets(
    nodes: Sequence[NodeName], targets: Sequence[NodeName], arrivals: Sequence[Sequence[int]]
) -> list[int]:
    """Return, by node, the most packets that have arrived and whose message is not complete.

    The packet that completes a message counts in the tick in which it arrives.
    """
    if not arrivals:
        return [0] * len(nodes)
    number = {node: place for place, node in enumerate(nodes)}
    target = np.array([number[node] for node in targets], dtype=np.int64)
    counts = np.array([len(each) for each in arrivals], dtype=np.int64)
    came = np.fromiter(chain.from_iterable(arrivals), dtype=np.int64, count=int(counts.sum()))
    gone = came[np.cumsum(counts) - 1] + 1  # a message's last packet arrives last
    ticks = np.concatenate([came, gone])
    change = np.concatenate([np.ones_like(came), -counts])
    where = np.concatenate([np.repeat(target, counts), target])
    return _deepest(len(nodes), where, ticks, change)


def _deepest(nodes: int, where: Integers, ticks: Integers, change: Integers) -> list[int]:
    """Return by node the largest sum of changes up to the end of any tick."""
    order = np.lexsort((ticks, where))
    where, ticks = where[order], ticks[order]
    depth = np.cumsum(change[order])  # a node's changes add up to 0, so the next begins with 0
    is_last_of_tick = np.append((ticks[1:] != ticks[:-1]) | (where[1:] != where[:-1]), True)
    found = np.zeros(nodes, dtype=np.int64)
    np.maximum.at(found, where[is_last_of_tick], depth[is_last_of_tick])
    return [int(each) for each in found]
