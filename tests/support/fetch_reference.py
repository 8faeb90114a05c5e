"""Instruction fetch, stepped cycle by cycle: a third model, that no engine knows.

All queues have one clock, the first; an instruction keeps its queue busy for some cycles from its
start on and waits for nothing but its bytes. So fetch alone decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Timing(NamedTuple):
    """The chip's table [fetch]."""

    slots: int
    bytes_per_cycle: int
    latency: int


class Work(NamedTuple):
    """An instruction: its bytes, and the cycles from its start to the next of its queue."""

    size_bytes: int
    busy: int


def reference(timing: Timing, queues: Sequence[Sequence[Work]]) -> list[list[int]]:
    """Return the cycle in which each instruction of each queue starts.

    A cycle is lived through in this order: the path looks at the slots as the cycle before left
    them; then instructions start whose bytes arrived in an earlier cycle; then bytes move.
    """
    starts: list[list[int]] = [[] for _ in queues]
    fetched = [0] * len(queues)
    arrived: list[list[int]] = [[] for _ in queues]
    busy_until = [0] * len(queues)
    on_path: tuple[int, int] | None = None  # queue, bytes still to move
    last_served = len(queues) - 1
    flying: list[tuple[int, int]] = []  # queue, cycle in which the bytes arrive
    cycle = 0
    while any(len(done) < len(works) for done, works in zip(starts, queues, strict=True)):
        if on_path is None:
            for step in range(1, len(queues) + 1):
                queue = (last_served + step) % len(queues)
                held = fetched[queue] - len(starts[queue])
                if fetched[queue] < len(queues[queue]) and held < timing.slots:
                    on_path = queue, queues[queue][fetched[queue]].size_bytes
                    fetched[queue] += 1
                    last_served = queue
                    break
        for queue, works in enumerate(queues):
            number = len(starts[queue])
            there = number < len(arrived[queue]) and arrived[queue][number] < cycle
            if there and busy_until[queue] <= cycle:
                starts[queue].append(cycle)
                busy_until[queue] = cycle + works[number].busy
        if on_path is not None:
            queue, left = on_path
            left -= timing.bytes_per_cycle
            on_path = (queue, left) if left > 0 else None
            if left <= 0:
                flying.append((queue, cycle + timing.latency))
        for queue, when in [f for f in flying if f[1] == cycle]:
            arrived[queue].append(cycle)
            flying.remove((queue, when))
        cycle += 1
    return starts
