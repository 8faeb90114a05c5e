"""Twin of both engines: DRAM without an organisation, stepped cycle by cycle, a third model.

Every copy has ports of its own, so nothing but the shares of DRAM decides. All cycles are the DMA
engine's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Timing(NamedTuple):
    """The chip's numbers: bytes per cycle of a queue and of DRAM, cycles of what costs cycles."""

    own: int
    total: int
    latency: int
    fetch: int


class Work(NamedTuple):
    """A copy: how many of its ends lie in DRAM (1 or 2), and the bytes of its descriptors."""

    ends: int
    sizes: tuple[int, ...]


@dataclass
class _Queue:
    """What a queue has still to do: copies, and of the first one cycles and bytes."""

    works: list[Work]
    latency: int = 0
    fetch: int = 0
    sizes: list[int] = field(default_factory=list)
    passed: int = 0

    def take(self, timing: Timing) -> None:
        self.latency, self.fetch, self.passed = timing.latency, timing.fetch, 0
        self.sizes = list(self.works[0].sizes)


class Outcome(NamedTuple):
    """ends: by queue, the cycle in which each copy ended; traffic: DRAM's bytes in each cycle."""

    ends: list[list[int]]
    traffic: list[int]


def shares_of(total: int, cycle: int, shares: int) -> list[int]:
    """Return what each share gets in a cycle: one byte after the other is dealt out in turn.

    Every cycle goes on with the share after the one that got the last byte of the cycle before.
    """
    got = [0] * shares
    for byte in range(cycle % shares * total, cycle % shares * total + total):
        got[byte % shares] += 1
    return got


def reference(timing: Timing, queues: Sequence[Sequence[Work]]) -> Outcome:
    """Return when the copies of each queue end, all of which may start at once."""
    states = [_Queue(list(works)) for works in queues]
    outcome = Outcome([[] for _ in queues], [])
    for state in states:
        if state.works:
            state.take(timing)
    cycle = 0
    while any(state.works for state in states):
        active = [s for s in states if s.works and not s.latency]
        held = [s.works[0].ends for s in active]
        dealt = shares_of(timing.total, cycle, sum(held)) if active else []
        outcome.traffic.append(0)
        for number, state in enumerate(states):
            if not state.works:
                continue
            if state.latency:
                state.latency -= 1
                continue
            mine, dealt = dealt[: state.works[0].ends], dealt[state.works[0].ends :]
            if state.fetch:
                state.fetch -= 1
                continue
            outcome.traffic[-1] += _move(state, timing, mine, sum(held))
            if state.sizes:
                continue
            state.works.pop(0)
            outcome.ends[number].append(cycle)
            if state.works:
                state.take(timing)
        cycle += 1
    return outcome


def _move(state: _Queue, timing: Timing, mine: list[int], shares: int) -> int:
    """Let a queue use its shares; return the bytes that passed DRAM's pins."""
    ends = state.works[0].ends
    wanted = ends * min(timing.own, *mine)
    if ends == 2 and timing.total < shares:
        wanted = sum(mine)
    moved = min(wanted, ends * state.sizes[0] - state.passed)
    state.passed += moved
    if state.passed == ends * state.sizes[0]:
        state.sizes.pop(0)
        state.passed, state.fetch = 0, timing.fetch
    return moved
