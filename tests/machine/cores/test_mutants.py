"""Would the comparison of both engines notice? One rule of the register engine bent at a time.

Each by a cycle, a byte or a share. Every mutant leaves another trace than the event engine in at
least one of a few random chips.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from support.compare_traces import assert_same_traces
from support.cores_by_seed import case, run
from systolic.errors import SimulationError
from systolic.machine.register.chip import machine, queue, shares
from systolic.machine.register.chip.bursts import BankedQueue
from systolic.machine.register.chip.machine import ChipMachine
from systolic.machine.register.chip.queue import ChipCopy, ChipQueue
from systolic.machine.register.chip.semaphores import ChipSemaphores
from systolic.machine.register.chip.shares import RunShares, SharesHeld
from systolic.machine.register.dma.unit import CLIENT, DmaQueue
from systolic.machine.simulate_chip import ChipOutcome, simulate_chip
from systolic.trace.words import KINDS

Patch = Any
MUTANTS: dict[str, Callable[[Patch], None]] = {}
SEEDS = range(90)


def mutant(bend: Callable[[Patch], None]) -> Callable[[Patch], None]:
    MUTANTS[(bend.__doc__ or "").rstrip(".")] = bend
    return bend


@mutant
def share_short(patch: Patch) -> None:
    """A share is held a cycle short: from the second cycle of a copy on."""
    known = set[int]()

    def begin(self: ChipQueue, tick: int) -> None:
        DmaQueue.begin(self, tick)
        job = self._job
        if isinstance(job, ChipCopy) and job.latency_left == 0:
            if id(job) in known:
                held = job.holding(self._chip)
                self._around.shares.hold(self._rank, tick + self.period, held)
            known.add(id(job))

    def of_pools(self: SharesHeld, held: RunShares, tick: int, stop: int) -> list[int]:
        wires = self._chip.interconnect
        active = [other for until, other in self._held.values() if until > tick]
        period = self._chip.interconnect_period
        cycles = -(-stop // period) - -(-tick // period)
        return [
            wires.bytes_per_cycle // max(1, sum(o.pools[pool] for o in active)) * cycles
            for pool in (held.pools if wires else ())
            if wires is not None
        ]

    count = SharesHeld._count
    patch.setattr(SharesHeld, "_count", lambda *a: (max(1, count(*a)[0]), count(*a)[1]))
    patch.setattr(SharesHeld, "of_pools", of_pools)
    patch.setattr(ChipQueue, "begin", begin)


@mutant
def rounded_up(patch: Patch) -> None:
    """What is left of B // n bytes of a pool is dealt out."""

    def of_pools(self: SharesHeld, held: RunShares, tick: int, stop: int) -> list[int]:
        whole = of_pools_kept(self, held, tick, stop)
        wires = self._chip.interconnect
        active = [other for until, other in self._held.values() if until > tick]
        rests = [
            wires is not None and wires.bytes_per_cycle % sum(o.pools[pool] for o in active) > 0
            for pool in held.pools
        ]
        return [share + rest for share, rest in zip(whole, rests, strict=False)]

    of_pools_kept = SharesHeld.of_pools
    patch.setattr(SharesHeld, "of_pools", of_pools)


@mutant
def post_early(patch: Patch) -> None:
    """A post of another core is visible a cycle of the interconnect early."""
    send = ChipSemaphores.send

    def early(self: ChipSemaphores, unit: str, tick: int, delay: int, *to: Any) -> None:
        hops = self._joint.hops(*to)
        chip = self._joint.chip
        less = chip.interconnect_period if hops and chip.post_hop_ticks else 0
        send(self, unit, tick, delay - less, *to)

    patch.setattr(ChipSemaphores, "send", early)


@mutant
def takes_one_end(patch: Patch) -> None:
    """A copy that is refused at one end takes the ports of the other."""

    def has_ports(self: ChipQueue, job: ChipCopy, low: int, high: int, tick: int) -> bool:
        needs, is_whole = self._needs(job, low, high), True
        for number, want in needs:
            if refused := self._around.ports[number].refused(want, tick):
                if is_whole:
                    winner = self._record_stall(job, queue.RefusedAt(*refused, number))  # type: ignore[arg-type]
                    self.claims.mark(f"stalled by {winner}", self.now, self.now + 1)
                is_whole = False
            else:
                self._around.ports[number].take(want, tick, self.period, CLIENT)
        return is_whole

    patch.setattr(ChipQueue, "_has_ports", has_ports)


