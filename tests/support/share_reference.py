"""DRAM without an organisation, stepped cycle by cycle: a third model, that no engine knows.

Every copy has ports of its own, so nothing but the shares of DRAM and of DMA engines decides. All
cycles are the DMA engine's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Timing(NamedTuple):
    """The chip's numbers: bytes per cycle of an engine and of DRAM, cycles of what costs cycles.

    engines: queue q belongs to engine q mod engines; 0 stands for an engine for each queue.
    """

    own: int
    total: int
    latency: int
    fetch: int
    engines: int = 0


class Work(NamedTuple):
    """A copy: how many of its ends lie in DRAM (0 to 2), and the bytes of its descriptors."""

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

    def is_moving(self) -> bool:
        """Return whether the latency is over, so that shares are held."""
        return bool(self.works) and not self.latency


class Outcome(NamedTuple):
    """ends: by queue, the cycle in which each copy ended; traffic: DRAM's bytes in each cycle."""

    ends: list[list[int]]
    traffic: list[int]


def shares_of(total: int, cycle: int, shares: int) -> list[int]:
    """Return what each share gets in a cycle: one byte after the other is dealt out in turn.

    Every cycle goes on with the share after the one that got the last byte of the cycle before.
    """
    got = [0] * shares
    if not shares:
        return got
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
        active = [s for s in states if s.is_moving()]
        held = [s.works[0].ends for s in active]
        dealt = shares_of(timing.total, cycle, sum(held)) if sum(held) else []
        own = _engine_shares(states, timing, cycle)
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
            outcome.traffic[-1] += _move(state, timing, mine, own[number], sum(held))
            if state.sizes:
                continue
            state.works.pop(0)
            outcome.ends[number].append(cycle)
            if state.works:
                state.take(timing)
        cycle += 1
    return outcome


def _engine_shares(states: Sequence[_Queue], timing: Timing, cycle: int) -> dict[int, int]:
    """Return, by queue, what its engine gives it in a cycle."""
    engines = timing.engines or len(states)
    found = {}
    for engine in range(engines):
        mine = [q for q in range(engine, len(states), engines) if states[q].is_moving()]
        found |= dict(zip(mine, shares_of(timing.own, cycle, len(mine)), strict=True))
    return found


def _move(state: _Queue, timing: Timing, mine: list[int], own: int, shares: int) -> int:
    """Let a queue use its shares; return the bytes that passed DRAM's pins."""
    ends = state.works[0].ends
    passes = max(1, ends)
    wanted = passes * min(own, *mine, own)
    if ends == 2 and timing.total < shares:
        wanted = sum(mine)
    moved = min(wanted, passes * state.sizes[0] - state.passed)
    state.passed += moved
    if state.passed == passes * state.sizes[0]:
        state.sizes.pop(0)
        state.passed, state.fetch = 0, timing.fetch
    return moved if ends else 0
