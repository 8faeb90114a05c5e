"""How deep the queues at targets become: packets whose message is not complete yet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systolic.network.spec import NodeName


def deepest_packets(
    nodes: Sequence[NodeName], targets: Sequence[NodeName], arrivals: Sequence[Sequence[int]]
) -> list[int]:
    """Return, by node, the most packets that have arrived and whose message is not complete.

    The packet that completes a message counts in the tick in which it arrives.
    """
    parts: dict[NodeName, list[np.ndarray]] = {}
    for target, each in zip(targets, arrivals, strict=True):
        ticks = np.asarray(each, dtype=np.int64)
        came = np.stack([ticks, np.ones_like(ticks)])
        gone = np.array([[ticks[-1] + 1], [-len(ticks)]])
        parts.setdefault(target, []).extend((came, gone))
    return [_deepest(np.concatenate(parts[node], axis=1)) if node in parts else 0 for node in nodes]


def _deepest(changes: np.ndarray) -> int:
    """Return the largest sum of changes (ticks, by how much) up to the end of any tick."""
    ticks, change = changes[:, np.argsort(changes[0], kind="stable")]
    depth = np.cumsum(change)
    is_last_of_tick = np.append(ticks[1:] != ticks[:-1], True)
    return int(depth[is_last_of_tick].max())
