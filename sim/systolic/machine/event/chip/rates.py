"""How fast a copy of a chip moves bytes: the least of all the shares that it holds."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from systolic.machine.event.dma.pace import (
    ALWAYS,
    BytePace,
    HeldShares,
    pace_of,
)

WireBeats = tuple[int, ...]
"""By cycle of a queue, how many cycles of the interconnect begin in it; they repeat."""


@lru_cache(maxsize=256)
def beats_of(queue_period: int, wires_period: int) -> WireBeats:
    """Return how many cycles of the interconnect begin in cycles 0, 1, ... of a queue."""
    common = math.lcm(queue_period, wires_period)
    begins = [-(-cycle * queue_period // wires_period) for cycle in range(common // queue_period)]
    return tuple(
        [after - before for before, after in zip(begins, [*begins[1:], common // wires_period])]  # noqa: B905
    )


class WayRate(NamedTuple):
    """Shares that a copy has of its DMA engine, of controllers and of the pools on its way.

    wires: the bytes that a pool gives it in a cycle of the interconnect; 0: it holds none.
    """

    engine: HeldShares
    drams: tuple[HeldShares, ...]
    wires: int
    beats: WireBeats
    working: tuple[int, int] = ALWAYS

    @property
    def phases(self) -> int:
        """Return after how many cycles every pace at this rate repeats."""
        of = [share.shares for share in (self.engine, *self.drams)]
        return math.lcm(*of, len(self.beats) if self.wires else 1, self.working[1])

    def pace(self, engines: int) -> BytePace:
        """Return the pace of what `engines` engines move side by side."""
        return _shared(self, engines)

    def amounts(self) -> tuple[int, ...]:
        """Return the bytes of cycles 0, 1, ..., which repeat."""
        return tuple([_amount(self, 1, cycle) for cycle in range(self.phases)])


@lru_cache(maxsize=4096)
def _shared(rate: WayRate, engines: int) -> BytePace:
    return pace_of(tuple([_amount(rate, engines, cycle) for cycle in range(rate.phases)]))


def _amount(rate: WayRate, engines: int, cycle: int) -> int:
    first, of = rate.working
    if cycle % of >= first:
        return 0
    (own,) = rate.engine.amounts(cycle)
    shares = [own * engines]
    for dram in rate.drams:
        shares += dram.amounts(cycle)
    if rate.wires:
        shares.append(rate.wires * rate.beats[cycle % len(rate.beats)])
    return min(shares)