@mutant
def hop_short(patch: Patch) -> None:
    """A copy's latency counts a hop too few."""
    latency = ChipQueue._latency

    def short(self: ChipQueue, job: ChipCopy) -> int:
        cycles = latency(self, job)
        ticks = self._chip.copy_hop_ticks
        return cycles - (cycles > self._spec.latency_cycles and ticks > 0)

    patch.setattr(ChipQueue, "_latency", short)


@mutant
def start_early(patch: Patch) -> None:
    """A core starts a cycle of its processor early."""
    start = ChipMachine.start

    def early(self: ChipMachine, by: Any, tick: int) -> None:
        period = self.joint.chip.queue_periods[str(by[0])]
        start(self, by, tick - period)

    patch.setattr(ChipMachine, "start", early)


@mutant
def accumulates_for_one(patch: Patch) -> None:
    """A copy that accumulates holds one share of its last pool and of its target's controller."""
    holding = queue.holding
    patch.setattr(queue, "holding", lambda c, p, accumulates: holding(c, p, accumulates=False))


@mutant
def duplicate_twice(patch: Patch) -> None:
    """A pool on both ways of a duplicate is held twice."""
    holding = queue.holding

    def twice(chip: Any, places: Any, *, accumulates: bool) -> RunShares:
        found = holding(chip, places, accumulates=accumulates)
        pools = Counter[str]()
        for target in places[1:]:
            pools.update(chip.way(places[0], target).pools)
        return RunShares(pools | found.pools, found.controllers)

    patch.setattr(queue, "holding", twice)


@mutant
def queues_by_number(patch: Patch) -> None:
    """DMA queues ask in the order (queue, feeding core)."""
    patch.setattr(machine, "_rank", lambda one: (one._number, one.rank))


@mutant
def turns_by_tick(patch: Patch) -> None:
    """The turns of a controller's shares go by the tick, not by the cycle of the queue."""
    of_controllers = SharesHeld.of_controllers
    patch.setattr(
        SharesHeld, "of_controllers", lambda s, q, h, tick, _: of_controllers(s, q, h, tick, tick)
    )


@mutant
def lost_posts_count(patch: Patch) -> None:
    """A post that becomes visible before a start counts for what starts."""
    patch.setattr(ChipSemaphores, "_counts", lambda *_: True)


@mutant
def pieces_as_the_first(patch: Patch) -> None:
    """A copy holds the shares of its first piece to its end."""
    holding = ChipCopy.holding

    def first(self: ChipCopy, chip: Any) -> RunShares:
        kept = self.__dict__.setdefault("first_held", holding(self, chip))
        assert isinstance(kept, RunShares)
        return kept

    patch.setattr(ChipCopy, "holding", first)


@cache
def by_event(seed: int) -> ChipOutcome | None:
    return run(seed, "event")


def differs(seed: int) -> bool:
    """Return whether the bent register engine leaves another trace than the event engine."""
    event = by_event(seed)
    chip, module, images = case(seed)
    try:
        bent = simulate_chip(chip, module, images, engine="register", kinds=KINDS)
    except SimulationError:
        return event is not None
    if event is None:
        return True
    try:
        assert_same_traces(event.trace, bent.trace)
    except AssertionError:
        return True
    return False


@mutant
def nothing_kept(patch: Patch) -> None:
    """What bursts leave of a share is lost."""
    passing = BankedQueue._passing

    def none_kept(self: BankedQueue, *given: Any) -> Any:
        return passing(self, *given)[0], 0

    patch.setattr(BankedQueue, "_passing", none_kept)


@mutant
def bursts_hold_shares_of_banks(patch: Patch) -> None:
    """Bursts hold a share of their controller as other copies do."""
    patch.setattr(shares, "_has_shares", lambda chip, place: place.kind == "controller")


@pytest.mark.white_box
@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_bent_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert any(differs(seed) for seed in SEEDS)
