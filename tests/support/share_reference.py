"""Twin of both engines: DRAM without an organisation, stepped cycle by cycle, a third model.

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
    overlaps: a descriptor's bytes move while it is fetched. outstanding: copies of a queue under
    way. width: bytes that pass a partition's port in a cycle (0: any).
    """

    own: int
    total: int
    latency: int
    fetch: int
    engines: int = 0
    overlaps: bool = False
    outstanding: int = 1
    width: int = 0


class Work(NamedTuple):
    """A copy: how many of its ends lie in DRAM (0 to 2), and the bytes of its bundles.

    rows: descriptors in each bundle; without it each is one.
    """

    ends: int
    sizes: tuple[int, ...]
    rows: tuple[int, ...] = ()


@dataclass
class _Copy:
    """A copy that has started: what is left of its latency, and of the descriptor in hand."""

    work: Work
    latency: int
    fetch: int
    sizes: list[int]
    rows: list[int]
    passed: int = 0


@dataclass
class _Queue:
    """What a queue has still to start, and what it has started, in order."""

    works: list[Work]
    started: list[_Copy] = field(default_factory=list)

    def start(self, timing: Timing) -> None:
        """Start a copy, if there is one and not too many are under way."""
        if self.works and len(self.started) < timing.outstanding:
            work = self.works.pop(0)
            rows = list(work.rows or [1] * len(work.sizes))
            fetch = timing.fetch * rows[0]
            self.started.append(_Copy(work, timing.latency, fetch, list(work.sizes), rows))

    def moving(self) -> _Copy | None:
        """Return the copy that holds shares: the oldest, once its latency is over."""
        first = self.started[0] if self.started else None
        return first if first is not None and not first.latency else None


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
    cycle = 0
    while any(state.works or state.started for state in states):
        for state in states:
            state.start(timing)
        moving = [state.moving() for state in states]
        shares = sum(copy.work.ends for copy in moving if copy)
        dealt = shares_of(timing.total, cycle, shares)
        own = _engine_shares([copy is not None for copy in moving], timing, cycle)
        waiting = [c for state in states for c in state.started if c.latency]
        outcome.traffic.append(0)
        for number, copy in enumerate(moving):
            if copy is None:
                continue
            mine, dealt = dealt[: copy.work.ends], dealt[copy.work.ends :]
            outcome.traffic[-1] += _work(copy, timing, mine, own[number], shares)
            if not copy.sizes:
                states[number].started.pop(0)
                outcome.ends[number].append(cycle)
        for copy in waiting:
            copy.latency -= 1
        cycle += 1
    return outcome


def _engine_shares(moving: Sequence[bool], timing: Timing, cycle: int) -> dict[int, int]:
    """Return, by queue, what its engine gives it in a cycle."""
    engines = timing.engines or len(moving)
    found = {}
    for engine in range(engines):
        mine = [q for q in range(engine, len(moving), engines) if moving[q]]
        found |= dict(zip(mine, shares_of(timing.own, cycle, len(mine)), strict=True))
    return found


def _work(copy: _Copy, timing: Timing, mine: list[int], own: int, shares: int) -> int:
    """Let a copy work for a cycle; return the bytes that passed DRAM's pins."""
    fetches, copy.fetch = copy.fetch > 0, max(0, copy.fetch - 1)
    passed = 0
    if timing.overlaps or not fetches:
        passed = _move(copy, timing, mine, own, shares)
    if copy.passed == max(1, copy.work.ends) * copy.sizes[0] and not copy.fetch:
        copy.sizes.pop(0)
        copy.rows.pop(0)
        copy.passed, copy.fetch = 0, timing.fetch * sum(copy.rows[:1])
    return passed if copy.work.ends else 0


def _move(copy: _Copy, timing: Timing, mine: list[int], own: int, shares: int) -> int:
    """Let a copy use its shares; return the bytes it passed on."""
    passes = max(1, copy.work.ends)
    wanted = passes * min(own, *mine, own)
    if timing.width and copy.work.ends < 2:
        wanted = min(wanted, timing.width * copy.rows[0])
    if copy.work.ends == 2 and timing.total < shares:
        wanted = sum(mine)
    moved = min(wanted, passes * copy.sizes[0] - copy.passed)
    copy.passed += moved
    return moved
